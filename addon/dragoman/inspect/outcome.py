"""How a turn ended, by which the statistics and the metrics count, and with which its headline
begins.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from ..notes import Evidence, ReplyFacts, TurnFacts
from ..reply.facts import UNNAMED
from ..wire.error_codes import known_code
from ..wire.finish_reasons import FINISHES
from .refusals import reason_in, refusal_in

Job = Literal["watch", "repair", "bridge"]
"""`watch`: nothing is done; `bridge` repairs as well."""
Ending = Literal["answered", "left", "cut", "empty", "failed", "unread", "running"]
SIGNS: dict[Ending, str] = {
    "answered": "✓",
    "left": "⚠",
    "cut": "✂",
    "empty": "∅",
    "failed": "✗",
    "unread": "–",
    "running": "…",
}
MAX_NAMES = 5
REFUSED = "refused:"
"""The note on a request that Dragoman answers itself, with an error."""
LOST = "lost its stream:"
"""The note on a reply that two addons wanted to change: who did not, and to whom it was lost."""
OURS = "Dragoman"
UNREAD = "passed unread:"
"""The note on a stream that was not repaired, as its host compressed it: with what."""
_BY_US = "refused by Dragoman"
MAX_REASON = 60
_REFUSALS = frozenset({400, 413, 422})
"""Statuses of a host that does not take the request, whatever its error is called."""
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
    counted: str = ""
    """By which failures are counted, if not by that."""

    def __str__(self) -> str:
        return f"{SIGNS[self.ending]} {self.what}"

    @property
    def reason(self) -> str:
        """By which failures are counted."""
        return self.counted or self.what


RUNNING = Outcome("running", "running")
_UNREAD = Outcome("unread", "no reply of an LLM")


def outcome_of(
    turn: TurnFacts, evidence: Evidence, *, status: int = 200, broken: str = ""
) -> Outcome:
    """The outcome of a flow that has ended. `status` is the client's, 0 without a reply; `broken`
    says in a few words that a connection broke off before the turn had ended."""
    if refused := [detail for what, detail in evidence.notes if what == REFUSED]:
        return Outcome("failed", f"{refused[0]} ({_BY_US})", _BY_US)
    if failed := _failure(turn, evidence, status, broken):
        return failed
    if cut := next(filter(None, map(_cut, turn.client.finishes)), ""):
        return Outcome("cut", cut)
    if calls := calls_in_words(turn, evidence):
        return Outcome("answered", calls)
    if turn.client.answered and evidence.left:
        return Outcome("left", f"{turn.client.answered} · {markers_left(evidence)}")
    if turn.client.answered:
        return Outcome("answered", turn.client.answered)
    return Outcome("empty", "no answer, no call") if turn.upstream.parsed else _UNREAD


def calls_in_words(turn: TurnFacts, evidence: Evidence) -> str:
    """``2 calls bash, read``: what the client received, or at least the repaired calls, where the
    reply was not kept whole; empty without calls."""
    calls = max(Counter(turn.client.calls), evidence.calls, key=Counter.total)
    if not calls:
        return ""
    names = [f"{name} ×{n}" if n > 1 else name for name, n in calls.most_common(MAX_NAMES)]
    more = [f"{len(calls) - MAX_NAMES} more"] if len(calls) > MAX_NAMES else []
    return f"{calls.total()} call{'' if calls.total() == 1 else 's'} {', '.join(names + more)}"


def _failure(turn: TurnFacts, evidence: Evidence, status: int, broken: str) -> Outcome | None:
    if not evidence.lost and status in _REFUSALS and (refused := _refused(turn.upstream)):
        return refused
    why = "lost to another addon" if evidence.lost else _why_failed(turn, status, broken)
    return Outcome("failed", why) if why else None


def _why_failed(turn: TurnFacts, status: int, broken: str) -> str:
    upstream, client = turn.upstream, turn.client
    if upstream.error_code and not (upstream.error_code == UNNAMED and status >= 400):
        return upstream.error_code
    if broken:
        return broken
    if "cancelled" in client.finishes:
        return "cancelled"
    if upstream.early:
        return "ended early"
    own_code = "" if client.error_code == upstream.error_code else client.error_code
    if status >= 400:
        return own_code or f"HTTP {status}"
    failed = (finish for finish in client.finishes if FINISHES.get(finish, finish) == "failed")
    return own_code or next(failed, "")


def _refused(reply: ReplyFacts) -> Outcome | None:
    """Why a host refuses a request, in a few words: what matters first, as the list is narrow.  It
    is counted by the field that is wrong, if there is one."""
    if refusal := refusal_in(reply.error_message):
        return Outcome("failed", refusal.name)
    if known_code(reply.error_code, "", reply.error_message, 400) == "context_length_exceeded":
        return Outcome("failed", "prompt too long")
    field, words = reason_in(reply.error_message, reply.error_param)
    why = ": ".join(filter(None, (field, words)))[:MAX_REASON].strip()
    return Outcome("failed", why, field[:MAX_REASON]) if why else None


def markers_left(evidence: Evidence) -> str:
    return f"{evidence.left} marker{'' if evidence.left == 1 else 's'} left"


def _cut(finish: str) -> str:
    return _CUTS.get(FINISHES.get(finish, finish), "")
