"""The memory that streams take while they are open, and that they leave behind."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.bench.bench import JOBS, Bench, progress
from tests.bench.client import fetch, request
from tests.bench.figures import Goal, Row, Samples
from tests.bench.processes import Proxy

IDLE, RECEIVED = 500, 5
"""Streams, and the events of each."""
WARM_UP, LATER, BETWEEN = 1_000, 3_000, 500
_KILO = 1024.0


def _settled(proxy: Proxy) -> float:
    """Kilobytes, once it has let go of what it does not need."""
    time.sleep(0.5)
    proxy.settle()
    proxy.settle()
    return proxy.memory * _KILO


def _many(proxy: Proxy, asked: bytes, count: int) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda _: fetch(proxy.port, asked), range(count)):
            pass


def _idle(bench: Bench, job: str) -> float:
    """Kilobytes of each of many streams that wait for their next event."""
    api = JOBS[job]
    with bench.new_proxy(plain=job == "plain") as proxy, contextlib.ExitStack() as open_ones:
        _many(proxy, request(f"thinking-{RECEIVED}", api), IDLE)
        before = _settled(proxy)
        for _ in range(IDLE):
            connection = socket.create_connection(("127.0.0.1", proxy.port), 60)
            open_ones.enter_context(contextlib.closing(connection))
            connection.sendall(request(f"thinking-{RECEIVED}", api, pace="hold"))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        grown = (_settled(proxy) - before) / IDLE
        proxy.check_log()
    return grown


def idle(bench: Bench) -> Iterator[Row]:
    """An open stream that has received a few events, and waits."""
    sides = {job: partial(_idle, bench, job) for job in JOBS}
    found = bench.rounds("memory per idle stream", sides, rounds=3, warm_up=0)
    for job in ("repair", "bridge"):
        baseline, measured = Samples(found["plain"]), Samples(found[job])
        what = f"memory per stream that is idle after {RECEIVED} events: {job}"
        yield Row(what, "kB", baseline, measured, "value", Goal(60))


def growth(bench: Bench) -> Iterator[Row]:
    """What is left of thousands of streams: how much more each of them takes, for good."""
    found: dict[str, list[float]] = {}
    for job, api in JOBS.items():
        asked = request("thinking-60", api)
        with bench.new_proxy(plain=job == "plain") as proxy:
            _many(proxy, asked, WARM_UP)
            seen = [_settled(proxy)]
            for count in range(0, LATER // (5 if bench.quick else 1), BETWEEN):
                _many(proxy, asked, BETWEEN)
                seen.append(_settled(proxy))
                progress(f"growth, {job}: {seen[-1] / _KILO:.1f} MB after {count + BETWEEN}")
            proxy.check_log()
        found[job] = [_each(a, b) for a, b in itertools.pairwise(seen)]
    for job in ("repair", "bridge"):
        baseline, measured = Samples(found["plain"]), Samples(found[job])
        what = f"memory left by each of {LATER:,} streams: {job}"
        yield Row(what, "kB", baseline, measured, "value", Goal(0.2))


def _each(before: float, after: float) -> float:
    return (after - before) / BETWEEN
