"""Frames of a native stream that passed unread, until they have to be read.

Nearly all are deltas of one text that differ in it, in their number and in what pads them: many
such are read at a time.
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

MAX_KEPT = 64 * 1024
"""Bytes that are kept unread."""
_NAME = b'"sequence_number":'
_NUMBER = re.compile(re.escape(_NAME) + rb"[ ]?([0-9]+)[,}]")


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
        self._templates: TemplateCache[HostText] = TemplateCache()

    def add(self, raw: bytes) -> bool:
        """One or more whole frames have passed.  Returns whether they have to be read now."""
        self._pieces.append(raw)
        self._size += len(raw)
        return self._size > MAX_KEPT

    def read(self, host: HostItems) -> Iterator[tuple[HostText, str]]:
        """Have `host` read them, once: the texts that they continue, and with what."""
        passed = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        for delta, text, frames in self._templates.runs(passed):
            if text is None:
                yield from self._deltas_of(Frame(frames), host)
                continue
            text.text.write(delta)
            if number := _NUMBER.match(frames, max(0, frames.rfind(_NAME))):
                host.number = int(number[1]) + 1
            yield text, delta

    def _deltas_of(self, frame: Frame, host: HostItems) -> Iterator[tuple[HostText, str]]:
        event = event_of(frame)
        text = host.read(event) if event is not None else None
        if event is None or text is None:
            return
        delta = event["delta"]
        if self._templates.wanted:
            self._templates.learn(frame, delta, 1, _delta_of, text)
        yield text, delta


def _delta_of(event: Any) -> str:
    return string(event.get("delta")) if isinstance(event, dict) else ""
