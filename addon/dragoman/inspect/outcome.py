"""How a turn ended: the words with which the comment and the log line begin, and by which the
statistics and the metrics count.

mitmweb's list has room for some seventeen characters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ..notes import Evidence
from ..wire.chat_end import FINISHES

if TYPE_CHECKING:  # `summary` imports what needs an `Exchange`, which has an outcome
    from .summary import ReplySummary

Ending = Literal["answered", "cut", "empty", "failed", "unread", "running"]
ENDINGS: tuple[str, ...] = get_args(Ending)

SIGNS: dict[Ending, str] = {
    "answered": "✓",
    "cut": "✂",
    "empty": "∅",
    "failed": "✗",
    "unread": "–",
    "running": "…",
}
MAX_NAMES = 5
REFUSED = "refused:"
"""The note on a request that Dragoman answers itself, with an error."""
UNNAMED = "error"
"""The code of an error that has none."""
_CUTS = {
    "max_output_tokens": "max tokens",
    "content_filter": "content filter",
    "incomplete": "incomplete",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    ending: Ending
    what: str
    """The calls, the limit, the error's code …"""

    def __str__(self) -> str:
        return f"{SIGNS[self.ending]} {self.what}"

    @property
    def reason(self) -> str:
        return self.what.partition(":")[0]


RUNNING = Outcome("running", "running")
_UNREAD = Outcome("unread", "no reply of an LLM")


def outcome_of(
    reply: ReplySummary, evidence: Evidence, *, status: int = 200, broken: str = ""
) -> Outcome:
    """The outcome of a flow that has ended. `status` is the client's, 0 without a reply; `broken`
    says in a few words that a connection broke off."""
    if failed := _failure(reply, evidence, status, broken):
        return Outcome("failed", failed)
    if cut := next(filter(None, map(_cut, reply.finishes)), ""):
        return Outcome("cut", cut)
    if calls := calls_of(reply, evidence):
        return Outcome("answered", listed(calls))
    if reply.answered:
        return Outcome("answered", "text")
    return Outcome("empty", "no answer, no call") if reply.parsed else _UNREAD


def calls_of(reply: ReplySummary, evidence: Evidence) -> Counter[str]:
    """The calls that the client received, by name; at least the repaired ones, where the reply was
    not kept whole."""
    return max(Counter(reply.calls), evidence.calls, key=Counter.total)


def listed(calls: Counter[str]) -> str:
    """``2 calls bash, read``."""
    names = [f"{name} ×{n}" if n > 1 else name for name, n in calls.most_common(MAX_NAMES)]
    more = [f"{len(calls) - MAX_NAMES} more"] if len(calls) > MAX_NAMES else []
    return f"{calls.total()} call{'' if calls.total() == 1 else 's'} {', '.join(names + more)}"


def _failure(reply: ReplySummary, evidence: Evidence, status: int, broken: str) -> str:
    refused = [detail for what, detail in evidence.notes if what == REFUSED]
    if refused:
        return f"refused by Dragoman: {refused[0]}"
    if reply.failed and not (reply.failed == UNNAMED and status >= 400):
        return reply.failed
    if broken:
        return broken
    if "cancelled" in reply.finishes:
        return "cancelled"
    if reply.early:
        return "ended early"
    if status >= 400:
        return reply.refused or f"HTTP {status}"
    failed = (finish for finish in reply.finishes if FINISHES.get(finish, finish) == "failed")
    return reply.refused or next(failed, "")


def _cut(finish: str) -> str:
    """`finish` is of either API."""
    reason = finish.removeprefix("incomplete: ")
    return _CUTS.get(FINISHES.get(reason, reason), "")
