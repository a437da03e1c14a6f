"""The frames that wait, in their order, until it is decided what becomes of them.

The invariant: at any time `flush` gives, once, all content that was received and not taken.
"""

from __future__ import annotations

from ..wire.sse import Frame
from .chunk_writer import release, render
from .pending import PendingFrame, Policy
from .text_channel import TextChannel

MAX_AFTER_UNDECIDED = 256
"""Frames that wait for an undecided one of another choice."""
MAX_HELD = 16 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Frames, and their bytes, that may wait in all: as many frames as what may be a call has
characters (`call_reader.CANDIDATE_LIMIT`), four to a frame.  More is no LLM's reply, and is not
repaired any further."""


class PendingFrames:
    """A queue of frames; each costs the same however many wait."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.frames: list[PendingFrame] = []
        self._size = 0
        self._out: list[Frame] = []
        """What may be sent."""
        self._current: Frame | None = None
        """A frame that is being read."""
        self._latest: Frame | None = None
        """The one before, all of whose content is here, or has left."""

    @property
    def too_many(self) -> bool:
        return len(self.frames) > MAX_HELD or self._size > MAX_HELD_BYTES

    def begin(self, frame: Frame) -> None:
        """A frame is being read: until that is `done`, a fault may have lost part of it."""
        self._current = frame

    def done(self) -> None:
        self._latest, self._current = self._current, None

    def has_taken_in(self, frame: Frame) -> bool:
        """Whether this is the frame that was `done` last."""
        return frame is self._latest

    def add(self, waiting: PendingFrame) -> None:
        self.frames.append(waiting)
        self._size += len(waiting.frame.raw)

    def let_out(self, *, several: bool) -> list[Frame]:
        """Write what is decided; returns all that may be sent now.  All of it or nothing: a
        header may be in one frame and its call in a later one, and after a fault neither
        has left."""
        if decided := self.decided(several=several):
            written: list[Frame] = []
            for waiting in decided:
                written += render(waiting, self._policy)
            self.remove(decided)
            self._out += written
        return self._out

    def append(self, frames: list[Frame]) -> None:
        self._out += frames

    def take(self) -> list[Frame]:
        """What may be sent, once."""
        out, self._out = self._out, []
        return out

    def flush(self, held: list[Frame]) -> list[Frame]:
        """After a fault: everything that was not taken, as it came where that is possible;
        what was `held` of frames that have left comes before those that wait.  The frame in
        which the fault occurred counts as not begun."""
        frames = self._out + held
        for waiting in self.frames:
            if waiting.frame is not self._current:
                frames += release(waiting)
        frames += [self._current] if self._current is not None else []
        self._out, self._current = [], None
        self.clear()
        return frames

    def decided(self, *, several: bool) -> list[PendingFrame]:
        """Those that may leave: up to the first that is undecided.  Where `several` choices run,
        frames of the others wait for it only up to a limit."""
        count = 0
        for waiting in self.frames:
            if not waiting.decided:
                break
            count += 1
        undecided = len(self.frames) - count
        if several and undecided > MAX_AFTER_UNDECIDED and undecided % MAX_AFTER_UNDECIDED == 1:
            return [waiting for waiting in self.frames if waiting.decided]
        return self.frames[:count]

    def unchanged(self, channel: TextChannel) -> list[tuple[Frame, str]] | None:
        """Those that wait with their texts, if they have nothing but a text of this channel, of
        which nothing is decided."""
        frames, size = [], 0
        for waiting in self.frames:
            part = waiting.parts[0] if len(waiting.parts) == 1 else None
            if part is None or part.channel is not channel or part.changed or part.has_kinds:
                return None
            if part.natives is not None or part.finish:
                return None
            frames.append((waiting.frame, "".join(each.text for each in part.passages)))
            size += part.size
        return frames if size == channel.scanner.undecided else None

    def remove(self, sent: list[PendingFrame]) -> None:
        if len(sent) == len(self.frames):
            self.clear()
        else:
            ids = set(map(id, sent))
            self.frames = [waiting for waiting in self.frames if id(waiting) not in ids]
            self._size -= sum(len(waiting.frame.raw) for waiting in sent)

    def clear(self) -> None:
        self.frames = []
        self._size = 0
