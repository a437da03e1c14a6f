"""What writers have in common whose API numbers its events: until the first change frames leave as
they came, and the writer follows; from then on no frame leaves, and it writes all.

What the client has is known from what has left, never from the reader, which has read ahead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..wire.sse import Frame
from .event_queue import EventQueue
from .words import Delta, Part, Reader, Said, Text


class NumberedWriter(ABC):
    held: Sequence[Said] = ()

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.changed = False
        self._events = EventQueue()
        """What is written."""

    # What an API decides

    @abstractmethod
    def _follow(self, delta: Delta) -> None:
        """The client has received this."""

    @abstractmethod
    def _take_over(self, said: Said) -> None:
        """With this frame something changes: begin to write."""

    @abstractmethod
    def _say(self, delta: Delta) -> None:
        """Write a word."""

    @abstractmethod
    def _pass_on(self, frame: Frame) -> None:
        """Write a frame that is no event of the API."""

    @abstractmethod
    def _leaks_in(self, part: Part) -> None:
        """A text is not as it came any more."""

    # The interface of `Writer`

    def changes(self, said: Said, sent: list[Frame]) -> bool:
        del said, sent
        return self.changed

    def passed(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        if self.changed:
            self._say(self._reader.delta(part, text))
            return self._events.drain()
        return self._continued(frame, part, text)

    def _continued(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        """A frame that only continues, and leaves as it came."""
        self._follow(self._reader.delta(part, text))
        return [frame]

    def replaced(self, frame: Frame, part: Part) -> list[Frame]:
        if not self.changed:
            self._begin(Said(frame, self._reader.value))
        self._leaks_in(part)
        return self._events.drain()

    def write(self, said: Said) -> list[Frame]:
        if self.changed or not said.same:
            return self._written(said)
        return self._unchanged(said)

    def _unchanged(self, said: Said) -> list[Frame]:
        """A frame that leaves as it came."""
        for slot in said.slots:
            for delta in slot.out:
                self._follow(delta)
        return [said.frame]

    def end(self, last: Said) -> list[Frame]:
        return self._written(last) if last.slots else []

    def _begin(self, said: Said) -> None:
        self.changed = True
        self._take_over(said)

    def _written(self, said: Said) -> list[Frame]:
        if not self.changed:
            self._begin(said)
        self._say_all(said)
        return self._events.drain()

    def _say_all(self, said: Said) -> None:
        for slot in said.slots:
            if isinstance(slot.delta, Text) and not slot.same:
                self._leaks_in(slot.delta.part)
            for delta in slot.out:
                if said.raw is None and delta is slot.delta:
                    self._pass_on(said.frame)
                else:
                    self._say(delta)
