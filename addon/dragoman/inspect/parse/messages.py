"""Reads a reply of the Messages API: the events of a stream, or a whole message."""

from __future__ import annotations

from ...wire import messages as api
from ...wire.errors import ErrorObject, read_error
from ...wire.json_codec import Json, dumps, string
from ...wire.messages import Blocks
from ...wire.usage import Counts, counts, merged
from .values import ParsedCall, ParsedChoice, Prose


class MessagesReader:
    """Reads events, or a whole ``message``."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self.model = self.id = self.finish = ""
        self.usage: Counts | None = None
        self.error: ErrorObject | None = None
        self.ended = False

    def feed(self, event: Json) -> None:
        if isinstance(message := event.get("message"), dict):
            self.model = string(message.get("model")) or self.model
            self.id = string(message.get("id")) or self.id
        self.usage = merged(self.usage, counts(event))
        self.error = read_error(event) or self.error
        self.finish = api.stop_reason_in(event) or self.finish
        self.ended = self.ended or event.get("type") == api.MESSAGE_STOP
        self._blocks.feed(event)

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        parts = tuple(map(_part, self._blocks.whole))
        return (ParsedChoice(0, parts, self.finish),) if parts or self.finish else ()


def _part(block: Json) -> Prose | ParsedCall:
    """A block that is no text of the model's is shown as a call of the host's."""
    kind = string(block.get("type"))
    if kind in api.TEXTS:
        return Prose("text" if kind == "text" else "reasoning", string(block.get(api.TEXTS[kind])))
    given = block.get("input")
    arguments = given if isinstance(given, str) else dumps(given or {}).decode()
    name = string(block.get("name")) or kind
    shown = "function" if kind == api.CALL else kind
    return ParsedCall(name, string(block.get("id")), arguments, shown)
