"""A script for mitmdump: how long the event loop was busy without a pause.

It wakes every 10 ms; the answer to `GET …/ticker` is how long the loop has worked at most between
two wakings since the last such request, in milliseconds of its thread's time: what other processes
took of the computer is not counted.
"""

from __future__ import annotations

import asyncio
import time

from mitmproxy import http

TICK = 0.01
"""Seconds."""


class Ticker:
    def __init__(self) -> None:
        self._longest = 0.0

    def running(self) -> None:
        self._task = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(TICK)
            now = time.thread_time()
            self._longest, last = max(self._longest, now - last), now

    def request(self, flow: http.HTTPFlow) -> None:
        if flow.request.path == "/ticker":
            flow.response = http.Response.make(200, str(round(self._longest * 1000)))
            self._longest = 0.0


addons = [Ticker()]
