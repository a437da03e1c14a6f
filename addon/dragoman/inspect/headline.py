"""The headline of a flow: the comment in the list of flows, and its line in the log.

``✓ 2 calls bash, read · bridge · kimi-k2.5 · …``: it begins with the outcome, as mitmweb's list has
room for some seventeen characters.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..notes import Evidence, TurnFacts, printable
from .outcome import LOST, UNREAD, Job, Outcome, calls_in_words, markers_left


def headline(
    outcome: Outcome,
    job: Job,
    turn: TurnFacts,
    evidence: Evidence,
    *,
    model: str = "",
    first: float | None = None,
    status: int = 200,
) -> str:
    """A flow in one line: how it ended, what was done, the model, the figures. `model` is the
    requested one, `first` the seconds from the request to the first token."""
    figures = _figures(outcome, turn, evidence, first, status)
    done = what_was_done(job, outcome, evidence)
    line = (str(outcome), done, printable(model) or turn.model, *figures)
    return printable(" · ".join(filter(None, line)), 1000)


def what_was_done(job: Job, outcome: Outcome, evidence: Evidence) -> str:
    """In a word or two."""
    if job == "bridge":
        return "bridge"
    request = ["cured"] if evidence.cures else []
    if job == "watch":
        unread = [
            f"passed unread ({encoding})" for what, encoding in evidence.notes if what == UNREAD
        ]
        return ", ".join([*request, *unread]) or "passed"
    if evidence.calls or evidence.notes != evidence.of_request or outcome.ending != "answered":
        return ", ".join([*request, "repair"])
    return "".join(request) or "clean"


def _figures(
    outcome: Outcome, turn: TurnFacts, evidence: Evidence, first: float | None, status: int
) -> Iterator[str]:
    if status >= 400 and outcome.what != f"HTTP {status}":
        yield f"HTTP {status}"
    if outcome.ending != "answered":
        yield calls_in_words(turn, evidence)
    yield from (f"{what} {detail}" for what, detail in evidence.notes if what == LOST)
    if evidence.left and outcome.ending != "left":
        yield markers_left(evidence)
    if evidence.calls:
        leaked = ", ".join(sorted(evidence.leaked))
        yield f"{evidence.calls.total()} repaired" + (f" from {leaked}" if leaked else "")
    if turn.upstream.output_tokens is not None:
        yield f"{turn.upstream.output_tokens} tok"
    if first is not None:
        yield f"first {first:.1f} s"
