"""The bytes kept of one side of a flow: the first and the last ones, up to a limit."""

from __future__ import annotations

from ...inspect.parse.frames import gap
from ...wire.stream_tail import Tail, append


class Body:
    __slots__ = ("_limit", "_pieces", "_room", "_tail", "total")

    def __init__(self, limit: int) -> None:
        """Half of the `limit` is for the first bytes, half for the last."""
        self._limit = limit
        self._room = limit - limit // 2
        self._pieces: list[bytes] = []
        self._tail: Tail | None = None
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if len(data) <= self._room:
            self._room -= len(data)
            append(self._pieces, data)
            return
        if self._room:
            append(self._pieces, data[: self._room])
            data = data[self._room :]
            self._room = 0
        if self._limit > 1:
            self._tail = self._tail or Tail(self._limit // 2)
            self._tail.add(data)

    @property
    def head(self) -> bytes:
        joined = b"".join(self._pieces)
        self._pieces = [joined]
        return joined

    @property
    def tail(self) -> bytes:
        return self._tail.kept if self._tail else b""

    def ends(self, whole: int, part: int) -> tuple[bytes, bytes]:
        """The first bytes, and the last if that is not all; of more than `whole` bytes only a
        `part` of each."""
        body, tail = (self.head, self.tail) if self.missing else (self.kept, b"")
        if len(body) <= whole:
            return body, tail
        return body[:part], (tail or body)[-part:]

    @property
    def missing(self) -> int:
        return max(0, self.total - self._limit)

    @property
    def kept(self) -> bytes:
        """The bytes, with a comment where some are missing."""
        missing = gap(self.missing) if self.missing and self._limit else b""
        return b"".join((self.head, missing, self.tail))
