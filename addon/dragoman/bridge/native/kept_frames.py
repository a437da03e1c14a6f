"""Frames of a native stream that passed unread, until they have to be read.

Nearly all are deltas of one text that differ in it, in their number and in what pads them: many
such are read at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from ...wire.frame_templates import learn
from ...wire.json_codec import Json, NotJson, loads, string
from ...wire.responses import is_event
from ...wire.sse import Frame, FrameSplitter
from .host_items import HostItems, HostText

MAX_KEPT = 64 * 1024
"""Bytes that are kept unread."""
_VALUE = rb'(?:[0-9]+|"[A-Za-z0-9+/=_-]*")'
_VARIES = re.compile(rb'("(?:sequence_number|obfuscation)":[ ]?)' + _VALUE)
_MAX_TRIES = 16
"""Deltas of a text after which none is tried any more as a pattern of the others."""


def event_of(frame: Frame) -> Json | None:
    """The event of a frame; None if that is none of the API."""
    data = frame.data if frame.whole else None
    try:
        event = loads(data) if data else None
    except NotJson:
        return None
    return event if isinstance(event, dict) and is_event(event) else None


class KeptFrames:
    """The frames since the last time that they were read."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._text: HostText | None = None
        """The text of which a pattern was, or is to be, learned."""
        self._tries = 0
        self._one: re.Pattern[bytes] | None = None
        """Matches one of its deltas."""
        self._run: re.Pattern[bytes] | None = None
        """Matches some of them, one after the other."""

    def add(self, raw: bytes) -> bool:
        """One or more whole frames have passed.  Returns whether they have to be read now."""
        self._pieces.append(raw)
        self._size += len(raw)
        return self._size > MAX_KEPT

    def read(self, host: HostItems) -> Iterator[tuple[HostText, str]]:
        """Have `host` read them, once: the texts that they continue, and with what."""
        passed = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if b"\r" in passed:
            for frame in FrameSplitter().feed(passed):
                yield from self._deltas_of(frame, host)
            return
        begin = 0
        while begin < len(passed):
            end = self._alike(passed, begin)
            if end > begin and self._text is not None and (text := self._read(passed, begin, end)):
                self._text.text.write(text)
                yield self._text, text
                begin = end
            blank = passed.find(b"\n\n", begin)
            end = blank + 2 if blank >= 0 else len(passed)
            yield from self._deltas_of(Frame(passed[begin:end]), host)
            begin = end

    def _alike(self, passed: bytes, begin: int) -> int:
        """Where the frames end that match, without the last, which has the number."""
        run = self._run.match(passed, begin) if self._run is not None else None
        return begin if run is None else passed.rfind(b"\n\n", begin, run.end() - 2) + 2

    def _read(self, passed: bytes, begin: int, end: int) -> str:
        """What they say; nothing if that cannot be read."""
        assert self._one is not None
        strings = [found[1:-1] for found in self._one.findall(passed, begin, end)]
        try:
            text: str = scanstring(b"".join((*strings, b'"')).decode(), 0)[0]
        except ValueError:
            return ""
        return text

    def _deltas_of(self, frame: Frame, host: HostItems) -> Iterator[tuple[HostText, str]]:
        event = event_of(frame)
        text = host.read(event) if event is not None else None
        if event is None or text is None:
            return
        if text is not self._text:
            self._text, self._tries, self._one, self._run = text, 0, None, None
        if self._run is None and self._tries < _MAX_TRIES:
            self._tries += 1
            self._learn(frame, event["delta"])
        yield text, event["delta"]

    def _learn(self, frame: Frame, delta: str) -> None:
        pattern = learn(frame, delta, 1, _delta_of)
        if pattern is not None:
            string = rb'("[^"\\\n]*+(?:\\.[^"\\\n]*+)*+")'
            one = _loose(pattern.head) + string + _loose(pattern.tail)
            self._one, self._run = re.compile(one), re.compile(b"(?:" + one + b")++")


def _loose(part: bytes) -> bytes:
    """An expression of a part of a frame, whatever the values are that vary."""
    pieces = map(re.escape, _VARIES.split(part))
    return b"".join(piece + _VALUE * (place % 2) for place, piece in enumerate(pieces))


def _delta_of(event: Any) -> str:
    return string(event.get("delta")) if isinstance(event, dict) else ""
