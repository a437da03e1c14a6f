"""The events that are written and not sent yet, numbered in their order.

An event is made bytes at once, so nothing that happens later changes it.  One that may be long,
and whose fields change no more, is made bytes when it is sent, at once or in slices.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, cast

from ...wire import sse
from ...wire.json_codec import Json, dumps
from ...wire.json_slices import LONG_STRING, is_much
from ...wire.slices import Slices
from ...wire.sse import Frame
from .long_texts import LongTexts

AT_ONCE = 32
"""Steps of writing that `EventQueue.drain` does where the rest can wait: some milliseconds."""


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """An event whose fields change no more."""

    body: Json


class EventQueue:
    """The events of one response."""

    def __init__(self) -> None:
        self.number = 0
        """The next event's."""
        self.frames: list[Frame | _Unwritten] = []
        self.long = LongTexts()
        self.waits = False
        """Whether what takes long to write waits for `step`; its frames are pieces of events."""
        self.has_more = False
        """Whether some of the frames are unwritten."""
        self.holds_end = False
        """Whether the end of the response waits for `release_end`."""
        self.end: list[Frame | _Unwritten] = []
        self.first_size = 0
        """Bytes of the event that opened the response."""
        self._work: Slices[None] | None = None
        self._written: list[Frame] = []

    def add(self, event: str, **fields: Any) -> None:
        """One event; ``event:`` equals ``type``."""
        self.frames.append(sse.encode(dumps(self._numbered(event, fields)), event=event))

    def add_final(self, event: str, **fields: Any) -> None:
        """The same for one that may be long, and whose fields change no more."""
        if self.long or is_much(fields):
            self.add_later(event, **fields)
        else:
            self.add(event, **fields)

    def add_later(self, event: str, **fields: Any) -> None:
        """The same for one that is not worth its bytes if nobody wants them."""
        self.frames.append(_Unwritten(self._numbered(event, fields)))
        self.has_more = True

    def _numbered(self, event: str, fields: Json) -> Json:
        body = {"type": event, "sequence_number": self.number, **fields}
        self.number += 1
        return body

    def hold_end(self, frames: int) -> None:
        """So many of the last frames are the end of the response."""
        if self.holds_end:
            self.end = self.frames[-frames:]
            del self.frames[-frames:]

    def release_end(self) -> None:
        self.frames += self.end
        self.has_more = bool(self.end)
        self.end = []

    def drain(self) -> list[Frame]:
        """The frames since the last call; if this `waits`, those that take few steps."""
        if not self.has_more:
            frames, self.frames = self.frames, []
            return cast(list[Frame], frames)
        for _ in range(AT_ONCE if self.waits else sys.maxsize):
            if not self.step():
                break
        return self.written()

    def draining(self) -> Slices[list[Frame]]:
        """All frames, in slices."""
        while self.step():
            yield
        return self.written()

    def step(self) -> bool:
        """Write a little; returns whether there is more."""
        self._work = self._work or self._writing()
        next(self._work, None)
        return self.has_more

    def written(self) -> list[Frame]:
        """What `step` has written."""
        written, self._written = self._written, []
        return written

    def clear(self) -> None:
        """The frames so far are not wanted."""
        self.frames.clear()
        self._written.clear()
        self.has_more = False
        self._work = None

    def _writing(self) -> Slices[None]:
        try:
            while self.frames:
                frames, self.frames = self.frames, []
                for frame in frames:
                    if isinstance(frame, _Unwritten):
                        yield from self._event(frame.body)
                        yield
                    else:
                        self._written.append(frame)
        finally:
            self._work, self.has_more = None, bool(self.frames)

    def _event(self, body: Json) -> Slices[None]:
        if self.long or is_much(body):
            pieces = yield from self.long.writing(body)
        else:
            pieces = [dumps(body)]
        if not body["sequence_number"]:
            self.first_size = sum(map(len, pieces))
        if not self.waits or sum(map(len, pieces)) <= LONG_STRING:
            self._written.append(sse.encode(*pieces, event=body["type"]))
            return
        around = sse.encode(b"", event=body["type"]).raw
        for piece in (around[:-2], *pieces, around[-2:]):
            for begin in range(0, len(piece), LONG_STRING):
                self._written.append(Frame(piece[begin : begin + LONG_STRING]))
                yield
