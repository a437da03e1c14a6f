"""The CPU time that an event costs: what the system counts for the process of a proxy."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from tests.bench.bench import Bench
from tests.bench.client import CHAT, RESPONSES, fetch, request
from tests.bench.figures import Goal, Row, Samples
from tests.bench.processes import Proxy
from tests.bench.streams import LEAKS

EVENTS = 10_000
PACED_EVENTS, PACE = 1_000, 2_000
ROUNDS = 8
FEW = 5
"""Rounds of what is many times as much, or as little, as what it is compared to."""
_AFTERWARDS = 0.03
"""Seconds in which a proxy does what is left to do behind a stream."""
_Stream = tuple[str, str, str]
"""What it is called, its kind (`streams`), and the API that is asked."""
_STREAMS: tuple[_Stream, ...] = (
    ("repair, clean chat", "clean", CHAT),
    ("repair, a call every 70 events", "calls", CHAT),
    ("repair, one long call", "long_call", CHAT),
    ("bridge, reasoning and text", "thinking", RESPONSES),
    ("bridge, native calls", "native", RESPONSES),
    ("bridge, calls that leak", "calls", RESPONSES),
)

_LEAKS: tuple[_Stream, ...] = tuple(
    (f"repair, calls of {leak}", f"calls_{leak}", CHAT) for leak in LEAKS
)
_VARIED_STREAMS: tuple[_Stream, ...] = tuple(
    (f"{what}, {varied} differs", f"{stream}+{varied}", api)
    for varied in ("created", "usage", "obfuscation")
    for what, stream, api in (
        ("repair, clean chat", "clean", CHAT),
        ("repair, a call every 70 events", "calls", CHAT),
        ("bridge, reasoning and text", "thinking", RESPONSES),
        ("bridge, calls that leak", "calls", RESPONSES),
    )
)


def cpu_of(proxy: Proxy, asked: bytes) -> float:
    """Seconds of CPU time that a whole stream takes."""
    before = proxy.cpu_time
    fetch(proxy.port, asked)
    time.sleep(_AFTERWARDS)
    return proxy.cpu_time - before


def cpu(bench: Bench) -> Iterator[Row]:
    """As fast as the upstream can."""
    yield from _cpu(bench, "CPU per event", _STREAMS, EVENTS, "0")


def formats(bench: Bench) -> Iterator[Row]:
    """Streams full of calls in the other formats."""
    yield from _cpu(bench, "CPU per event", _LEAKS, EVENTS, "0", rounds=FEW)
    alone = tuple(stream for stream in _LEAKS if stream[1] == "calls_dsml")
    yield from _cpu(bench, "CPU per event that comes alone", alone, PACED_EVENTS, str(PACE))


def cpu_paced(bench: Bench) -> Iterator[Row]:
    """An event in each write, so that none arrives with another."""
    what = "CPU per event that comes alone"
    yield from _cpu(bench, what, _STREAMS, PACED_EVENTS, str(PACE))
    yield from _cpu(bench, what, _VARIED_STREAMS, PACED_EVENTS, str(PACE), rounds=FEW)


def native(bench: Bench) -> Iterator[Row]:
    """A clean stream of a host that speaks the Responses API: repaired, and only watched."""
    on = ("--set", "dragoman_bridge=off")
    proxies = {"watched": bench.proxy(*on, "--set", "dragoman_repair=off"), "": bench.proxy(*on)}
    for events, pace in ((EVENTS, 0), (PACED_EVENTS, PACE)):
        asked = request(f"responses-{events}", RESPONSES, pace=str(pace))
        sides = {side: partial(cpu_of, proxy, asked) for side, proxy in proxies.items()}
        what = f"CPU per event{' that comes alone' if pace else ''}: native Responses, clean"
        found = bench.rounds(what, sides, rounds=ROUNDS)
        watched, repaired = (Samples.of(found[side], 1e6 / events) for side in proxies)
        yield Row(what, "µs", watched, repaired, "ratio", Goal(1.3), "watched")


def _cpu(
    bench: Bench,
    what: str,
    streams: Sequence[_Stream],
    events: int,
    pace: str,
    *,
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    proxies = {"plain": bench.proxy(plain=True), "dragoman": bench.proxy()}
    sides = {}
    for _, stream, api in streams:  # a stream is plain mitmproxy's once, whoever reads it here
        for side, proxy, asked in (("plain", proxies["plain"], CHAT), (api, bench.proxy(), api)):
            body = request(f"{stream}-{events}", asked, pace=pace)
            sides[side, stream] = partial(cpu_of, proxy, body)
    for stream in {kind for _, kind, _ in streams if kind.startswith("calls")}:
        for side, proxy in proxies.items():
            _check(side, proxy, request(f"{stream}-{events}", CHAT, pace=pace))
    found = bench.rounds(what, sides, rounds=rounds, warm_up=1)
    for name, stream, api in streams:
        plain, dragoman = (Samples.of(found[side, stream], 1e6 / events) for side in ("plain", api))
        yield Row(
            f"{what}: {name}",
            "µs",
            plain,
            dragoman,
            "ratio",
            Goal(_limit(api, joined=pace == "0")),
        )


def _limit(api: str, *, joined: bool) -> float:
    """How much of what plain mitmproxy takes it may take: what comes together passes by
    mitmproxy's layers."""
    if joined:
        return 1.0
    return 1.25 if api == CHAT else 1.35


def _check(side: str, proxy: Proxy, asked: bytes) -> None:
    """What is compared must be what it is taken for."""
    assert (b'"tool_calls":[{' in fetch(proxy.port, asked)) == (side == "dragoman")
