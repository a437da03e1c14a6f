"""The frames that wait, in their order, until it is decided what becomes of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from .pending import PendingFrame

MAX_BEHIND = 256
"""Frames that wait behind an undecided one of another choice."""
MAX_HELD = 16 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Frames, and their bytes, that may wait in all: as many frames as what may be a call has
characters (`scanner.CANDIDATE_LIMIT`), four to a frame.  What holds up more is no LLM's reply,
and is not repaired any further."""


class PendingFrames:
    """A queue of frames; each costs the same however many wait."""

    def __init__(self) -> None:
        self._frames: list[PendingFrame] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def __iter__(self) -> Iterator[PendingFrame]:
        return iter(self._frames)

    @property
    def latest(self) -> PendingFrame | None:
        return self._frames[-1] if self._frames else None

    @property
    def too_many(self) -> bool:
        """Whether more wait than is held."""
        return len(self._frames) > MAX_HELD or self._size > MAX_HELD_BYTES

    def add(self, waiting: PendingFrame) -> None:
        """One more frame."""
        self._frames.append(waiting)
        self._size += len(waiting.frame.raw)

    def decided(self, *, several: bool) -> list[PendingFrame]:
        """Those that may leave: up to the first that is undecided.  Where `several` choices
        run, others do not wait for it much longer."""
        decided = list(itertools.takewhile(lambda waiting: waiting.decided, self._frames))
        left = len(self._frames) - len(decided)
        if several and left > MAX_BEHIND and left % MAX_BEHIND == 1:
            return [waiting for waiting in self._frames if waiting.decided]
        return decided

    def remove(self, gone: list[PendingFrame]) -> None:
        """These have left."""
        if len(gone) == len(self._frames):
            self.clear()
        elif gone:
            ids = set(map(id, gone))
            self._frames = [waiting for waiting in self._frames if id(waiting) not in ids]
            self._size -= sum(len(waiting.frame.raw) for waiting in gone)

    def clear(self) -> None:
        """None waits any more."""
        self._frames = []
        self._size = 0
