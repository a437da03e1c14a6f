"""How long mitmdump takes to start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.bench import Bench
from tests.bench.figures import Goal, Row, Samples
from tests.bench.processes import write_bytecode
from tests.live.mitmdump import ADDON, Mitmdump


def start(bench: Bench) -> Iterator[Row]:
    """From the command until it listens."""
    write_bytecode()
    confdir = bench.confdir()
    sides = {scripts: partial(_seconds, confdir, scripts) for scripts in ((), (ADDON,))}
    found = bench.rounds("start-up", sides, rounds=8, warm_up=1)
    baseline, measured = Samples(found[()]), Samples(found[ADDON,])
    yield Row("start-up", "s", baseline, measured, "difference", Goal(0.15), "mitmdump alone")


def _seconds(confdir: Path, scripts: tuple[Path, ...]) -> float:
    began = time.perf_counter()
    with Mitmdump(confdir, scripts=scripts):
        return time.perf_counter() - began
