"""What a client waits longer for: each event, and the first one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

from tests.bench.bench import JOBS, Bench
from tests.bench.client import request
from tests.bench.figures import Goal, Row, Samples, quantile
from tests.bench.load import ask, delays

STREAMS = 1, 16, 64
PACE = 50
"""Events a second of each stream."""
SECONDS = 2
SPREAD = 1.0
"""Seconds over which the beginnings of streams are spread."""
GOALS = {(0.5, streams): Goal(0.2) for streams in STREAMS} | {(0.99, 16): Goal(3)}
"""Milliseconds."""


def delay(bench: Bench) -> Iterator[Row]:
    """Added to each event, while its stream is one of few or of many."""
    for streams in STREAMS:
        what = f"delay per event, {streams} streams"
        sides = {job: partial(_delays, bench, job, streams) for job in JOBS}
        found = bench.rounds(what, sides, rounds=4, warm_up=1)
        for job in ("repair", "bridge"):
            for part in (0.5, 0.99):
                baseline, measured = (_samples(found[side], part) for side in ("plain", job))
                goal = GOALS.get((part, streams))
                name = f"{what}: {job}, p{part * 100:.0f}"
                yield Row(name, "ms", baseline, measured, "difference", goal)


def _delays(bench: Bench, job: str, streams: int) -> Sequence[float]:
    asked = request(f"stamped-{SECONDS * PACE}", JOBS[job], pace=str(PACE))
    return delays(bench.of_job(job).port, asked, streams, SPREAD if streams > 1 else 0.0)


def _samples(rounds: Sequence[Sequence[float]], part: float) -> Samples:
    of_rounds = [quantile(of_round, part) for of_round in rounds]
    return Samples(of_rounds, list(itertools.chain.from_iterable(rounds)))


def first_event(bench: Bench) -> Iterator[Row]:
    """From the request to the first text, on a new connection."""
    sides = {job: partial(_first, bench, job) for job in JOBS}
    found = bench.rounds("time to first event", sides, rounds=150, warm_up=10)
    for job in ("repair", "bridge"):
        baseline, measured = Samples(found["plain"]), Samples(found[job])
        yield Row(f"time to first event: {job}", "ms", baseline, measured, "difference", Goal(1))


def _first(bench: Bench, job: str) -> float:
    return ask(bench.of_job(job).port, request("stamped-1", JOBS[job])).first
