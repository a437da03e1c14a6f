"""Frames of a native stream that have left unread, until they have to be read.

Nearly all are deltas of one text that differ in their text, number and padding: many such are
read at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ...wire.frame_templates import TemplateCache
from ...wire.json_codec import Json, NotJson, loads, string
from ...wire.responses import is_event
from ...wire.sse import Frame
from .host_items import HostItems, HostText

MAX_UNREAD = 64 * 1024
"""Bytes that are kept unread."""
_NAME = b'"sequence_number":'
_NUMBER = re.compile(re.escape(_NAME) + rb"[ ]?([0-9]+)[,}]")


def event_of(frame: Frame) -> Json | None:
    """The event of a frame; None if the API has no such event."""
    try:
        event = loads(frame.data or b"null") if frame.whole else None
    except NotJson:
        return None
    return event if isinstance(event, dict) and is_event(event) else None


class UnreadFrames:
    """The frames since the last time that they were read."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._templates: TemplateCache[HostText] = TemplateCache()

    def add(self, raw: bytes) -> bool:
        """Keep one or more whole frames.  Returns whether they have to be read now."""
        self._pieces.append(raw)
        self._size += len(raw)
        return self._size > MAX_UNREAD

    def read(self, host: HostItems) -> Iterator[tuple[HostText, str]]:
        """Have `host` read them, once: the texts that they continue, and the deltas."""
        unread = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        for delta, text, frames in self._templates.runs(unread):
            if text is None:
                yield from self._read(Frame(frames), host)
                continue
            text.buffer.write(delta)
            if number := _NUMBER.match(frames, max(0, frames.rfind(_NAME))):
                host.number = int(number[1]) + 1
            yield text, delta

    def _read(self, frame: Frame, host: HostItems) -> Iterator[tuple[HostText, str]]:
        event = event_of(frame)
        text = host.read(event) if event is not None else None
        if event is not None and text is not None:
            delta = _delta_of(event)
            if self._templates.wanted:
                self._templates.learn(frame, delta, 1, _delta_of, text)
            yield text, delta


def _delta_of(event: Any) -> str:
    return string(event.get("delta")) if isinstance(event, dict) else ""
