"""One line that says what became of a flow: ``bridge · kimi-k2.5 · 2 calls (bash) · …``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..notes import Evidence, printable
from .exchange import Job
from .summary import ReplySummary
from .turn_figures import leaked_calls

MAX_NAMES = 5
"""Names of calls that a headline lists."""


def headline(
    job: Job,
    seen: ReplySummary,
    evidence: Evidence,
    *,
    model: str = "",
    first: float | None = None,
    ended: str = "",
) -> str:
    """The headline of a flow that may still run.

    `model` is what the request asked for, `first` the seconds from the request to the
    first token, `ended` how the flow ended if not well.
    """
    return " · ".join(_parts(job, seen, evidence, model=model, first=first, ended=ended))


def _parts(
    job: Job, seen: ReplySummary, evidence: Evidence, *, model: str, first: float | None, ended: str
) -> Iterator[str]:
    if job == "bridge":
        yield "bridge"
    elif job == "watch":
        yield "passed"
    else:
        clean = evidence.empty and not ended and not seen.failed
        yield "clean" if clean else "repair"
    if model or seen.model:
        yield printable(model) or seen.model
    if seen.calls or evidence.calls:
        yield _calls(seen, evidence)
    if seen.output_tokens is not None:
        yield f"{seen.output_tokens} tok"
    if first is not None:
        yield f"first {first:.1f} s"
    if ended or seen.failed:
        yield f"failed: {ended or seen.failed}"


def _calls(seen: ReplySummary, evidence: Evidence) -> str:
    names = Counter(seen.calls) + evidence.calls
    total, repaired = names.total(), evidence.calls.total()
    count = f"{total} call{'' if total == 1 else 's'}"
    if repaired:
        count += " repaired" if repaired == total else f", {repaired} repaired"
        if leaked := leaked_calls(evidence):
            count += f" from {', '.join(sorted(leaked))}"
    listed = [f"{name} ×{n}" if n > 1 else name for name, n in names.most_common(MAX_NAMES)]
    more = [f"{len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
    return f"{count} ({', '.join(listed + more)})"
