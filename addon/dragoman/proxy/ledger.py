"""The bytes that are kept of the flows, within a limit.

The invariant: what is kept of one side, over all flows, is at most `Ledger.limit` bytes.
Beyond it the oldest flow gives its bytes up first; one that is alone keeps its beginning.
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
        self.limit = limit
        self._size = 0
        self._bodies: dict[Body, None] = {}  # oldest first

    def grew(self, body: Body, size: int) -> None:
        """`body` has taken `size` bytes; others, older ones, may lose theirs for it."""
        self._bodies.setdefault(body)
        self._size += size
        while self._size > self.limit:
            oldest = next(iter(self._bodies))
            if oldest is body and len(self._bodies) == 1:
                self._size -= body.cut(self._size - self.limit)
                return
            self.forget(oldest)
            oldest.drop()

    def forget(self, body: Body) -> None:
        """`body` is not kept any more."""
        if body in self._bodies:
            del self._bodies[body]
            self._size -= body.size


class Body:
    """One side of one flow: its bytes, as far as they are kept."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._data = bytearray()
        self._finished: Callable[[], None] | None = None
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
        if self._finished:
            self._finished()

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

    def hand_over(self, flow: http.HTTPFlow, drop: Callable[[http.HTTPFlow], None]) -> bytes:
        """The bytes, which from now on `flow` holds until `drop(flow)` takes them from it."""
        kept, self._data = self.kept, bytearray()
        reference = weakref.ref(flow, lambda _: self._ledger.forget(self))

        def finished() -> None:
            if (still := reference()) is not None:
                drop(still)

        self._finished = finished
        return kept
