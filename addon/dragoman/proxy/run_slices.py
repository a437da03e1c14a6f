"""Runs long work on mitmproxy's event loop, a few milliseconds at a time.

Not in a thread: one that works holds the interpreter's lock, and costs other streams more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import TypeVar

from mitmproxy import http

T = TypeVar("T")
SLICE = 0.005
"""Seconds that other flows wait for a slice, plus what its last step takes more."""


class ClientLeft(Exception):  # noqa: N818 - the name says what has happened
    """The result is not wanted any more."""


async def in_slices(work: Generator[None, None, T], flow: http.HTTPFlow) -> T:
    """The result of work for a flow, which may be interrupted where it yields; short work is done
    at once.  Raises `ClientLeft`: mitmproxy lets a hook continue when its client has left."""
    try:
        while True:
            pause = time.perf_counter() + SLICE
            while time.perf_counter() < pause:
                next(work)
            await asyncio.sleep(0)
            # The client of a replayed request may have left long ago.
            if flow.error is not None or not (flow.is_replay or flow.client_conn.connected):
                work.close()
                raise ClientLeft
    except StopIteration as end:
        result: T = end.value
        return result
