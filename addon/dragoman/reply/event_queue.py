"""The events that are written and not sent yet.

An event is made bytes at once, so that nothing that happens later changes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..wire.sse import Frame


class EventQueue:
    """The events of one reply."""

    def __init__(self) -> None:
        self.number = 0
        """That of the next event, in an API that numbers them."""
        self.frames: list[Frame] = []
        self.wanted = True
        """Whether the events are sent; a client that asked for no stream gets only the reply."""
        self.last = 0
        """How many frames are the end of the reply, when that has been written: a client that has
        received any of them may ask for the reply."""

    def send(self, frames: Sequence[Frame]) -> None:
        if self.wanted:
            self.frames += frames

    def drain(self) -> list[Frame]:
        """The frames since the last call."""
        frames, self.frames = self.frames, []
        return frames
