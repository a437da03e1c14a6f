"""What ended flows leave is collected when no stream runs, and that takes little time."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from dragoman.proxy.mitm import gc_tuning
from dragoman.proxy.mitm.gc_tuning import Collector


class Cycle:
    """What nobody but the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def called_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gc_tuning, "PAUSE", 0.0)
    gc.disable()
    yield
    gc.enable()


def test_what_an_ended_flow_leaves_is_collected() -> None:
    async def flow_ends() -> None:
        left = weakref.ref(Cycle())
        Collector(lambda: True).ended()
        await asyncio.sleep(0.05)
        assert left() is None

    asyncio.run(flow_ends())


def test_nothing_is_collected_while_a_stream_runs() -> None:
    async def flows_end() -> None:
        runs = True
        collector = Collector(lambda: not runs)
        left = weakref.ref(Cycle())
        collector.ended()
        await asyncio.sleep(0.05)
        assert left() is not None
        runs = False
        collector.ended()
        await asyncio.sleep(0.05)
        assert left() is None

    asyncio.run(flows_end())


def test_what_took_long_is_not_done_again_for_a_hundred_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def flows_end() -> None:
        calls = []
        monkeypatch.setattr(gc, "collect", lambda: calls.append(time.sleep(0.01)))
        collector = Collector(lambda: True)
        for _ in range(10):
            collector.ended()
            await asyncio.sleep(0.01)
        assert len(calls) == 1
        collector.stop()

    asyncio.run(flows_end())
