"""The events of a response, numbered in their order."""

from __future__ import annotations

from typing import Any

from ..reply.event_queue import EventQueue
from ..wire.sse import encode_event


class NumberedEvents(EventQueue):
    """`number` is that of the next event."""

    def add(self, event: str, /, **fields: Any) -> None:
        """One event."""
        if self.wanted:
            value = {"type": event, "sequence_number": self.number, **fields}
            self.frames.append(encode_event(value))
        self.number += 1
