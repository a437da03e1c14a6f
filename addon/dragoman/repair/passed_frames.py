"""Frames that were forwarded unread, whose text may be needed later.

Whether a marker is in quoted code, or has its header before it, depends on the text before
it.  Nearly all frames pass without having been read, so their bytes are kept until a
frame comes that has to be.  Bounded: of many bytes without a backtick or a tilde, only the
last matter; others are read by templates, as nearly all of them differ in a text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..wire.chat_delta import text_of
from ..wire.chat_text import passages
from ..wire.frame_templates import TemplateCache
from ..wire.json_codec import NotJson, array, loads
from ..wire.sse import Frame
from .pending import delta_of
from .prefilter import holds_text, may_name_text
from .text_channel import TextChannel

MAX_KEPT = 64 * 1024
"""Bytes that are kept; beyond them it is cheaper to read than to keep."""
_LAST = 8 * 1024
"""Bytes that are kept of more: enough for the current line of the text."""
_TICKS = re.compile(rb"[`~]|\\u00(?:60|7[eE])")

ChannelOf = Callable[[object, int], TextChannel | None]
"""The channel that a choice of a chunk, at a position, is about."""
Fields = tuple[str, ...]
PassedText = tuple[TextChannel, Fields, str]


class PassedFrames:
    """The frames since the last time that they were read."""

    __slots__ = ("_size", "_templates", "pieces", "skipped")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._size = 0
        self._templates: TemplateCache[tuple[TextChannel, Fields]] = TemplateCache()
        self.skipped = False
        """Whether frames before these are missing, in which no code begins or ends."""

    def add(self, raw: bytes) -> bool:
        """One or more whole frames have passed.  Returns whether there are too many now: they
        have to be `shortened`, or read."""
        self.pieces.append(raw)
        self._size += len(raw)
        return self._size > MAX_KEPT

    @property
    def hold_calls(self) -> bool:
        """Whether deltas of calls may be among them."""
        return self.skipped or any(b'"tool_calls"' in piece for piece in self.pieces)

    def read(self, channel_of: ChannelOf) -> Iterator[PassedText]:
        """Their texts, once, each with its channel and its fields; `skipped` then counts anew."""
        passed = b"".join(self.pieces)
        self.pieces = []
        self._size = 0
        self.skipped = False
        if not may_name_text(passed):
            return
        for text, source, raw in self._templates.runs(passed):
            if source is not None:
                yield *source, text
            else:
                yield from self._read(Frame(raw), channel_of)

    def _read(self, frame: Frame, channel_of: ChannelOf) -> list[PassedText]:
        if not holds_text(frame.raw):
            return []
        try:
            chunk = loads(frame.data or b"null")
        except NotJson:
            return []
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        found: list[PassedText] = []
        for position, value in enumerate(array(choices)):
            if (channel := channel_of(value, position)) is not None:
                found += [(channel, each.fields, each.text) for each in passages(delta_of(value))]
        if len(found) == 1 and self._templates.wanted and text_of(chunk):
            channel, fields, text = found[0]
            self._templates.learn(frame, text, len(fields), text_of, (channel, fields))
        return found

    def shortened(self) -> bool:
        """Keep only the last frames, if code neither begins nor ends in the others; not to be
        asked where code may have begun before them."""
        passed = b"".join(self.pieces)
        self.pieces = [passed]
        if _TICKS.search(passed):
            return False
        begin = passed.find(b"\n\n", len(passed) - _LAST) + 2
        self.pieces = [passed[begin:]] if begin >= 2 else []
        self._size = len(passed) - begin if begin >= 2 else 0
        self.skipped = True
        return True
