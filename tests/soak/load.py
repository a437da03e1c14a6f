"""The load: so many clients at once, each asking for one stream after the other.

Upstream and clients share one event loop, so that times of both ends can be compared and
a client that leaves can be seen from the other end; what came is checked elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import random
from array import array
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.soak import client
from tests.soak.check import Verdict, verdict
from tests.soak.plan import PAUSE, Job, Plan, plan_of
from tests.soak.process import Measured
from tests.soak.upstream import RATE, Feed, Upstream

LONGEST = 12.0
SHORTEST = 2.0
"""Seconds that a stream lasts."""
PATIENCE = 60.0
"""Seconds over its length after which a stream counts as hanging."""
REUSED = 0.7
"""The part of the connections on which a client asks again."""


@dataclass(slots=True)
class Tally:
    """What came of the streams of some phases."""

    streams: Counter[tuple[Job, str]] = field(default_factory=Counter)
    """By job and fate."""
    events: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds of CPU time that the proxy took."""
    delays: dict[Job, array[float]] = field(default_factory=dict)
    cancelled: list[float] = field(default_factory=list)
    """Seconds from a client's leaving to the end of the connection upstream."""
    wrong: list[str] = field(default_factory=list)

    def add(self, found: Verdict) -> None:
        self.streams[found.job, found.fate] += 1
        self.events += found.events
        self.delays.setdefault(found.job, array("d")).extend(found.delays)
        if found.wrong:
            self.wrong.append(f"{found.name} ({found.fate}): {found.wrong}")


class Load:
    """Streams through proxies of one upstream."""

    def __init__(self, seed: int, clients: int, checkers: Executor) -> None:
        self.upstream = Upstream()
        self.running = 0
        self.seed = seed
        self.clients = clients
        self._checkers = checkers
        self._count = 0
        self._checked: list[asyncio.Future[None]] = []
        self._left: list[Feed] = []
        """Those whose client has left."""

    async def phase(
        self, proxy: Measured, seconds: float, jobs: Sequence[Job], tally: Tally
    ) -> None:
        """All clients ask the proxy until the time is up and all has ended."""
        loop = asyncio.get_running_loop()
        began, cpu = loop.time(), proxy.cpu_time
        rngs = [random.Random(f"{self.seed}-{self._count}-{n}") for n in range(self.clients)]
        await asyncio.gather(*(self._client(proxy.port, seconds, jobs, rng, tally) for rng in rngs))
        tally.seconds += loop.time() - began
        tally.cpu += proxy.cpu_time - cpu

    async def one(self, port: int, name: str, tally: Tally) -> None:
        """One stream alone."""
        (await self._ask(await client.connect(port), plan_of(name), tally)).close()

    def still_open(self) -> list[str]:
        """The streams whose client has left, while the upstream has not been told."""
        names = [feed.plan.name for feed in self._left if not feed.closed]
        self._left.clear()
        return [f"{name}: its client has left, the upstream was not told" for name in names]

    async def checked(self) -> None:
        """All that has been received has been checked."""
        await asyncio.gather(*self._checked)
        self._checked.clear()

    async def _client(
        self, port: int, seconds: float, jobs: Sequence[Job], rng: random.Random, tally: Tally
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds - PAUSE
        await asyncio.sleep(rng.random())
        connection = await client.connect(port)
        while (left := end - loop.time()) > SHORTEST:
            self._count += 1
            events = int(RATE * min(left, rng.uniform(SHORTEST, LONGEST)))
            plan = plan_of(f"{self.seed}-{self._count}-{rng.choice(jobs)}-{events}")
            connection = await self._ask(connection, plan, tally)
            if rng.random() > REUSED:
                connection.close()
            if connection.closed:
                connection = await client.connect(port)
        connection.close()

    async def _ask(
        self, connection: client.Connection, plan: Plan, tally: Tally
    ) -> client.Connection:
        feed = self.upstream.feeds[plan.name] = Feed(plan)
        leave = plan.fate_at / RATE if plan.fate == "leave" else None
        dialect = f"x-dragoman-dialect: {plan.dialect}\r\n" if plan.job == "bridge" else ""
        patience = len(plan.frames) / RATE + PAUSE + PATIENCE
        self.running += 1
        received = await connection.ask(plan.path, plan.request, dialect, leave, patience)
        self.running -= 1
        if received.end == "left":
            await self._cancelled(feed, tally)
        del self.upstream.feeds[plan.name]
        if feed.wrong:
            tally.wrong.append(f"{plan.name}: {feed.wrong}")
        future = self._checkers.submit(verdict, plan.name, received, feed.sent)
        self._checked.append(asyncio.ensure_future(_add(future, tally)))
        return connection

    async def _cancelled(self, feed: Feed, tally: Tally) -> None:
        left = asyncio.get_running_loop().time()
        # At the latest it is over when the whole stream has been sent.
        gone = await feed.gone
        if not feed.ended:
            tally.cancelled.append(gone - left)
        self._left.append(feed)


async def _add(future: Future[Verdict], tally: Tally) -> None:
    tally.add(await asyncio.wrap_future(future))


def checkers() -> ProcessPoolExecutor:
    """The process that checks, below the priority of those that are measured."""
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_yield_to_others)


def _yield_to_others() -> None:
    os.nice(10)
