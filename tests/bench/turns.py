"""What a whole turn costs: as it grows, and as it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tests.bench.bench import Bench
from tests.bench.client import CHAT, RESPONSES, request, take
from tests.bench.cpu import EVENTS, FEW, ROUNDS, cpu_of
from tests.bench.figures import Goal, Row, Samples
from tests.bench.load import ask
from tests.bench.processes import Proxy

SHORT, LONG = 3_000, 30_000
"""Events; the longer one is still recorded whole, with the default options."""
_ANY = 1
WITHOUT_STORE = ("--set", "dragoman_store=off")
ENDING = 200, 2_000
STORE_MILLISECONDS, STORE_PER_EVENT = 2, 1.02
_GROWING = (
    ("repair, clean chat", "clean", CHAT),
    ("repair, calls", "calls", CHAT),
    ("repair, one long call", "long_call", CHAT),
    ("bridge, reasoning and text", "thinking", RESPONSES),
    ("bridge, calls that leak", "calls", RESPONSES),
)


def length(bench: Bench) -> Iterator[Row]:
    """What ten times the events cost, over what any turn does."""
    for name, stream, api in _GROWING:
        sides = {
            events: partial(cpu_of, bench.proxy(), request(f"{stream}-{events}", api))
            for events in (_ANY, SHORT, LONG)
        }
        what = f"CPU of a turn 10 × as long: {name}"
        found = bench.rounds(what, sides, rounds=FEW, warm_up=1)
        baseline, measured = (
            Samples.of([a - b for a, b in zip(found[events], found[_ANY], strict=True)], 1e3)
            for events in (SHORT, LONG)
        )
        against = f"{SHORT:,} events"
        yield Row(what, "ms", baseline, measured, "ratio", Goal(11, low=9), against)


def store(bench: Bench) -> Iterator[Row]:
    """What it costs to keep a response: at the end of its turn, and at each event."""
    proxies = {"kept": bench.proxy(), "off": bench.proxy(*WITHOUT_STORE)}
    against = "store off"
    for events in ENDING:
        asked = request(f"stamped-{events}", RESPONSES, pace="2000")
        ends = {name: partial(_end, proxy.port, asked) for name, proxy in proxies.items()}
        what = f"end of a turn of {events:,} events that is kept"
        found = bench.rounds(what, ends, rounds=20)
        baseline, measured = Samples(found["off"]), Samples(found["kept"])
        goal = Goal(STORE_MILLISECONDS)
        yield Row(what, "ms", baseline, measured, "difference", goal, against)

    costs = {name: partial(_underway, proxy) for name, proxy in proxies.items()}
    what = "CPU per event of a turn that will be kept"
    found = bench.rounds(what, costs, rounds=ROUNDS)
    baseline, measured = (Samples.of(found[name], 1e6 / EVENTS) for name in ("off", "kept"))
    yield Row(what, "µs", baseline, measured, "ratio", Goal(STORE_PER_EVENT), against)


def _end(port: int, asked: bytes) -> float:
    return ask(port, asked).last


def _underway(proxy: Proxy) -> float:
    """Seconds of CPU time that a stream has taken up to its end."""
    before = proxy.cpu_time
    take(proxy.port, request(f"thinking-{EVENTS}", RESPONSES, pace="hold"))
    taken = proxy.cpu_time - before
    assert taken, "nothing has come: the machine is busy"
    return taken
