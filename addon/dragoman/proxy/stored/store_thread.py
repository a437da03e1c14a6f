"""A store, called in a thread of its own, and left alone while it does not answer.

A call may wait for a disk, a lock or a network; whoever asks waits `PATIENCE` at most.
One that waited in vain, or failed after `SLOW` seconds, has the store left alone for
`PAUSE` seconds: until then all others fail at once, those that stand in line too.  A store
that refuses quickly costs nothing, and is asked each time.

The store is opened by the call that uses it first, and by the next one if that failed: one
in trouble (locked, damaged, on a disk that does not answer) stops neither mitmproxy's start
nor its streams, and serves as soon as the trouble is over.

The thread is a daemon: mitmproxy ends without waiting for a store that hangs.
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
"""Seconds that a turn waits for the store, together with all that waits for it."""
SLOW = 0.3
"""Seconds after which a failure has cost a client more than one that refuses at once."""
PAUSE = 5.0
"""Seconds for which a store is left alone: about what a restart of a Redis takes."""
LAST = 1.5
"""Seconds at most that the end of mitmproxy waits for what is still to be written."""


class StoreThread:
    """Calls a `Store`, one call after the other."""

    def __init__(self, open_store: Callable[..., Store], days: float, max_bytes: int) -> None:
        """`open_store` is called in the thread, with `days` and `max_bytes`; where it raises
        `OptionsError`, the calls raise `NotOpened`."""
        self._open = open_store
        self._bounds = (days, max_bytes)
        self._store: Store | None = None
        self._failed = False
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[Store], Any]] | None] = SimpleQueue()
        self._left_alone_until = 0.0
        self._why = ""
        self._hangs: Future[Any] | None = None
        """The call that somebody has waited for in vain."""
        self._running: Future[Any] | None = None
        self._given_up: asyncio.Future[None] | None = None
        """Done when the store is left alone: for all who wait."""
        self._thread = threading.Thread(target=self._serve, name="dragoman-store", daemon=True)
        self._thread.start()

    async def ask(self, call: Callable[[Store], T]) -> T:
        """What `call` returns or raises; `StoreError` if the store does not answer."""
        self._refuse_while_left_alone()
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
        answer.cancel()  # one that stands in line is not made any more
        raise StoreError(self._why)

    def later(self, call: Callable[[Store], T]) -> Future[T]:
        """Made after all calls so far; nobody waits."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def limit(self, days: float, max_bytes: int) -> None:
        """Other bounds from now on; waits for nothing."""
        self._bounds = (days, max_bytes)
        if self._store is not None:
            self._store.limit(days, max_bytes)

    def close(self) -> None:
        """Have the store closed after all calls so far, without waiting for it."""
        self._calls.put(None)

    def finish(self) -> None:
        """Wait for what has been asked, unless the store hangs: see `LAST`."""
        if not self._is_left_alone:
            self._thread.join(LAST)

    @property
    def _is_left_alone(self) -> bool:
        hangs = self._hangs
        return time.monotonic() < self._left_alone_until or not (hangs is None or hangs.done())

    def _refuse_while_left_alone(self) -> None:
        if self._is_left_alone:
            raise StoreError(f"it is left alone for some seconds: {self._why}")

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
