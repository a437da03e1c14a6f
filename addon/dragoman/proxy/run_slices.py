"""Runs long work on mitmproxy's event loop, a few milliseconds at a time.

Not in a thread: one that reads JSON holds the interpreter's lock, and costs other streams more.
Full garbage collections are put off meanwhile and shortly after: work makes millions of objects,
and a look at them takes tenths of a second.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Generator
from typing import TypeVar

from mitmproxy import http

T = TypeVar("T")
Slices = Generator[None, None, T]
"""Work that yields wherever it may be interrupted, each time after some milliseconds at most."""
SLICE = 0.005
"""Seconds that other flows wait for a slice, plus what its last step takes more."""
_RARELY = 500
"""Collections of the middle generation before a full one, from the beginning of each work: more
than the largest request needs."""
_LONGEST = 60.0
"""Seconds after which work that never pauses begins no new count."""
_AFTERWARDS = 1.0
"""Seconds after work until collections are as usual: by then its result has been sent."""


class ClientLeft(Exception):  # noqa: N818 - the name says what has happened
    """The result is not wanted any more."""


async def in_slices(work: Slices[T], flow: http.HTTPFlow | None) -> T:
    """The result of work for a flow; short work is done at once. Raises `ClientLeft`, as mitmproxy
    lets a hook continue when its client has left; never without a flow."""
    pause = time.perf_counter() + SLICE
    try:
        while time.perf_counter() < pause:
            next(work)
        with _few_collections:
            while True:
                await asyncio.sleep(0)
                if flow is not None and _has_left(flow):
                    work.close()
                    raise ClientLeft
                pause = time.perf_counter() + SLICE
                while time.perf_counter() < pause:
                    next(work)
    except StopIteration as end:
        result: T = end.value
        return result


def _has_left(flow: http.HTTPFlow) -> bool:
    """The client of a replayed request may have left long ago."""
    return flow.error is not None or not (flow.is_replay or flow.client_conn.connected)


class _Collections:
    """Puts off full collections."""

    def __init__(self) -> None:
        self._works = 0
        self._usual = 0
        self._began = 0.0

    def __enter__(self) -> None:
        young, middle, old = gc.get_threshold()
        if not self._works:
            self._usual, self._began = old, time.monotonic()
        if time.monotonic() < self._began + _LONGEST:
            gc.set_threshold(young, middle, gc.get_count()[2] + _RARELY)
        self._works += 1

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().call_later(_AFTERWARDS, self._over)

    def _over(self) -> None:
        self._works -= 1
        if not self._works:
            young, middle, _rarely = gc.get_threshold()
            gc.set_threshold(young, middle, self._usual)


_few_collections = _Collections()
