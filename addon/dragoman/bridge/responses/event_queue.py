"""The events that were told and not handed over yet, numbered in their order.

They are bytes as soon as they are told, so nothing that happens later changes them; but for
those that end something, which nothing changes any more.  Such a one may be long, and is written
when it is handed over: at once, or in slices.
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
    """An event that nothing changes any more."""

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

    def tell(self, event: str, **fields: Any) -> Frame:
        """One event; ``event:`` equals ``type``."""
        body = self._numbered(event, fields)
        data = drained(self.long.writing(body)) if self.long else dumps(body)
        frame = sse.encode(data, event=event)
        self.frames.append(frame)
        return frame

    def tell_end(self, event: str, **fields: Any) -> None:
        """The same for one whose fields nothing changes any more."""
        self.frames.append(_Unwritten(self._numbered(event, fields)))
        self._unwritten = True

    def _numbered(self, event: str, fields: Json) -> Json:
        body = {"type": event, "sequence_number": self.number, **fields}
        self.number += 1
        return body

    def drain(self) -> list[Frame]:
        """Those since the last call."""
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

    def forget(self) -> None:
        """Nobody wants those since the last call."""
        self.frames.clear()
        self._unwritten = False
