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
_SMALL = 128
"""Bytes of a piece that is not worth an object of its own."""


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


def _append(pieces: list[bytes], data: bytes) -> None:
    """Pieces stay the objects that passed: what others keep as well takes memory once."""
    if pieces and len(pieces[-1]) + len(data) < _SMALL:
        pieces[-1] += data
    else:
        pieces.append(data)


class Tail:
    """The last `limit` bytes of what passes."""

    __slots__ = ("_limit", "_pieces", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """This passes."""
        data = data[-self._limit :]
        _append(self._pieces, data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.pop(0))

    @property
    def kept(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]


class Body:
    """One side of one flow: its bytes, as far as they are kept."""

    __slots__ = ("_ledger", "_pieces", "_tail", "_taken_back", "ended", "size", "total")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._pieces: list[bytes] = []
        self._tail: Tail | None = None
        self._taken_back: Callable[[], None] | None = None
        self.ended = False
        self.size = 0
        """Bytes that count in the ledger."""
        self.total = 0
        """Bytes that passed."""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if self.total - len(data) > self.size:
            self._begin_tail().add(data)
            return
        _append(self._pieces, data)
        self.size += len(data)
        self._ledger.grew(self, len(data))

    def _begin_tail(self) -> Tail:
        if self._tail is None:
            self._tail = Tail(TAIL)
            self._tail.add(self.kept)
        return self._tail

    def cut(self, size: int) -> int:
        """Give up `size` bytes at the end; returns how many that were."""
        self._begin_tail()
        self._pieces = [self.kept[:-size]]
        self.size -= size
        return size

    def drop(self) -> None:
        """Give up everything."""
        self._begin_tail()
        self._pieces = []
        self.size = 0
        if self._taken_back:
            self._taken_back()

    @property
    def kept(self) -> bytes:
        """The bytes that are kept; looked at again, they need not be joined again."""
        joined = b"".join(self._pieces)
        self._pieces = [joined]
        return joined

    @property
    def tail(self) -> bytes:
        """The last bytes, if some before them are missing."""
        return self._tail.kept if self._tail else b""

    @property
    def missing(self) -> int:
        return self.total - self.size

    def release(self) -> None:
        """Keep nothing any more: the same bytes are kept elsewhere."""
        self._ledger.forget(self)
        self._pieces = []

    def hand_over(
        self, flow: http.HTTPFlow, ledger: Ledger, take_back: Callable[[http.HTTPFlow], None]
    ) -> bytes:
        """The bytes, which from now on `flow` holds; they count in `ledger` until
        `take_back(flow)` takes them from it."""
        kept, self._pieces = self.kept, []
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
