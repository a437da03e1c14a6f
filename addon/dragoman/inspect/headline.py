"""A flow in one line, ``✓ 2 calls bash, read · bridge · kimi-k2.5 · …``: how it ended (`outcome`),
what was done, the model, the figures."""

from __future__ import annotations

from collections.abc import Iterator

from ..notes import Evidence, printable
from .exchange import Job
from .outcome import Outcome, calls_of, listed
from .summary import ReplySummary


def headline(
    outcome: Outcome,
    job: Job,
    reply: ReplySummary,
    evidence: Evidence,
    *,
    model: str = "",
    first: float | None = None,
    status: int = 200,
) -> str:
    """`model` is the requested one, `first` the seconds from the request to the first token."""
    figures = _figures(outcome, reply, evidence, first, status)
    line = (str(outcome), _done(job, outcome, evidence), printable(model) or reply.model, *figures)
    return printable(" · ".join(filter(None, line)), 1000)


def _done(job: Job, outcome: Outcome, evidence: Evidence) -> str:
    if job == "bridge":
        return "bridge"
    cured = ["cured"] if evidence.of_request else []
    if job == "watch":
        return "".join(cured) or "passed"
    if evidence.reply_lines() or evidence.calls or outcome.ending != "answered":
        return ", ".join([*cured, "repair"])
    return "".join(cured) or "clean"


def _figures(
    outcome: Outcome, reply: ReplySummary, evidence: Evidence, first: float | None, status: int
) -> Iterator[str]:
    if status >= 400 and outcome.what != f"HTTP {status}":
        yield f"HTTP {status}"
    calls = calls_of(reply, evidence)
    if calls and outcome.ending != "answered":
        yield listed(calls)
    if evidence.calls:
        leaked = ", ".join(sorted(evidence.leaked))
        yield f"{evidence.calls.total()} repaired" + (f" from {leaked}" if leaked else "")
    if reply.output_tokens is not None:
        yield f"{reply.output_tokens} tok"
    if first is not None:
        yield f"first {first:.1f} s"
