"""A reply of any API for a client of Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence

from ..chat.chunk_writer import ChunkWriter
from ..reply.turn_context import TurnContext
from ..reply.words import Arguments, CallBegin, Cited, Delta, Part, Text
from ..wire.errors import OPENAI, ErrorForm, ErrorObject, error_json
from ..wire.finish_reasons import TurnEnd
from ..wire.heartbeats import HEARTBEAT
from ..wire.json_codec import Json
from ..wire.sse import encode
from ..wire.usage import Counts, chat_usage

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
        self._writer = ChunkWriter(reply_id, created, turn.model)
        self.events = self._writer.events
        self.started = self.ended = False
        self._calls: dict[Part, int] = {}
        """Their indexes."""
        self._failed: Json = {}

    @property
    def response(self) -> Json:
        """The completion so far; or the error of a turn that failed."""
        return self._failed or self._writer.completion

    def open(self) -> None:
        self.start()

    def start(self) -> None:
        if not self.started:
            self.started = True
            self._writer.start()

    def heartbeat(self) -> None:
        if self.started and not self.ended:
            self.events.send([HEARTBEAT])

    def say(self, delta: Delta) -> None:
        if isinstance(delta, Text):
            self._writer.text(delta.part.kind, delta.text)
        elif isinstance(delta, CallBegin):
            if delta.part not in self._calls:  # else more of its id
                self._calls[delta.part] = self._writer.begin_call(delta.name, delta.id)
        elif isinstance(delta, Arguments) and (index := self._calls.get(delta.part)) is not None:
            self._writer.arguments(index, delta.text)
        elif isinstance(delta, Cited):
            self._writer.annotate(delta.annotations)

    def fault(self, finish: TurnEnd, lack_value: Sequence[str], *, answered: bool) -> str:  # noqa: ARG002
        return ""

    def settle(self, *, cut: bool) -> None:
        """A call has no end of its own here."""

    def finish(self, finish: TurnEnd, counted: Counts | None, stopped_by: str) -> None:  # noqa: ARG002
        reason = _REASONS[finish]
        if finish == "completed" and self._calls:
            reason = "tool_calls"
        self._writer.end(reason, None if counted is None else chat_usage(counted))
        self.ended = True

    def abandon(self) -> None:
        """What is open stays so."""

    def report(self, error: ErrorObject, counted: Counts | None) -> None:  # noqa: ARG002
        body = error_json(error.message, type=error.type, code=error.code or None)
        frame = encode(body)
        self._failed = frame.json
        self.events.send([frame])
        self.ended = True
