"""A script for mitmdump, loaded after the addon: work in slices for a request that has the
header `x-test-hold` stands still, each time, until it is let on.

The answer to `GET …/held/count` is how many works stood still so far; `GET …/held/next` lets the
one on that does.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mitmproxy import http

_SLICED = ("stored.async_store", "flows.bridge_turn")


class Held:
    def __init__(self) -> None:
        self._count = 0
        self._next = asyncio.Event()
        slicing: Any = sys.modules["dragoman.proxy.run_slices"]
        self._in_slices = slicing.in_slices
        for name in _SLICED:
            vars(sys.modules[f"dragoman.proxy.{name}"])["in_slices"] = self._held

    async def _held(self, work: Any, flow: http.HTTPFlow | None) -> Any:
        if flow is not None and "x-test-hold" in flow.request.headers:
            self._count += 1
            self._next.clear()
            await self._next.wait()
        return await self._in_slices(work, flow)

    def request(self, flow: http.HTTPFlow) -> None:
        if flow.request.path == "/held/count":
            flow.response = http.Response.make(200, str(self._count))
        elif flow.request.path == "/held/next":
            self._next.set()
            flow.response = http.Response.make(200)


addons = [Held()]
