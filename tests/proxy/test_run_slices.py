"""Long work, beside which others run, and what Python's collector leaves alone."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator, Iterator

import pytest
from mitmproxy.flow import Error
from mitmproxy.test import taddons, tflow

from dragoman.proxy import run_slices
from dragoman.proxy.addon import Dragoman
from dragoman.proxy.run_slices import SLICE, ClientLeft, in_slices


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


class Clock:
    """The time is what has been worked."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(run_slices, "time", clock)
    return clock


def work(clock: Clock, steps: int, done: list[str]) -> Generator[None, None, str]:
    try:
        for _ in range(steps):
            clock.now += SLICE / 2
            yield
        return "result"
    finally:
        done.append("ended")


def test_others_run_while_long_work_is_done(clock: Clock) -> None:
    async def both() -> tuple[str, int]:
        task = asyncio.create_task(in_slices(work(clock, 20, []), tflow.tflow()))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return task.result(), turns

    result, turns = asyncio.run(both())
    assert result == "result"
    assert turns >= 10, "two steps at a time"


def test_work_for_a_client_that_has_left_ends(clock: Clock) -> None:
    flow, done = tflow.tflow(), list[str]()

    async def leave() -> None:
        task = asyncio.create_task(in_slices(work(clock, 1000, done), flow))
        await asyncio.sleep(0)
        flow.error = Error("Client disconnected.")
        with pytest.raises(ClientLeft):
            await task

    asyncio.run(leave())
    assert done == ["ended"]


def test_what_is_there_at_the_start_is_not_collected_until_the_addon_is_gone() -> None:
    addon = Dragoman()
    with taddons.context(addon, loadcore=True):
        addon.running()
        assert gc.get_freeze_count() > 10_000
    addon.done()
    assert gc.get_freeze_count() == 0
