"""Reads a chat reply: chunks of a stream, or one message, which has the fields of a delta.

Deltas belong to calls as in the bridge (`wire.chat_calls`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...wire import chat_delta
from ...wire.chat_calls import Call, CallAssembler, elements, read_delta
from ...wire.json_codec import Json, objects, string
from .values import ParsedCall, ParsedChoice, Prose, ProseKind


@dataclass(slots=True)
class _Choice:
    """A choice as far as it has come."""

    parts: list[tuple[ProseKind, list[str]] | Call] = field(default_factory=list)
    """Texts with their kinds, in fragments, and calls."""
    calls: CallAssembler = field(default_factory=CallAssembler)
    custom: set[int] = field(default_factory=set)
    """The places of calls of custom tools in `parts`."""
    finish: str = ""

    def prose(self, kind: ProseKind, text: str) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, tuple) and last[0] == kind:
            last[1].append(text)
        else:
            self.parts.append((kind, [text]))

    def call(self, element: Json, *, whole: bool) -> None:
        delta = read_delta(element)
        if delta is None:
            return
        call, begun = self.calls.take(delta, new=whole)
        if begun:
            if isinstance(element.get("custom"), dict):
                self.custom.add(len(self.parts))
            self.parts.append(call)

    def parsed(self, index: int) -> ParsedChoice:
        parts: list[Prose | ParsedCall] = []
        for at, part in enumerate(self.parts):
            if isinstance(part, tuple):
                parts.append(Prose(part[0], "".join(part[1])))
            else:
                kind = "custom" if at in self.custom else "function"
                parts.append(ParsedCall(part.name, part.id, part.arguments, kind))
        return ParsedChoice(index, tuple(parts), self.finish)


class ChatReader:
    """Reads chunks, or a whole ``chat.completion``."""

    def __init__(self) -> None:
        self._choices: dict[int, _Choice] = {}

    def feed(self, value: Json) -> None:
        for choice in chat_delta.choices(value):
            known = self._choices.setdefault(choice.index, _Choice())
            known.finish = string(choice.fields.get("finish_reason")) or known.finish
            for kind, text in chat_delta.texts(choice.delta):
                known.prose(kind, text)
            for call in objects(elements(choice.delta)):
                known.call(call, whole=choice.whole)

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        return tuple(choice.parsed(index) for index, choice in sorted(self._choices.items()))
