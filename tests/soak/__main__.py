"""`make soak`: many streams at once through one mitmdump, none of them lost.

    python -m tests.soak [--seconds 60] [--seed 7] [--clients 200]
    python -m tests.soak --stream 7-123-bridge-240

Phases through a mitmdump with Dragoman alternate with phases of the same load through
one that has only `stream = True`, so that the delays of both can be compared.  It fails
if a stream is not what it must be, or if the memory does not come back; delays are
reported, and nothing depends on them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "addon"))

from tests.live.mitmdump import ADDON, make_confdir  # noqa: E402
from tests.soak.load import Load, Tally, checkers  # noqa: E402
from tests.soak.plan import Job  # noqa: E402
from tests.soak.process import Measured  # noqa: E402
from tests.soak.report import figures  # noqa: E402
from tests.soak.upstream import RATE  # noqa: E402

WARM_UP = 20.0
"""Seconds in which memory comes to what the load needs."""
ROUND = 30.0
"""Seconds in which both proxies have their turn."""
PLAIN, SETTLE = FOLDER / "plain.py", FOLDER / "settle.py"
PLAIN_PART = 1 / 4
"""The part of a round that is the plain proxy's."""
SETTLING = 3.0
"""Seconds from the last stream until the memory is looked at."""
ALLOWED = 10.0
"""Megabytes by which the memory may have grown then."""
BOTH: tuple[Job, ...] = ("repair", "bridge")
SHOWN = 10
"""Failed streams that are shown whole."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--stream", help="the name of a stream: send that one alone")
    given = parser.parse_args()
    sys.exit(0 if asyncio.run(soak(given)) else 1)


async def soak(given: argparse.Namespace) -> bool:
    """Whether all is well."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        load = Load(given.seed, given.clients, stack.enter_context(checkers()))
        await load.upstream.start()
        stack.push_async_callback(load.upstream.stop)
        make_confdir(folder)
        mode = ("--mode", f"reverse:{load.upstream.url}")
        bridge = ("--set", "dragoman_bridge=~all", "--set", "dragoman_heartbeat=1")
        dragoman = stack.enter_context(Measured(folder, *mode, *bridge, scripts=(ADDON, SETTLE)))
        streaming = stack.enter_context(Measured(folder, *mode, scripts=(PLAIN,)))
        run = Soak(load, dragoman, streaming)
        return await (run.one(given.stream) if given.stream else run.run(given.seconds))


class Soak:
    """One run."""

    def __init__(self, load: Load, dragoman: Measured, streaming: Measured) -> None:
        self._load = load
        self._dragoman = dragoman
        self._streaming = streaming
        self._warm_up, self._translated, self._plain = Tally(), Tally(), Tally()
        self._began = time.monotonic()

    async def run(self, seconds: float) -> bool:
        """Whether all is well."""
        print(f"soak: --seed {self._load.seed} --clients {self._load.clients}", flush=True)
        gc.freeze()
        progress = asyncio.ensure_future(self._show_progress())
        grown = await self._phases(seconds)
        progress.cancel()
        wanted = self._load.clients * RATE
        print(*figures(self._translated, self._plain, wanted), sep="\n")
        well = self._show_failures()
        if grown > ALLOWED:
            print(f"FAILED: the memory has grown by {grown:.1f} MB, more than {ALLOWED:.0f}")
        print(f"soak: {'passed' if well and grown <= ALLOWED else 'FAILED'}")
        return well and grown <= ALLOWED

    async def one(self, name: str) -> bool:
        """Whether that one stream is what it must be."""
        proxy = self._streaming if "-plain-" in name else self._dragoman
        await self._load.one(proxy.port, name, self._translated)
        await self._load.checked()
        print(f"{name}: {dict(self._translated.streams)}")
        return self._show_failures()

    async def _phases(self, seconds: float) -> float:
        """Returns the megabytes by which the memory has grown since the warm-up."""
        load = self._load
        await load.phase(self._dragoman, WARM_UP, BOTH, self._warm_up)
        warm = await self._settled("after the warm-up")
        left = max(seconds - WARM_UP - 2 * SETTLING, ROUND / 2)
        rounds = max(1, round(left / ROUND))
        for _ in range(rounds):
            await load.phase(self._streaming, left / rounds * PLAIN_PART, ("plain",), self._plain)
            await load.phase(
                self._dragoman, left / rounds * (1 - PLAIN_PART), BOTH, self._translated
            )
        return await self._settled("at the end") - warm

    async def _settled(self, when: str) -> float:
        """Dragoman's memory once all streams have ended."""
        await asyncio.sleep(SETTLING)
        self._translated.wrong += self._load.still_open()
        await self._load.checked()
        before = self._dragoman.memory
        await asyncio.to_thread(self._dragoman.settle)
        after = self._dragoman.memory
        print(f"memory    {when}: {after:.1f} MB, {before:.1f} MB with what is free", flush=True)
        return after

    async def _show_progress(self) -> None:
        tallies = self._warm_up, self._plain, self._translated
        while True:
            await asyncio.sleep(5)
            print(
                f"{time.monotonic() - self._began:5.0f} s: {self._load.running} streams run, "
                f"{sum(tally.streams.total() for tally in tallies)} have ended, "
                f"{sum(len(tally.wrong) for tally in tallies)} wrong; "
                f"{self._dragoman.memory:.1f} MB",
                flush=True,
            )

    def _show_failures(self) -> bool:
        """Whether there is none."""
        tallies = self._warm_up, self._plain, self._translated
        wrong = [failure for tally in tallies for failure in tally.wrong]
        for proxy in (self._dragoman, self._streaming):
            tracebacks = proxy.log.count("Traceback (most recent call last)")
            if tracebacks:
                wrong.append(
                    f"{tracebacks} tracebacks in the log of mitmdump:\n{proxy.log[-4000:]}"
                )
        print(*(f"FAILED: {failure}" for failure in wrong[:SHOWN]), sep="\n\n")
        if wrong:
            print(f"\n{len(wrong)} streams FAILED; one alone: python -m tests.soak --stream NAME")
        return not wrong


if __name__ == "__main__":
    main()
