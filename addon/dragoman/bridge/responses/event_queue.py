"""The events that are written and not sent yet, numbered in their order.

An event is made bytes at once, so nothing that happens later changes it.  One that ends an
item or the response may be long, and its fields change no more: it is made bytes when it is
sent, at once or in slices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ...wire import sse
from ...wire.json_codec import Json, dumps
from ...wire.slices import Slices, drained
from ...wire.sse import Frame
from .long_texts import LongTexts


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """An event whose fields change no more."""

    body: Json


class EventQueue:
    """The events of one response."""

    __slots__ = ("_unwritten", "frames", "long", "number")

    def __init__(self) -> None:
        self.number = 0
        """The next event's."""
        self.frames: list[Frame | _Unwritten] = []
        self._unwritten = False
        self.long = LongTexts()

    def add(self, event: str, **fields: Any) -> Frame:
        """One event; ``event:`` equals ``type``."""
        body = self._numbered(event, fields)
        data = drained(self.long.writing(body)) if self.long else dumps(body)
        frame = sse.encode(data, event=event)
        self.frames.append(frame)
        return frame

    def add_final(self, event: str, **fields: Any) -> None:
        """The same for one whose fields change no more."""
        self.frames.append(_Unwritten(self._numbered(event, fields)))
        self._unwritten = True

    def _numbered(self, event: str, fields: Json) -> Json:
        body = {"type": event, "sequence_number": self.number, **fields}
        self.number += 1
        return body

    def drain(self) -> list[Frame]:
        """The frames since the last call."""
        if self._unwritten:
            return drained(self.draining())
        frames, self.frames = self.frames, []
        return cast(list[Frame], frames)

    def draining(self) -> Slices[list[Frame]]:
        """The same in slices."""
        frames, self.frames = self.frames, []
        self._unwritten = False
        written = []
        for frame in frames:
            if isinstance(frame, _Unwritten):
                data = yield from self.long.writing(frame.body)
                written.append(sse.encode(data, event=frame.body["type"]))
                yield
            else:
                written.append(frame)
        return written

    def clear(self) -> None:
        """The frames since the last call are not wanted."""
        self.frames.clear()
        self._unwritten = False
