"""The events that are written and not sent yet, numbered in their order.

An event is made bytes at once, so that nothing that happens later changes it.
"""

from __future__ import annotations

from typing import Any

from ..wire.sse import Frame, encode_event


class EventQueue:
    """The events of one response."""

    def __init__(self) -> None:
        self.number = 0
        """The next event's."""
        self.frames: list[Frame] = []
        self.wanted = True
        """Whether the events are sent; a client that asked for no stream gets only the response."""
        self.holds_end = False
        """Whether the end of the response waits for `release_end`."""
        self.end: list[Frame] = []

    def add(self, event: str, /, **fields: Any) -> None:
        """One event; ``event:`` equals ``type``."""
        if self.wanted:
            value = {"type": event, "sequence_number": self.number, **fields}
            self.frames.append(encode_event(event, value))
        self.number += 1

    def hold_end(self, frames: int) -> None:
        """The end of the response has been written: so many frames."""
        if self.holds_end:
            self.end = self.frames[-frames:]
            del self.frames[-frames:]

    def release_end(self) -> None:
        self.frames += self.end
        self.end = []

    def drain(self) -> list[Frame]:
        """The frames since the last call."""
        frames, self.frames = self.frames, []
        return frames
