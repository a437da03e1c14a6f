"""Frames that went by unread: what they said may have to be known later.

Whether a marker stands in quoted code, or has its header before it, is told by the text
before it.  Nearly all frames pass without having been read, so their bytes are kept until a
frame comes that has to be.  Bounded: of many bytes without a backtick or a tilde, only the
last matter.
"""

from __future__ import annotations

from ..sse import Frame, FrameSplitter

MAX_KEPT = 64 * 1024
"""Bytes that are kept; beyond them it is cheaper to read than to keep."""
_LAST = 8 * 1024
"""Bytes that are kept of more: they hold the line in which the text stands."""


class PassedFrames:
    """The frames since the last time that they were taken."""

    __slots__ = ("_pieces", "_size", "skipped")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self.skipped = False
        """Whether frames before these are missing, in which no code begins or ends."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, raw: bytes) -> bool:
        """One or more whole frames have passed.  Returns whether they have to be taken now."""
        self._pieces.append(raw)
        self._size += len(raw)
        return self._size > MAX_KEPT and not self._shortened()

    def take(self) -> list[Frame]:
        """All of them; `skipped` speaks of those that are taken the next time."""
        frames = FrameSplitter().feed(b"".join(self._pieces))
        self._pieces = []
        self._size = 0
        self.skipped = False
        return frames

    def _shortened(self) -> bool:
        passed = b"".join(self._pieces)
        if b"`" in passed or b"~" in passed or b"\\u00" in passed:
            return False
        begin = passed.find(b"\n\n", len(passed) - _LAST) + 2
        self._pieces = [passed[begin:]] if begin >= 2 else []
        self._size = len(passed) - begin if begin >= 2 else 0
        self.skipped = True
        return True
