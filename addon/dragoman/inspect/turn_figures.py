"""The figures by which people choose a host: what came of a turn for which tools were declared."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..repair.formats import NAMES
from ..wire.sse import is_event_stream
from .parse.reply import parse_reply
from .recorded_calls import recorded_calls
from .summary import ReplySummary

OTHER = "other"
"""The format where the note of a call has no room for it."""
MAX_BODY = 1024 * 1024
"""Bytes of a reply that is looked at once more at its end: some milliseconds."""
_ANSWER = re.compile(rb'"(?:content|refusal)"\s*:\s*"(?:[ ]|\\[nrt])*+(?:[^"\\ ]|\\[^nrt])')
"""Text of a chat stream that is no reasoning, and more than white space."""


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
    body: bytes, tools: DeclaredTools, evidence: Evidence, seen: ReplySummary, *, ended_well: bool
) -> TurnFigures:
    """Of the turn to which an upstream answered with `body`, empty if that was not kept."""
    if not tools or not seen.parsed:
        return TurnFigures()
    leaked = leaked_calls(evidence)
    calls = len(seen.calls) + sum(leaked.values())
    native, answers = _look(body) if 0 < len(body) <= MAX_BODY else ([], True)
    refused = evidence.refused + sum(tools.refuses(*call) for call in native)
    silent = ended_well and not (calls or answers)
    return TurnFigures(1, calls, leaked, refused, int(silent))


def leaked_calls(evidence: Evidence) -> Counter[str]:
    """The calls out of repair by their format, which is named first of how one was read."""
    leaked: Counter[str] = Counter()
    for (what, detail), count in evidence.notes.items():
        if what == "read":
            name = detail.rpartition(" (")[2].partition(",")[0]
            leaked[name if name in NAMES else OTHER] += count
    return leaked


def _look(body: bytes) -> tuple[list[tuple[str, str]], bool]:
    """The calls that stand in a reply as such, and whether it has an answer."""
    if is_event_stream(body):
        return recorded_calls(body), _ANSWER.search(body) is not None
    choices = parse_reply(body).choices
    calls = [call for choice in choices for call in choice.calls if call.kind == "function"]
    answers = any(choice.text.strip() for choice in choices)
    return [(call.name, call.arguments) for call in calls], answers
