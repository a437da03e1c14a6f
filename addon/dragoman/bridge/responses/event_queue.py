"""The events that are written and not sent yet, numbered in their order.

An event is made bytes at once, so that nothing that happens later changes it.  One that may be
long, and whose fields change no more, is made bytes when it is sent, at once or in slices.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, cast

from ...wire import sse
from ...wire.json_codec import Json, dumps, quoted
from ...wire.json_slices import LONG_STRING, is_much, writing
from ...wire.slices import Slices
from ...wire.sse import Frame

AT_ONCE = 32
"""Steps of writing that `EventQueue.drain` does where the rest can wait: some milliseconds."""
LONG = 64 * 1024
"""Characters of a text that is written only once, though the end of a reply repeats it."""
_HOLDERS = frozenset({"response", "output", "item", "content", "summary", "part", "function"})
"""The fields that lead to the texts of a reply."""


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
        self.long_texts = LongTexts()
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
        data = dumps({"type": event, "sequence_number": self.number, **fields})
        self.number += 1
        self.frames.append(sse.encode(data, event=event))

    def add_final(self, event: str, **fields: Any) -> None:
        """One that may be long, and whose fields change no more."""
        if self.long_texts.known or is_much(fields):
            self.add_later(event, **fields)
        else:
            self.add(event, **fields)

    def add_later(self, event: str, **fields: Any) -> None:
        """The same for one that is not made bytes unless it is sent."""
        self.frames.append(_Unwritten({"type": event, "sequence_number": self.number, **fields}))
        self.number += 1
        self.has_more = True

    def hold_end(self, frames: int) -> None:
        """The last frames, so many, are the end of the response."""
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
        if self.long_texts.known or is_much(body):
            pieces = yield from self.long_texts.writing(body)
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


class LongTexts:
    """The long texts of one response.

    The end of a reply repeats a text three times: by itself, in its item, and in the response.  To
    write a string takes several milliseconds a megabyte, so each is written once, and stays in
    pieces: even to join sixteen megabytes takes its time.
    """

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        """By their identity.  They are held: else another object could get the same."""
        self._written: dict[int, list[bytes]] = {}

    def add(self, text: str) -> None:
        """Remember a text, if it is long."""
        if len(text) > LONG:
            self.known[id(text)] = text

    def writing(self, value: Any) -> Slices[list[bytes]]:
        """What `dumps` writes for a value, in slices and in pieces; but only a part of the string
        with a lone surrogate is escaped, where `dumps` escapes all that is not ASCII."""
        if not self.known:
            return [(yield from writing(value))]
        out: list[bytes] = []
        yield from self._value(value, out, holds=True)
        return out

    def _value(self, value: Any, out: list[bytes], *, holds: bool) -> Slices[None]:
        """`holds`: whether a long text may be in it."""
        if id(value) in self.known:
            out += yield from self._text(value)
        elif not (holds and value and isinstance(value, (dict, list))):
            out.append((yield from writing(value)))
        elif isinstance(value, dict):
            mark = b"{"
            for name, member in value.items():
                out.append(mark + quoted(name) + b":")
                yield from self._value(member, out, holds=name in _HOLDERS)
                mark = b","
            out.append(b"}")
        else:
            mark = b"["
            for member in value:
                out.append(mark)
                yield from self._value(member, out, holds=self._holds(member))
                mark = b","
            out.append(b"]")
        yield

    def _text(self, text: str) -> Slices[list[bytes]]:
        if id(text) not in self._written:
            pieces = [b'"']
            for begin in range(0, len(text), LONG_STRING):
                pieces.append(quoted(text[begin : begin + LONG_STRING])[1:-1])
                yield
            self._written[id(text)] = [*pieces, b'"']
        return self._written[id(text)]

    def _holds(self, value: Any) -> bool:
        """Whether an item or a part holds a long text; a response may have thousands."""
        if isinstance(value, list):
            return any(map(self._holds, value))
        return isinstance(value, dict) and any(
            id(member) in self.known or (name in _HOLDERS and self._holds(member))
            for name, member in value.items()
        )
