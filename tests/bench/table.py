"""The table that a run prints, as Markdown for the README."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from mitmproxy import version

from tests.bench.figures import Missing, Row, Samples

_HEAD = (
    "| What | Against | Median | p99 | Dragoman's median | p99 | Effect (95 %) | Goal | Verdict |",
    "|---|---|--:|--:|--:|--:|--:|--:|---|",
)


def table(rows: Sequence[Row | Missing]) -> str:
    """All rows, with what they were measured on."""
    return "\n".join([_machine(), "", *_HEAD, *map(line, rows)])


def line(row: Row | Missing) -> str:
    """One row of it."""
    if isinstance(row, Missing):
        return f"| {row.what} | | | | | | | | not measured: {row.why} |"
    theirs, ours = _side(row.baseline), _side(row.measured)
    mark = {"ratio": "×", "times less": "× less"}.get(row.by, row.unit)
    effect, low, high = (_number(value) for value in row.effect)
    goal = f"{row.goal} {mark}" if row.goal else ""
    what = f"{row.what}, {row.unit}"
    cells = (what, row.against, *theirs, *ours, f"{effect} {mark} ({low} to {high})", goal)
    return f"| {' | '.join(cells)} | {row.verdict} |"


def _side(samples: Samples | None) -> tuple[str, str]:
    return (_number(samples.median), _number(samples.p99)) if samples else ("–", "–")


def _number(value: float) -> str:
    """Three digits are all that a measurement has."""
    size = abs(value)
    return f"{value:.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def _machine() -> str:
    return (
        f"{datetime.date.today().isoformat()}, {_cpu()}, {os.cpu_count()} cores, "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"mitmproxy {version.VERSION}"
    )


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
