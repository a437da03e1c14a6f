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

from ...stored.store import Limits, NotOpened, Store, StoreError

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
    def __init__(self, open_store: Callable[..., Store], limits: Limits) -> None:
        """`open_store` is called in the thread, with the keyword `limits`; if it raises
        `OptionsError`, the calls raise `NotOpened`."""
        self._open = open_store
        self._limits = limits
        self._store: Store | None = None
        self._failed = False
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[Store], Any]] | None] = SimpleQueue()
        self._paused_until = 0.0
        self._reason = ""
        """Why the store is not called."""
        self._running: Future[Any] | None = None
        self._hanging: Future[Any] | None = None
        """The call that took too long, and may still run."""
        self._pausing: asyncio.Future[None] | None = None
        """Shared by all callers that wait: done when one has waited too long, and all fail."""
        self._thread = threading.Thread(target=self._serve, name="dragoman-store", daemon=True)
        self._thread.start()

    async def ask(self, call: Callable[[Store], T]) -> T:
        """What `call` returns or raises; `StoreError` if the store does not answer."""
        if self._is_paused:
            raise StoreError(f"it is left alone for some seconds: {self._reason}")
        answer = asyncio.wrap_future(self.later(call))
        if self._pausing is None or self._pausing.done():
            self._pausing = asyncio.get_running_loop().create_future()
        pausing = self._pausing
        either: set[asyncio.Future[Any]] = {answer, pausing}
        try:
            await asyncio.wait(either, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if answer.done():
            return answer.result()
        if not pausing.done():
            self._hanging = self._running
            self._pause(f"it has not answered for {PATIENCE:.0f} seconds")
            pausing.set_result(None)
        answer.cancel()  # a call that waits its turn is not made any more
        raise StoreError(self._reason)

    def later(self, call: Callable[[Store], T]) -> Future[T]:
        """Made after all calls so far; not awaited."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def limit(self, limits: Limits) -> None:
        self._limits = limits
        if self._store is not None:
            self._store.limits = limits

    def close(self, *, wait: bool = False) -> None:
        """Close the store after all calls so far; `wait` for them, unless it hangs (see `LAST`)."""
        self._calls.put(None)
        if wait and not self._is_paused:
            self._thread.join(LAST)

    @property
    def _is_paused(self) -> bool:
        hangs = self._hanging is not None and not self._hanging.done()
        return hangs or time.monotonic() < self._paused_until

    def _pause(self, reason: str) -> None:
        self._reason = reason
        self._paused_until = time.monotonic() + PAUSE

    # In the thread

    def _serve(self) -> None:
        while (queued := self._calls.get()) is not None:
            future, call = queued
            if future.set_running_or_notify_cancel():
                self._running = future
                self._run(future, call)
        if self._store is not None:
            with contextlib.suppress(StoreError):
                self._store.close()

    def _run(self, future: Future[Any], call: Callable[[Store], Any]) -> None:
        began = time.monotonic()
        try:
            if began < self._paused_until:
                raise StoreError(self._reason)
            result = call(self._store or self._opened())
        except BaseException as error:  # raised to the caller
            if isinstance(error, StoreError) and time.monotonic() - began > SLOW:
                self._pause(str(error))
            future.set_exception(error)
        else:
            future.set_result(result)

    def _opened(self) -> Store:
        try:
            self._store = store = self._open(limits=self._limits)
        except exceptions.OptionsError as error:
            self._failed = True
            raise NotOpened(str(error)) from None
        store.limits = self._limits  # they may have changed meanwhile
        if self._failed:
            logger.info("The store of responses can be used now.")
        return store
