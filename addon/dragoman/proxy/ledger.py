"""The bytes that are kept of the flows, within a limit.

The invariant: what is kept of one side, over all flows, is at most `Ledger.limit` bytes.
Beyond it flows give their bytes up, the oldest that has ended first; one that is alone
keeps its beginning.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from mitmproxy import http

TAIL = 64 * 1024
"""Bytes that are kept of the end of a side that is too long: they hold the usage."""


class Ledger:
    """The bytes that are kept of one side of all flows."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        # Both oldest first.
        self._ended: dict[Body, None] = {}
        self._running: dict[Body, None] = {}

    @property
    def limit(self) -> int:
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._make_room(None)

    def grew(self, body: Body, size: int) -> None:
        """`body` has taken `size` bytes; others, older ones, may lose theirs for it."""
        (self._ended if body.ended else self._running).setdefault(body)
        self._size += size
        if self._size > self._limit:
            self._make_room(body)

    def _make_room(self, latest: Body | None) -> None:
        while self._size > self._limit:
            body = next(iter(self._ended or self._running))
            if body is latest and len(self._ended) + len(self._running) == 1:
                self._size -= body.cut(self._size - self._limit)
                return
            self.forget(body)
            body.drop()

    def forget(self, body: Body) -> None:
        """`body` is not kept any more."""
        for bodies in (self._ended, self._running):
            if body in bodies:
                del bodies[body]
                self._size -= body.size

    def end(self, body: Body) -> None:
        """`body` grows no more."""
        if body in self._running:
            del self._running[body]
            self._ended[body] = None


class Body:
    """One side of one flow: its bytes, as far as they are kept."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._data = bytearray()
        self._taken_back: Callable[[], None] | None = None
        self.ended = False
        self.size = 0
        """Bytes that count in the ledger."""
        self.total = 0
        """Bytes that passed."""
        self.tail = b""
        """The last bytes, if some before them are missing."""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if self.total - len(data) > self.size:
            self.tail = (self.tail + data)[-TAIL:]
            return
        self._data += data
        self.size += len(data)
        self._ledger.grew(self, len(data))

    def cut(self, size: int) -> int:
        """Give up `size` bytes at the end; returns how many that were."""
        self.tail = bytes(self._data[-TAIL:])
        del self._data[-size:]
        self.size -= size
        return size

    def drop(self) -> None:
        """Give up everything."""
        self.tail = self.tail or bytes(self._data[-TAIL:])
        self._data = bytearray()
        self.size = 0
        if self._taken_back:
            self._taken_back()

    @property
    def kept(self) -> bytes:
        return bytes(self._data)

    @property
    def view(self) -> bytearray:
        """What is kept, not copied: not to be changed."""
        return self._data

    @property
    def missing(self) -> int:
        return self.total - self.size

    def release(self) -> None:
        """Keep nothing any more: the same bytes are kept elsewhere."""
        self._ledger.forget(self)
        self._data = bytearray()

    def hand_over(
        self, flow: http.HTTPFlow, ledger: Ledger, take_back: Callable[[http.HTTPFlow], None]
    ) -> bytes:
        """The bytes, which from now on `flow` holds; they count in `ledger` until
        `take_back(flow)` takes them from it."""
        kept, self._data = self.kept, bytearray()
        reference = weakref.ref(flow, lambda _: ledger.forget(self))

        def taken_back() -> None:
            if (still := reference()) is not None:
                take_back(still)

        self._taken_back = taken_back
        self.ended = True
        if ledger is self._ledger:
            ledger.end(self)
        else:
            self._ledger.forget(self)
            self._ledger = ledger
            ledger.grew(self, self.size)
        return kept
