"""A script for mitmdump, loaded after the addon: each step of long work takes as long as others
wait at most, and each turn that they have is logged."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any


class Steps:
    """In the place of the modules `time` and `asyncio`."""

    def __init__(self) -> None:
        slices: Any = sys.modules["dragoman.proxy.run_slices"]
        slices.time = slices.asyncio = self
        self._step = slices.SLICE * 0.6
        self._now = 0.0

    def perf_counter(self) -> float:
        self._now += self._step
        return self._now

    async def sleep(self, seconds: float) -> None:
        logging.info("others run now")
        await asyncio.sleep(seconds)


addons = [Steps()]
