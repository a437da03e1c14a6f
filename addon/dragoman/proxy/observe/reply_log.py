"""The bytes kept of both sides of a reply, and when they passed."""

from __future__ import annotations

import logging
import time
from collections import deque

from ...inspect.exchange import Step, Timing
from ...inspect.parse.frames import gap
from ...reply.facts import TAIL
from .refresh import FlowRefresher

logger = logging.getLogger(__name__)

MAX_LOOKED_AT = 1024 * 1024
"""Bytes of a reply that are looked at while it grows, twice a second."""
FIRST_STEPS = 256
MAX_STEPS = 2048
"""Steps that are kept of a stream: the first ones all, later ones thinned out."""
_SMALL = 128
"""Bytes of a piece that is not worth an object of its own."""


def _append(pieces: list[bytes] | deque[bytes], data: bytes) -> None:
    """Pieces stay the same objects: what others keep as well takes memory once."""
    if pieces and len(pieces[-1]) + len(data) < _SMALL:
        pieces[-1] += data
    else:
        pieces.append(data)


class Tail:
    """The last bytes of a stream."""

    __slots__ = ("_limit", "_pieces", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        data = data[-self._limit :] if len(data) > self._limit else data
        _append(self._pieces, data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())

    @property
    def kept(self) -> bytes:
        return b"".join(self._pieces)[-self._limit :]


class Body:
    """The bytes kept of one side: the first and the last ones, up to a limit."""

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
        if not data:
            return  # of many pieces nothing is sent: they take no memory
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
        if len(self._pieces) != 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]

    @property
    def tail(self) -> bytes:
        return self._tail.kept if self._tail else b""

    @property
    def ends(self) -> bytes:
        """What is looked at while it grows: of a long one the beginning and the end."""
        kept = self.kept
        return kept if len(kept) <= MAX_LOOKED_AT else kept[:TAIL] + b"\n\n" + kept[-TAIL:]

    @property
    def missing(self) -> int:
        return max(0, self.total - self._limit)

    @property
    def kept(self) -> bytes:
        """The bytes, with a comment where some are missing."""
        if self._tail is None and not self.missing:
            return self.head
        missing = gap(self.missing) if self.missing and self._limit else b""
        return b"".join((self.head, missing, self.tail))


class ReplyLog:
    """Both sides of one reply, and when its pieces passed."""

    def __init__(self, keep: int, began: float) -> None:
        """`keep` is how many bytes are kept of each side; `began` is when the request ended."""
        self.growth: FlowRefresher | None = None
        self.encoding = ""
        """The content encoding in which the reply passes, if it passes as it comes, and in one."""
        self.upstream, self.client = Body(keep), Body(keep)
        self._steps: list[Step] = []
        self._began = self._last = began
        self._count, self._stride = 0, 1
        self._silence = 0.0
        self._broken = False

    def add(self, received: bytes, sent: bytes) -> None:
        """A piece came from the upstream, and this, perhaps nothing, was sent for it."""
        self._add(received, sent, at=time.time())
        if self.growth is not None:
            self.growth.grew()

    def add_received(self, data: bytes) -> None:
        """This came from the upstream; what is sent for it is added later."""
        self._add(data, b"")

    def add_sent_in_silence(self, data: bytes) -> None:
        """This was sent although nothing had come: the upstream's silence continues."""
        self._add(b"", data)
        if self.growth is not None:
            self.growth.grew()

    @property
    def shown(self) -> bytes:
        """What is kept of the client's side while it grows; nothing of one that is encoded."""
        return b"" if self.encoding else self.client.kept

    @property
    def timing(self) -> Timing:
        """Until the last piece.  Steps are in bytes without content encoding."""
        steps = () if self.encoding else tuple(self._steps)
        return Timing(steps, self._last - self._began, self._silence)

    def _add(self, received: bytes, sent: bytes, *, at: float | None = None) -> None:
        """`at`: the time of a step.  A fault of the record must not end the stream."""
        if self._broken:
            return
        try:
            self.upstream.add(received)
            self.client.add(sent)
            if at is not None:
                self._step(at)
        except Exception:
            self._broken = True
            logger.exception("A stream continues without being recorded")

    def _step(self, at: float) -> None:
        at = max(at, self._last)  # the clock may have been set back
        self._silence = max(self._silence, at - self._last)
        self._last = at
        self._count += 1
        if self._count % self._stride == 0:
            self._steps.append(Step(at - self._began, self.upstream.total, self.client.total))
            if len(self._steps) > MAX_STEPS:
                self._steps[FIRST_STEPS:] = self._steps[FIRST_STEPS::2]
                self._stride *= 2
