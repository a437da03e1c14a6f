"""Repair of a stream in which a host speaks the Messages API itself.

A name of a call of the host's loses its markup, as in chat.
A block that has begun waits for the first word of its text: where a call comes first, there is no
such block for the client.  What is a call only if its turn ends with it waits for what follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...messages import names as api
from ...messages.names import Blocks
from ...messages.tools import tools_declared
from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools, is_json_form, tools_by_id
from ...repair.formats.active import ActiveFormats
from ...repair.model_family import families_of
from ...repair.policy import Policy
from ...repair.scanner import Scanner
from ...responses.host_reader import HostText, ItemAdded, ItemDone, Said, TextDelta
from ...wire.chat_end import is_whole
from ...wire.context_overflow import reworded_frame, with_overflow_reworded
from ...wire.errors import reports_error
from ...wire.json_codec import Json, dumps, objects, string
from ...wire.sse import Document, Frame
from .client_message import ClientMessage
from .message_reader import MessageReader
from .native_repair import Client, End, NativeRepair, ScannedText, Waiting

OVERFLOW_REWORDED = ("said in the words that clients know", "an error of a prompt that is too long")
"""For the record."""
MAX_WORDLESS = 64
"""Frames in a row that wait for the first word of a block."""


@dataclass(frozen=True, slots=True)
class MessagesTools:
    """The tools of a Messages request."""

    declared: DeclaredTools

    @classmethod
    def of_request(cls, request: object, received: object = None) -> MessagesTools:
        """From a request's body; anything unreadable declares nothing.  `received` is the one that
        the client sent, if that differs: reminders of role `system` are the user's in a cured one.
        Hosts map names of Claude's models to others, so such a name says nothing of the model."""
        body: Json = request if isinstance(request, dict) else {}
        choice, output = body.get("tool_choice"), body.get("output_config")
        told = received if isinstance(received, dict) else body
        tools = tools_declared({**body, "messages": told.get("messages")})
        # Under the client's name, where another was sent.
        given = {string(tool.get("name")) for tool in objects(told.get("tools"))}
        calls = api.calls_in(body.get("messages"))
        declared = DeclaredTools(
            {tool.name: tool.schema for tool in tools if tool.kind != "deferred"},
            only_named={t.name for t in tools if t.kind == "deferred" and t.name not in given},
            model=_known(body.get("model")),
            forbidden=isinstance(choice, dict) and choice.get("type") == "none",
            wants_json=is_json_form(output.get("format") if isinstance(output, dict) else None),
            called=tools_by_id((string(c.get("id")), string(c.get("name"))) for c in calls),
        )
        return cls(declared)


def _known(model: object) -> str:
    """The name of a model, if that says whose it is."""
    name = string(model)
    return "" if "anthropic" in families_of(name) else name


class MessagesRepair(NativeRepair):
    def __init__(self, tools: MessagesTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._reader = MessageReader()
        super().__init__(self._reader, policy, evidence, now)
        self._tools = tools.declared
        self._message = ClientMessage(tools.declared, policy, evidence, now)
        self._model: str | None = None
        """What the reply calls its model; None while no text has come."""
        self._wordless = 0
        """Frames in a row that came since the latest block began, while no word of it has."""

    def heartbeat(self) -> Frame:
        begun = self._reader.message is not None
        return api.PING if begun and not self._ended else Frame(b"")

    def error(self, message: str) -> Frame:
        return api.encoded(api.error_body(message))

    def feed(self, frame: Frame) -> list[Frame]:
        reworded = reworded_frame(frame)
        if reworded is not frame:
            self._evidence.note(*OVERFLOW_REWORDED)
        return super().feed(reworded)

    def document(self, body: bytes) -> bytes:
        """It is read as the events by which it would have been streamed."""
        message = Document(body).readable(self._evidence)
        if not isinstance(message, dict) or not api.is_message(message):
            reworded = with_overflow_reworded(message)
            if reworded is message:
                return body
            self._evidence.note(*OVERFLOW_REWORDED)
            return dumps(reworded)
        blocks, ends = Blocks(), message
        frames = [sent for each in api.events_of(message) for sent in self.feed(api.encoded(each))]
        for frame in frames:
            blocks.feed(frame.value)
            if frame.value["type"] == api.MESSAGE_DELTA:
                ends = frame.value["delta"]
        if self._client is None:
            return body
        return dumps({**message, "content": blocks.whole, "stop_reason": ends["stop_reason"]})

    def _end_with(self, waiting: Waiting) -> End | None:
        event = waiting.event
        if event is None:
            self._ended |= reports_error(waiting.frame)
            return Scanner.abandon if self._ended else None
        if event["type"] == api.MESSAGE_STOP:
            self._ended = True
            return Scanner.close
        if event["type"] == api.MESSAGE_DELTA and (reason := api.stop_reason_in(event)):
            return lambda scanner: scanner.close(whole=is_whole(reason))
        return None

    def _must_defer(self, event: Json, _: ScannedText) -> bool:
        return self._reader.index_of(event) is not None and api.text_in(event) is None

    def _read(self, waiting: Waiting) -> None:
        super()._read(waiting)
        self._wordless += self._wordless > 0
        for said in waiting.said:
            if isinstance(said, ItemAdded):
                is_text = said.item.get("type") in api.TEXTS
                self._wordless = max(1, self._wordless) if is_text else 0
            elif isinstance(said, TextDelta):
                self._wordless *= said.delta.isspace()
            elif isinstance(said, ItemDone) or said.index is None:
                self._wordless = 0
        waiting.lasts = 0 < self._wordless <= MAX_WORDLESS

    def _hear(self, said: Said, waiting: Waiting, *, alone: bool = False) -> None:
        if isinstance(said, ItemAdded) and said.item.get("type") == api.CALL:
            name = self._tools.of_native(string(said.item.get("name")))
            if name is not None:
                self._evidence.note("took out", f"what is not part of the name of {name}")
                said = ItemAdded(said.index, {**said.item, "name": name})
                if self._client is None:
                    self._write_by(self._message)
        super()._hear(said, waiting, alone=alone)

    def _reading(self, _: HostText) -> tuple[DeclaredTools, str, ActiveFormats]:
        if self._model is None:
            self._model = _known((self._reader.message or {}).get("model"))
        formats = self._policy.formats.active(self._tools.model, self._model, claude=True)
        return self._tools, self._model, formats

    def _begin_client(self, _: HostText, __: list[Said]) -> Client:
        return self._message

    def _pass(self, waiting: Waiting) -> Frame:
        for said in waiting.said:
            self._message.passed(said)
        return waiting.frame
