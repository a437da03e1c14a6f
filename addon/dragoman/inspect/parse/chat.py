"""A chat reply read: chunks of a stream, or one message.

A message has the fields of a delta.  Which delta belongs to which call is decided as
the bridge decides it (`wire.chat_calls`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...wire import chat_delta
from ...wire.chat_calls import Call, CallAssembler, read_delta
from ...wire.usage import Counts, counts
from .values import Json, ParsedCall, ParsedChoice, Prose, ProseKind, objects, string


@dataclass(slots=True)
class _Run:
    """Words of one kind that followed one another."""

    kind: ProseKind
    fragments: list[str]


@dataclass(slots=True)
class _Said:
    """What one choice has said so far."""

    parts: list[_Run | Call] = field(default_factory=list)
    calls: CallAssembler = field(default_factory=CallAssembler)
    custom: set[int] = field(default_factory=set)
    """The places in `parts` of calls of custom tools."""
    finish: str = ""

    def prose(self, kind: ProseKind, text: str) -> None:
        last = self.parts[-1] if self.parts else None
        if isinstance(last, _Run) and last.kind == kind:
            last.fragments.append(text)
        else:
            self.parts.append(_Run(kind, [text]))

    def call(self, element: Json, *, whole: bool) -> bool:
        """An element of ``tool_calls``; returns whether it says anything."""
        custom = element.get("custom")
        if isinstance(custom, dict):
            function = {"name": custom.get("name"), "arguments": custom.get("input")}
            element = element | {"function": function}
        delta = read_delta(element)
        if delta is None or delta.silent:
            return False
        call, begun = self.calls.take(delta, new=whole)
        if begun:
            if isinstance(custom, dict):
                self.custom.add(len(self.parts))
            self.parts.append(call)
        return True

    def choice(self, index: int) -> ParsedChoice:
        parts: list[Prose | ParsedCall] = []
        for at, part in enumerate(self.parts):
            if isinstance(part, _Run):
                parts.append(Prose(part.kind, "".join(part.fragments)))
            else:
                kind = "custom" if at in self.custom else "function"
                parts.append(ParsedCall(part.name, part.id, part.arguments, kind))
        return ParsedChoice(index, tuple(parts), self.finish)


class ChatReader:
    """Reads chunks, or a whole ``chat.completion``, one object after another."""

    def __init__(self) -> None:
        self._said: dict[int, _Said] = {}
        self.model = ""
        self.usage: Counts | None = None
        self.ended = False

    def feed(self, value: Json) -> bool:
        """Returns whether it carried a token: words, or a part of a call."""
        self.model = self.model or string(value.get("model"))
        self.usage = counts(value) or self.usage
        carried = [self._choice(choice) for choice in objects(value.get("choices"))]
        return any(carried)

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        """What has been said, by index."""
        return tuple(said.choice(index) for index, said in sorted(self._said.items()))

    def _choice(self, choice: Json) -> bool:
        index = choice.get("index")
        said = self._said.setdefault(index if type(index) is int else 0, _Said())
        delta, message = choice.get("delta"), choice.get("message")
        carried = False
        if isinstance(delta, dict):
            carried = _delta(said, delta, whole=False)
        elif isinstance(message, dict):
            carried = _delta(said, message, whole=True)
        said.finish = string(choice.get("finish_reason")) or said.finish
        return carried


def _delta(said: _Said, delta: Json, *, whole: bool) -> bool:
    carried = False
    for kind, text in chat_delta.texts(delta):
        said.prose(kind, text)
        carried = True
    for element in objects(delta.get("tool_calls")):
        carried = said.call(element, whole=whole) or carried
    if function := delta.get("function_call"):
        carried = said.call({"index": -1, "function": function}, whole=whole) or carried
    return carried
