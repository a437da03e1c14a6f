"""The figures by which people choose a host: what came of a turn for which tools were declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..notes import REPAIRED, Evidence
from ..repair.declared_tools import DeclaredTools
from ..repair.formats import NAMES
from ..wire.sse import is_event_stream
from .outcome import Outcome
from .parse.reply import parse_reply
from .recorded_calls import recorded_calls
from .summary import ReplySummary

OTHER = "other"
"""The format where the note of a call has no room for it."""
MAX_BODY = 1024 * 1024
"""Bytes of a reply that is looked at once more at its end: some milliseconds."""


@dataclass(frozen=True, slots=True)
class TurnFigures:
    """Of one turn, or the sums of several."""

    turns: int = 0
    """Those for which tools were declared."""
    calls: int = 0
    leaked: Mapping[str, int] = field(default_factory=Counter)
    """Calls that leaked, by their format."""
    refused: int = 0
    """Calls whose arguments are no JSON, or such as the schema of their tool refuses."""
    silent: int = 0
    """Turns that ended well with neither an answer nor a call."""

    def __add__(self, other: TurnFigures) -> TurnFigures:
        return TurnFigures(
            self.turns + other.turns,
            self.calls + other.calls,
            Counter(self.leaked) + Counter(other.leaked),
            self.refused + other.refused,
            self.silent + other.silent,
        )


def figures_of(
    body: bytes, tools: DeclaredTools, evidence: Evidence, seen: ReplySummary, outcome: Outcome
) -> TurnFigures:
    """Of the turn to which an upstream answered with `body`, empty if that was not kept.
    `seen` and `outcome` are of what the client received."""
    if not tools or not seen.parsed:
        return TurnFigures()
    leaked = leaked_calls(evidence)
    native = _native(body) if len(seen.calls) > leaked.total() and len(body) <= MAX_BODY else []
    refused = evidence.refused + sum(tools.refuses(*call) for call in native)
    return TurnFigures(1, len(seen.calls), leaked, refused, int(outcome.ending == "empty"))


def leaked_calls(evidence: Evidence) -> Counter[str]:
    """The calls out of repair by their format, which is named first of how one was read."""
    leaked: Counter[str] = Counter()
    for (what, detail), count in evidence.notes.items():
        if what == REPAIRED:
            name = detail.rpartition(" (")[2].partition(",")[0]
            leaked[name if name in NAMES else OTHER] += count
    return leaked


def _native(body: bytes) -> list[tuple[str, str]]:
    """The names and arguments of the calls that stand in a reply as such."""
    if is_event_stream(body):
        return recorded_calls(body)
    calls = [call for choice in parse_reply(body).choices for call in choice.calls]
    return [(call.name, call.arguments) for call in calls if call.kind == "function"]
