"""What a stage that repairs the frames of a stream is, for any API."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from ..wire.chat_end import error_frame
from ..wire.heartbeats import HEARTBEAT
from ..wire.sse import Document, Frame
from .facts import TurnReader

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that others may interrupt where it yields."""


def at_once(steps: Steps[T]) -> T:
    """What it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class RepairStage:
    """The stage that repairs the frames of a stream; this one changes nothing."""

    facts: TurnReader | None = None
    """Reads what the stage reads, and what leaves."""

    def heartbeat(self) -> Frame:
        """What keeps the client waiting between two frames; it may have no bytes."""
        return HEARTBEAT

    @property
    def unfinished(self) -> bool:
        """Whether a call would be cut if the stream ended now, by an API whose streams need not
        say that they end."""
        return False

    def feed(self, frame: Frame) -> list[Frame]:
        """The frames that may leave, once this has come."""
        if self.facts is not None:
            self.facts.passed(frame)
        return [frame]

    def steps(self, frame: Frame) -> Steps[list[Frame]]:
        """As `feed`: other flows may run where it yields, but nothing else may be fed."""
        yield from ()
        return self.feed(frame)

    def close(self) -> list[Frame]:
        """The stream has ended: what was held."""
        return []

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what was held."""
        return []

    def unsent(self) -> list[Frame] | None:
        """After a fault: the frames that have not left, as they came; None if something has left
        that differs from what came."""
        return []

    def document(self, body: bytes) -> Steps[bytes]:
        """A reply that came whole, repaired; as it came if nothing in it needs that.  Other flows
        may run where it yields."""
        yield from ()
        return self._passes(Document(body), body)

    def _passes(self, document: Document, body: bytes) -> bytes:
        """A whole reply leaves as it came, and no stage has read it."""
        if self.facts is not None:
            self.facts.passed(document)
        return body

    def error(self, message: str) -> Frame:
        """The last event of a reply that cannot be broken off."""
        return error_frame(message)
