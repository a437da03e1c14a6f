"""A chat host's reply for a client of Anthropic's Messages API.

Clients join replies with the same id into one, and hosts repeat theirs, so the ids of the message
and of its calls are ours.  Thoughts are signed, as some clients drop those that are not, and come
back in the next request.  Clients give up at ``refusal``, so no filter of a host's becomes one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..messages import names as api
from ..messages.call_ids import new_call_ids
from ..messages.errors import error_event
from ..messages.event_writer import BlockWriter
from ..messages.heartbeats import PING
from ..messages.names import TextKind
from ..notes import Evidence
from ..repair.declared_tools import ToolLookup
from ..reply.event_queue import EventQueue
from ..reply.turn_context import TurnContext
from ..reply.words import Arguments, CallBegin, Cited, Delta, PartEnd, Text
from ..responses.call_emitter import is_object
from ..wire.chat_calls import Call
from ..wire.errors import ErrorForm, ErrorObject
from ..wire.finish_reasons import TurnEnd
from ..wire.json_codec import Json, NotJson, array, loads
from ..wire.sse import encode_event
from ..wire.usage import Counts, messages_usage
from .reply.converter import ReplyConverter
from .request.validation import label

SIGNATURE = "dragoman.1"
"""Of all thoughts: they are read back whatever it is."""


def messages_reply(
    turn: TurnContext, evidence: Evidence, *, message_id: str, errors: ErrorForm
) -> ReplyConverter:
    """`message_id` is new for each reply, as ``msg_0123abc``."""
    writer = MessagesReply(turn, evidence, message_id, errors)
    names = turn.tools.keys() | {tool.name for tool in turn.tools.values()}
    return ReplyConverter(writer, names, evidence, thinks=turn.thinks)


class MessagesReply:
    """Writes what a reply says, in order; see `ReplyWriter`."""

    seeks_summary = False

    def __init__(
        self, turn: TurnContext, evidence: Evidence, message_id: str, errors: ErrorForm
    ) -> None:
        self.errors = errors
        self.events = EventQueue()
        self.started = self.ended = False
        self._writer = BlockWriter(self.events, signature=SIGNATURE)
        self._tools = ToolLookup(turn.tools)
        self._evidence = evidence
        self._estimate = turn.estimate
        self._stops = array(turn.request.get("stop_sequences"))
        self._call_ids = new_call_ids(message_id.removeprefix("msg_"))
        self._characters = 0
        """Written so far."""
        self._blank = ""
        """White space that begins a thought, and waits for a word."""
        self._call = Call()
        """The open call."""
        self._content: list[tuple[Json, list[str]]] = []
        """The blocks, and the pieces of their text or input."""
        self._failed: Json = {}
        usage, _ = messages_usage(None, turn.estimate, 0)
        self._message = api.new_message(message_id, turn.model, usage)

    @property
    def response(self) -> Json:
        """The message so far, without the call that was cut; or the error of a turn that failed."""
        return self._failed or {
            **self._message,
            "content": [_whole(*block) for block in self._content],
        }

    def open(self) -> None:
        """A message begins with the first byte of its upstream, or with a heartbeat."""

    def start(self) -> None:
        if not self.started:
            self.started = True
            self._writer.start(self._message)

    def heartbeat(self) -> None:
        if not self.ended:
            self.start()
            self.events.send([PING])

    # What is said

    def say(self, delta: Delta) -> None:
        if isinstance(delta, Text):
            self._text("thinking" if delta.part.kind == "reasoning" else "text", delta.text)
        elif isinstance(delta, CallBegin):
            self._begin(delta)
        elif isinstance(delta, Arguments):
            self._call.add(delta.text)
            self._characters += len(delta.text)
            self._writer.arguments(delta.text)
        elif isinstance(delta, PartEnd):
            self._end_call(cut=delta.cut)
        elif isinstance(delta, Cited):
            self._evidence.note("dropped", "annotation", len(delta.annotations))

    def _text(self, kind: TextKind, text: str) -> None:
        if self._writer.kind != kind:
            if kind == "thinking":
                text = self._blank + text
                self._blank = text if text.isspace() else ""
                if self._blank:
                    return
            self._blank = ""
            signed = {"signature": SIGNATURE} if kind == "thinking" else {}
            self._content.append(({"type": kind, kind: "", **signed}, []))
        self._content[-1][1].append(text)
        self._characters += len(text)
        self._writer.text(kind, text)

    def _begin(self, call: CallBegin) -> None:
        if self._writer.kind == api.CALL:
            return  # more of its id
        self._blank = ""
        name = call.name
        tool = self._tools.find(name)
        if tool is None:
            self._evidence.note("called", f"undeclared tool {label(name)}")
        elif name not in self._tools.tools:
            self._evidence.note("inferred", f"spelling of tool {label(name)}")
        call_id = next(self._call_ids)
        block = {"type": api.CALL, "id": call_id, "name": tool.name if tool else name}
        self._call = Call(id=call_id, name=block["name"])
        self._content.append((block, self._call.fragments))
        self._writer.begin(block)

    def _end_call(self, *, cut: bool) -> None:
        """What is cut has no end, as clients run a call at that; what is no JSON has: they tell the
        model."""
        name = label(self._call.name)
        if cut:
            self._content.pop()
            self._evidence.note("left open", f"call of {name} that was cut")
        elif not is_object(self._call):
            self._evidence.note("invalid arguments", f"of {name}")
        self._writer.stop(cut=cut)

    def fault(self, finish: TurnEnd, lack_value: Sequence[str], *, answered: bool) -> str:  # noqa: ARG002
        if finish == "content_filter" and not answered:
            return "The upstream's content filter has withheld the answer."
        return ""

    # The end

    def settle(self, *, cut: bool) -> None:  # noqa: ARG002
        self._writer.stop()

    def finish(self, finish: TurnEnd, counted: Counts | None, stopped_by: str) -> None:
        if not self._content:
            self._evidence.note("empty turn")
        usage, estimated = messages_usage(counted, self._estimate, self._characters)
        if estimated:
            self._evidence.note("estimated", "usage")
        reason, sequence = api.END_TURN, None
        if finish == "max_output_tokens":
            reason = api.CUT
        elif any(block["type"] == api.CALL for block, _ in self._content):
            reason = api.TOOL_USE
        elif finish == "completed" and stopped_by in self._stops:
            reason, sequence = api.STOP_SEQUENCE, stopped_by
        ends = api.ends(reason, sequence)
        self._message |= {**ends, "usage": usage}
        self._writer.end({"type": api.MESSAGE_DELTA, "delta": ends, "usage": usage}, reason)
        self.events.send([encode_event({"type": api.MESSAGE_STOP})])
        self.ended = True

    def abandon(self) -> None:
        """What is open stays so."""

    def report(self, error: ErrorObject, counted: Counts | None) -> None:  # noqa: ARG002
        self._failed = error_event(error)
        self.events.send([encode_event(self._failed)])
        self.ended = True


def _whole(block: Json, pieces: list[str]) -> Json:
    """A block as a whole message has it; the input of one that is no JSON is its text."""
    text = "".join(pieces)
    if block["type"] != api.CALL:
        return {**block, block["type"]: text}
    try:
        return {**block, "input": loads(text.strip() or "{}")}
    except NotJson:
        return {**block, "input": text}
