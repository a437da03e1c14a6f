"""How long one turn makes the others wait: the longest delay of an event of a stream that has
one each 10 ms, while a turn passes that is much work.

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
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tests.bench.bench import Bench, progress
from tests.bench.client import CHAT, base, fetch, request
from tests.bench.figures import Goal, Row, Samples
from tests.bench.load import delays_until
from tests.bench.processes import ROOT, Proxy
from tests.bench.replies import CASES, SMALLER

GOAL = 60
"""Milliseconds."""
PACE = 100
"""Events a second."""
LONGEST = 40
"""Seconds that a turn may take while it is looked at."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of it is done."""

    part: int = 1
    """The work of a case is divided by this."""
    rounds: int = 3


FULL = Extent()
QUICK = Extent(part=SMALLER)
SMOKE = Extent(part=SMALLER, rounds=1)
"""Shows that it runs."""
BEGIN = 0.3
"""Seconds of a stream before the case begins, and in which its delays do not count."""
_ID = re.compile(rb'"(resp_[0-9a-f]{32})"')


def stalls(bench: Bench, extent: Extent | None = None) -> Iterator[Row]:
    """The longest delay beside each case.  Plain mitmproxy has none of this work."""
    extent = extent or (QUICK if bench.quick else FULL)
    fetch(bench.proxy().port, request("clean-1", CHAT))  # its start is over
    for name, case in CASES.items():
        what = f"longest delay beside {case.what}"
        sides = {"": partial(_longest, bench.proxy(), name, extent.part)}
        found = bench.rounds(what, sides, rounds=extent.rounds, warm_up=0)
        yield Row(what, "ms", None, Samples(found[""]), "value", Goal(GOAL), "–")


def _longest(proxy: Proxy, name: str, part: int) -> float:
    """Milliseconds that an event is under way, at most, while the case runs."""
    command = [sys.executable, "-m", "tests.bench.stalls", str(proxy.port), name, str(part)]
    asked = request(f"stamped-{LONGEST * PACE}", CHAT, pace=str(PACE))
    ended, found = threading.Event(), array("d")
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as sender:
        assert sender.stdin and sender.stdout
        sender.stdout.readline()
        stream = threading.Thread(
            target=lambda: found.extend(delays_until(proxy.port, asked, ended))
        )
        stream.start()
        stream.join(BEGIN)
        sender.stdin.write(b"\n")
        sender.stdin.flush()
        answer = sender.stdout.readline().decode().strip()
        ended.set()
        stream.join()
    longest = max(found[int(BEGIN * PACE / 2) :])
    progress(f"{name}: {longest:.0f} ms; {answer}")
    return longest


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
