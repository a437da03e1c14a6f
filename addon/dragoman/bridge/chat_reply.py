"""A reply of any API for a client of Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence

from ..reply.event_queue import EventQueue
from ..reply.turn_context import TurnContext
from ..reply.words import Arguments, CallBegin, Cited, Delta, Kind, Part, Text
from ..wire.errors import OPENAI, ErrorForm, ErrorObject, error_json
from ..wire.finish_reasons import TurnEnd
from ..wire.json_codec import Json
from ..wire.sse import DONE, HEARTBEAT, Frame, encode, encode_chunk
from ..wire.usage import Counts, chat_usage

_FIELDS: dict[Kind, str] = {
    "text": "content",
    "reasoning": "reasoning_content",
    "refusal": "refusal",
}
_REASONS: dict[TurnEnd, str] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


class ChatReply:
    """Writes what a reply says, in order; see `ReplyWriter`."""

    errors: ErrorForm = OPENAI
    seeks_summary = False

    def __init__(self, turn: TurnContext, reply_id: str, created: int) -> None:
        self.events = EventQueue()
        self.started = self.ended = False
        self._head: Json = {"id": reply_id, "object": "chat.completion.chunk", "created": created}
        self._head |= {"model": turn.model}
        self._message: Json = {"role": "assistant", "content": None}
        self._calls: dict[Part, Json] = {}
        self._finish: str | None = None
        self._usage: Json = {}
        self._failed: Json = {}

    @property
    def response(self) -> Json:
        """The completion so far; or the error of a turn that failed."""
        if self._failed:
            return self._failed
        message = self._message
        if self._calls:
            message = message | {"tool_calls": [*self._calls.values()]}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        head = self._head | {"object": "chat.completion", "choices": [choice]}
        return head | ({"usage": self._usage} if self._usage else {})

    def open(self) -> None:
        self.start()

    def start(self) -> None:
        if not self.started:
            self.started = True
            self._send({"role": "assistant", "content": ""})

    def heartbeat(self) -> None:
        if self.started and not self.ended:
            self.events.send([HEARTBEAT])

    def _send(self, delta: Json, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.events.send([self._chunk({"choices": [choice]})])

    def _chunk(self, members: Json) -> Frame:
        return encode_chunk(self._head | members)

    def say(self, delta: Delta) -> None:
        if isinstance(delta, Text) and (name := _FIELDS.get(delta.part.kind)):
            self._message[name] = (self._message.get(name) or "") + delta.text
            self._send({name: delta.text})
        elif isinstance(delta, CallBegin):
            self._begin(delta)
        elif isinstance(delta, Arguments) and (call := self._calls.get(delta.part)):
            call["function"]["arguments"] += delta.text
            index = list(self._calls).index(delta.part)
            self._send({"tool_calls": [{"index": index, "function": {"arguments": delta.text}}]})
        elif isinstance(delta, Cited):
            self._message.setdefault("annotations", []).extend(delta.annotations)
            self._send({"annotations": delta.annotations})

    def _begin(self, delta: CallBegin) -> None:
        if delta.part in self._calls:
            return  # more of its id
        index = len(self._calls)
        function = {"name": delta.name, "arguments": ""}
        call = {"id": delta.id or f"call_{index}", "type": "function", "function": function}
        self._calls[delta.part] = call
        self._send({"tool_calls": [{"index": index, **call}]})

    def fault(self, finish: TurnEnd, lack_value: Sequence[str], *, answered: bool) -> str:  # noqa: ARG002
        return ""

    def settle(self, *, cut: bool) -> None:
        """A call has no end of its own here."""

    def finish(self, finish: TurnEnd, counted: Counts | None, stopped_by: str) -> None:  # noqa: ARG002
        self._finish = _REASONS[finish]
        if finish == "completed" and self._calls:
            self._finish = "tool_calls"
        self._send({}, self._finish)
        if counted is not None:
            self._usage = chat_usage(counted)
            self.events.send([self._chunk({"choices": [], "usage": self._usage})])
        self.events.send([DONE])
        self.ended = True

    def abandon(self) -> None:
        """What is open stays so."""

    def report(self, error: ErrorObject, counted: Counts | None) -> None:  # noqa: ARG002
        body = error_json(error.message, type=error.type, code=error.code or None)
        frame = encode(body)
        self._failed = frame.value
        self.events.send([frame])
        self.ended = True
