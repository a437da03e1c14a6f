"""Long work, and when Python's collector may look at everything."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator

import pytest
from mitmproxy.test import taddons

from dragoman.proxy import run_slices
from dragoman.proxy.addon import Dragoman
from dragoman.proxy.run_slices import Slices, in_slices


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_everything_is_rarely_collected_while_work_is_done_and_until_its_result_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_slices, "SLICE", 0.001)
    monkeypatch.setattr(run_slices, "_AFTERWARDS", 0.01)
    usual = gc.get_threshold()
    gc.collect()

    def work() -> Slices[object]:
        time.sleep(0.002)  # longer than one slice
        yield
        during = gc.get_threshold()[2]
        gc.collect(1)
        yield
        return during

    async def works() -> object:
        found = await asyncio.gather(in_slices(work(), None), in_slices(work(), None))
        found.append(await in_slices(work(), None))
        monkeypatch.setattr(run_slices, "_LONGEST", 0.0)
        found.append(await in_slices(work(), None))
        assert gc.get_threshold()[2] == found[-1]
        await asyncio.sleep(0.05)
        return found

    assert asyncio.run(works()) == [500, 500, 502, 502]
    assert gc.get_threshold() == usual


def test_what_is_there_at_the_start_is_not_collected_until_the_addon_is_gone() -> None:
    addon = Dragoman()
    with taddons.context(addon, loadcore=True):
        addon.running()
        assert gc.get_freeze_count() > 10_000
    addon.done()
    assert gc.get_freeze_count() == 0
