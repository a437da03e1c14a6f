"""How long one turn makes the others wait: the longest delay of an event of a stream that has
one each 10 ms, alone and beside 60 more, while a turn passes that is much work.

    python -m tests.bench.stalls PORT CASE PART

sends the requests of a case: in a process of its own, and the last one when a line is read.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tests.bench.bench import Bench, progress
from tests.bench.client import CHAT, base, request
from tests.bench.figures import Goal, Row, Samples
from tests.bench.load import delays
from tests.bench.processes import ROOT, Proxy
from tests.bench.replies import CASES, SMALLER

GOAL = 60
"""Milliseconds, or what mitmproxy itself shows."""
PACE = 100
"""Events a second."""
LONGEST = 40
"""Seconds that a turn may take while it is looked at."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of it is done."""

    part: int = 1
    """The work of a case is divided by this."""
    beside: tuple[int, ...] = (0, 60)
    """How many more streams there are."""
    begin: float = 1.0
    """Seconds until all streams run."""
    seconds: int = 14
    """For which they run."""
    rounds: int = 3


FULL = Extent()
QUICK = Extent(part=SMALLER, seconds=4)
SMOKE = Extent(part=SMALLER, beside=(0,), begin=0.3, seconds=1, rounds=1)
"""Shows that it runs."""
_ID = re.compile(rb'"(resp_[0-9a-f]{32})"')


def stalls(bench: Bench, extent: Extent | None = None) -> Iterator[Row]:
    """The longest delay beside each case, with mitmproxy alone and with Dragoman."""
    extent = extent or (QUICK if bench.quick else FULL)
    proxies = {"plain": bench.proxy(plain=True), "ours": bench.proxy()}
    for name, case in CASES.items():
        for beside in extent.beside:
            what = f"longest delay beside {case.what}, {beside} more streams"
            sides = {
                side: partial(_longest, proxy, name, beside, extent)
                for side, proxy in proxies.items()
            }
            found = bench.rounds(what, sides, rounds=extent.rounds, warm_up=0)
            plain, ours = Samples(found["plain"]), Samples(found["ours"])
            yield Row(what, "ms", plain, ours, "value", Goal(max(GOAL, round(plain.median))))


def _longest(proxy: Proxy, name: str, beside: int, extent: Extent) -> float:
    """Milliseconds that an event is under way, at most, while the case runs."""
    given = str(proxy.port), name, str(extent.part)
    command = [sys.executable, "-m", "tests.bench.stalls", *given]
    found: list[float] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as sender:
        assert sender.stdin and sender.stdout
        sender.stdout.readline()
        asked = request(f"stamped-{extent.seconds * PACE}", CHAT, pace=str(PACE))
        streams, skipped = 1 + beside, int(extent.begin * PACE)
        ticker = threading.Thread(
            target=lambda: found.extend(
                delays(proxy.port, asked, streams, extent.begin / 2, skipped=skipped)
            )
        )
        ticker.start()
        ticker.join(1.5 * extent.begin)
        sender.stdin.write(b"\n")
        sender.stdin.flush()
        seconds_taken = sender.stdout.readline().decode().strip()
        ticker.join()
    progress(f"{name}, {beside}: {max(found):.0f} ms; {seconds_taken}")
    return max(found)


def _send(port: int, name: str, part: int) -> None:
    case = CASES[name]
    reply = f"{case.reply}~{part}" if part > 1 and "-" not in case.reply else case.reply
    path = f"{base(reply)}/{case.api}"
    headers = {"content-type": "application/json", "authorization": "Bearer bench"}
    headers |= {"content-encoding": "gzip"} if case.packed else {}
    turns = min(case.turns, 3) if part > 1 else case.turns
    previous: dict[str, str] = {}
    for number in range(turns):
        body = case.body(part, **previous)
        if number == turns - 1:
            print("ready", flush=True)
            sys.stdin.readline()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST)
        with contextlib.closing(connection):
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        if found := _ID.search(answer):
            previous = {"previous_response_id": found[1].decode()}
    print(f"HTTP {response.status}, {len(answer):,} bytes, {answer[:80]!r}", flush=True)


if __name__ == "__main__":
    _send(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
