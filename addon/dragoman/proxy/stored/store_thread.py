"""Calls a store in a thread of its own.

A call may wait for a disk, a lock or a network; the caller waits `PATIENCE` at most.  After a
call that timed out, or failed after `SLOW` seconds, the store is not called for `PAUSE` seconds:
all calls fail at once, the queued ones too.  A store that fails quickly costs nothing, and is
called each time.  The store is opened by the first call, and after a failure by the next: a store
in trouble (locked, damaged, on a disk that hangs) blocks neither mitmproxy's start nor its
streams, and is used as soon as it works.  The thread is a daemon: mitmproxy ends without waiting
for a store that hangs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from mitmproxy import exceptions

from ...stored.store import NotOpened, Store, StoreError

logger = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE = 3.0
"""Seconds that a turn waits for the store."""
SLOW = 0.3
"""Seconds after which a failure is slow."""
PAUSE = 5.0
"""Seconds for which a store is not called: about the restart of a Redis."""
LAST = 1.5
"""Seconds at most that the end of mitmproxy waits for writes."""


class StoreThread:
    def __init__(self, open_store: Callable[..., Store], days: float, max_bytes: int) -> None:
        """`open_store` is called in the thread, with `days` and `max_bytes`; if it raises
        `OptionsError`, the calls raise `NotOpened`."""
        self._open = open_store
        self._bounds = (days, max_bytes)
        self._store: Store | None = None
        self._failed = False
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[Store], Any]] | None] = SimpleQueue()
        self._left_alone_until = 0.0
        self._why = ""
        self._hangs: Future[Any] | None = None
        """The call that timed out."""
        self._running: Future[Any] | None = None
        self._given_up: asyncio.Future[None] | None = None
        """Done when the store is not called any more: for all callers."""
        self._thread = threading.Thread(target=self._serve, name="dragoman-store", daemon=True)
        self._thread.start()

    async def ask(self, call: Callable[[Store], T]) -> T:
        """What `call` returns or raises; `StoreError` if the store does not answer."""
        if self._is_left_alone:
            raise StoreError(f"it is left alone for some seconds: {self._why}")
        answer = asyncio.wrap_future(self.later(call))
        given_up = self._gives_up(asyncio.get_running_loop())
        either: set[asyncio.Future[Any]] = {answer, given_up}
        try:
            await asyncio.wait(either, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if answer.done():
            return answer.result()
        if not given_up.done():
            self._hangs = self._running
            self._leave_alone(f"it has not answered for {PATIENCE:.0f} seconds")
            given_up.set_result(None)
        answer.cancel()  # a call that waits its turn is not made any more
        raise StoreError(self._why)

    def later(self, call: Callable[[Store], T]) -> Future[T]:
        """Made after all calls so far; not awaited."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def limit(self, days: float, max_bytes: int) -> None:
        self._bounds = (days, max_bytes)
        if self._store is not None:
            self._store.limit(days, max_bytes)

    def close(self) -> None:
        """Close the store after all calls so far, without waiting."""
        self._calls.put(None)

    def finish(self) -> None:
        """Wait for the calls so far, unless the store hangs: see `LAST`."""
        if not self._is_left_alone:
            self._thread.join(LAST)

    @property
    def _is_left_alone(self) -> bool:
        hangs = self._hangs
        return time.monotonic() < self._left_alone_until or not (hangs is None or hangs.done())

    def _leave_alone(self, why: str) -> None:
        self._why = why
        self._left_alone_until = time.monotonic() + PAUSE

    def _gives_up(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        known = self._given_up
        if known is None or known.done() or known.get_loop() is not loop:
            self._given_up = known = loop.create_future()
        return known

    # In the thread

    def _serve(self) -> None:
        while (asked := self._calls.get()) is not None:
            future, call = asked
            if future.set_running_or_notify_cancel():
                self._running = future
                self._make(future, call)
        if self._store is not None:
            with contextlib.suppress(StoreError):
                self._store.close()

    def _make(self, future: Future[Any], call: Callable[[Store], Any]) -> None:
        began = time.monotonic()
        try:
            if began < self._left_alone_until:
                raise StoreError(self._why)
            result = call(self._opened())
        except BaseException as error:  # raised where it was asked for
            if isinstance(error, StoreError) and time.monotonic() - began > SLOW:
                self._leave_alone(str(error))
            future.set_exception(error)
        else:
            future.set_result(result)

    def _opened(self) -> Store:
        if self._store is None:
            days, max_bytes = bounds = self._bounds
            try:
                self._store = self._open(days=days, max_bytes=max_bytes)
            except exceptions.OptionsError as error:
                self._failed = True
                raise NotOpened(str(error)) from None
            if bounds != self._bounds:  # changed meanwhile
                self._store.limit(*self._bounds)
            if self._failed:
                logger.info("The store of responses can be used now.")
        return self._store
