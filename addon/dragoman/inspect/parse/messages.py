"""Reads a reply of the Messages API: the events of a stream, or a whole message."""

from __future__ import annotations

from ...wire import messages as api
from ...wire.json_codec import Json, dumps, string
from ...wire.messages import Blocks
from .values import ParsedCall, ParsedChoice, Prose


class MessagesReader:
    """Reads events, or a whole ``message``."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._finish = ""

    def feed(self, event: Json) -> None:
        self._finish = api.stop_reason_in(event) or self._finish
        self._blocks.feed(event)

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        parts = tuple(map(_part, self._blocks.whole))
        return (ParsedChoice(0, parts, self._finish),) if parts or self._finish else ()


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
