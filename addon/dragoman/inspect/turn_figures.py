"""Figures of turns with tools, by which people choose a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..wire.json_codec import NotJson
from ..wire.json_slices import reading
from ..wire.slices import Slices
from ..wire.sse import is_event_stream
from .outcome import Outcome
from .parse.reply import parsing_whole
from .recorded_calls import recorded_calls
from .summary import ReplySummary

MAX_BODY = 1024 * 1024
"""Bytes of a reply whose calls are read once more at its end."""


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """Of one turn, or sums."""

    turns: int = 0
    """With declared tools."""
    calls: int = 0
    leaked: Mapping[str, int] = field(default_factory=Counter)
    """Calls that leaked, by their format."""
    refused: int = 0
    """Calls whose arguments are no JSON, or refused by their tool's schema."""
    silent: int = 0
    """Turns that ended well without answer or call."""

    def __add__(self, other: TurnFigures) -> TurnFigures:
        return TurnFigures(
            self.turns + other.turns,
            self.calls + other.calls,
            Counter(self.leaked) + Counter(other.leaked),
            self.refused + other.refused,
            self.silent + other.silent,
        )


def figures_of(
    tools: DeclaredTools, evidence: Evidence, seen: ReplySummary, outcome: Outcome
) -> TurnFigures:
    """Of one turn; `seen` and `outcome` are of what the client received."""
    if not tools or not seen.parsed:
        return TurnFigures()
    refused = evidence.refused + seen.refused_calls
    empty = int(outcome.ending == "empty")
    return TurnFigures(1, len(seen.calls), leaked_calls(evidence), refused, empty)


def counting_refused(
    body: bytes, tools: DeclaredTools, evidence: Evidence, seen: ReplySummary
) -> Slices[int]:
    """How many native calls in an upstream's reply, empty if it was not kept, have such
    arguments."""
    has_calls = seen.parsed and len(seen.calls) > leaked_calls(evidence).total()
    refused = 0
    if tools and has_calls and len(body) <= MAX_BODY:
        for name, arguments in (yield from _native(body)):
            refused += tools.refuses(name, arguments)
            yield
    return refused


def leaked_calls(evidence: Evidence) -> Counter[str]:
    """Repaired calls by their format."""
    leaked: Counter[str] = Counter()
    for (name, _), count in evidence.forms.items():
        leaked[name] += count
    return leaked


def _native(body: bytes) -> Slices[list[tuple[str, str]]]:
    """The names and arguments of native calls."""
    if is_event_stream(body):
        return (yield from recorded_calls(body))
    try:
        reply = yield from parsing_whole((yield from reading(body)))
    except NotJson:
        return []
    return [(call.name, call.arguments) for call in reply.calls if call.kind == "function"]
