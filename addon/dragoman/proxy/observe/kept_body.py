"""The bytes that are kept of one side of a flow: the first ones and the last ones.

The invariant: of a side no more than its limit is kept, whatever passes.
"""

from __future__ import annotations

from collections import deque

from ...inspect.parse.gap import gap

_SMALL = 128
"""Bytes of a piece that is not worth an object of its own."""


def _append(pieces: list[bytes] | deque[bytes], data: bytes) -> None:
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
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        """This passes."""
        data = data[-self._limit :]
        _append(self._pieces, data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())

    @property
    def kept(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]


class Body:
    """One side of one flow: its bytes, as far as they are kept."""

    __slots__ = ("_limit", "_pieces", "_room", "_tail", "total")

    def __init__(self, limit: int) -> None:
        """Half of the `limit` is for the first bytes, half for the last."""
        self._limit = limit
        self._room = limit - limit // 2
        self._pieces: list[bytes] = []
        self._tail: Tail | None = None
        self.total = 0
        """Bytes that passed."""

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if len(data) <= self._room:
            self._room -= len(data)
            _append(self._pieces, data)
            return
        if self._room:
            _append(self._pieces, data[: self._room])
            data = data[self._room :]
            self._room = 0
        if self._limit > 1:
            self._tail = self._tail or Tail(self._limit // 2)
            self._tail.add(data)

    @property
    def head(self) -> bytes:
        """The first bytes; looked at again, they need not be joined again."""
        joined = b"".join(self._pieces)
        self._pieces = [joined]
        return joined

    @property
    def tail(self) -> bytes:
        """The last bytes; none if the first ones are all."""
        return self._tail.kept if self._tail else b""

    @property
    def missing(self) -> int:
        return max(0, self.total - self._limit)

    @property
    def kept(self) -> bytes:
        """The bytes, with a comment where some are missing."""
        missing = gap(self.missing) if self.missing and self._limit else b""
        return b"".join((self.head, missing, self.tail))
