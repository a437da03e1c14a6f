"""Keeps the last bytes of a stream."""

from __future__ import annotations

from collections import deque

_SMALL = 128
"""Bytes of a piece that is not worth an object of its own."""


def append(pieces: list[bytes] | deque[bytes], data: bytes) -> None:
    """Pieces stay the same objects: what others keep as well takes memory once."""
    if pieces and len(pieces[-1]) + len(data) < _SMALL:
        pieces[-1] += data
    else:
        pieces.append(data)


class Tail:
    __slots__ = ("_limit", "_pieces", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        if len(data) > self._limit:
            data = data[-self._limit :]
        pieces = self._pieces
        if len(data) < _SMALL:
            append(pieces, data)
        else:
            pieces.append(data)
        self._size += len(data)
        while self._size - len(pieces[0]) >= self._limit:
            self._size -= len(pieces.popleft())

    @property
    def kept(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]
