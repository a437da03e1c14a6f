"""Frames that were forwarded unread, whose text may be needed later.

Whether a marker is in quoted code, or has its header before it, depends on the text before
it.  Nearly all frames pass without having been read, so their bytes are kept until a
frame comes that has to be.  Bounded: of many bytes without a backtick or a tilde, only the
last matter; others are read many at a time, as nearly all of them differ in a text alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]

from ..wire.chat_text import Passage, passages
from ..wire.frame_templates import FrameTemplate, learn
from ..wire.json_codec import NotJson, loads
from ..wire.sse import Frame, FrameSplitter
from .chunk_templates import only_text, text_of
from .pending import delta_of
from .prefilter import holds_text
from .text_channel import TextChannel

MAX_KEPT = 64 * 1024
"""Bytes that are kept; beyond them it is cheaper to read than to keep."""
_LAST = 8 * 1024
"""Bytes that are kept of more: enough for the current line of the text."""
_MAX_ALIKE = 3
"""Kinds of frames that are known: those of reasoning, of text, and of a call."""
_MAX_TRIES = 16
"""Frames in a row that fitted no kind, after which no more are learned: something else
changes in each."""
_TICKS = re.compile(rb"[`~]|\\u00(?:60|7[eE])")
_STRING = rb'[^"\\\n]*+(?:\\.[^"\\\n]*+)*+'

ChannelOf = Callable[[object, int], TextChannel | None]
"""The channel that a choice of a chunk, at a position, is about."""
Fields = tuple[str, ...]
PassedText = tuple[TextChannel, Fields, str]


@dataclass(frozen=True, slots=True)
class _Alike:
    """Frames that differ in a text alone."""

    channel: TextChannel
    fields: Fields
    run: re.Pattern[bytes]
    """Matches some of them, one after the other."""
    one: re.Pattern[bytes]
    size: int
    """Bytes of one without its text."""
    times: int
    """How often its text is in it."""

    @classmethod
    def of(cls, pattern: FrameTemplate, channel: TextChannel, fields: Fields) -> _Alike:
        again = b"" if pattern.between is None else re.escape(pattern.between) + rb'"\1"'
        head, tail = re.escape(pattern.head), re.escape(pattern.tail)
        one = head + rb'"(' + _STRING + rb')"' + again + tail
        run = b"(?:" + one + b")++"
        size = len(pattern.around(b'""'))
        times = 1 if pattern.between is None else 2
        return cls(channel, fields, re.compile(run), re.compile(one), size, times)

    def texts(self, passed: bytes, begin: int) -> tuple[str, int]:
        """The texts of the frames of this kind at `begin`, and where those frames end."""
        if self.one.match(passed, begin) is None:
            return "", begin
        texts, end = self.one.findall(passed, begin), len(passed)
        # Where they are all of this kind, one look is enough.
        if begin + len(texts) * self.size + self.times * sum(map(len, texts)) != end:
            run = self.run.match(passed, begin)
            assert run is not None
            end = run.end()
            texts = self.one.findall(passed, begin, end)
        try:
            text: str = scanstring(b"".join((*texts, b'"')).decode(), 0)[0]
        except ValueError:
            return "", begin
        return text, end


class PassedFrames:
    """The frames since the last time that they were read."""

    __slots__ = ("_alike", "_pieces", "_size", "_tries", "skipped")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._alike: list[_Alike] = []
        self._tries = 0
        self.skipped = False
        """Whether frames before these are missing, in which no code begins or ends."""

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, raw: bytes) -> bool:
        """One or more whole frames have passed.  Returns whether there are too many now: they
        have to be `shortened`, or read."""
        self._pieces.append(raw)
        self._size += len(raw)
        return self._size > MAX_KEPT

    @property
    def hold_calls(self) -> bool:
        """Whether deltas of calls may be among them."""
        return self.skipped or any(b'"tool_calls"' in piece for piece in self._pieces)

    def read(self, channel_of: ChannelOf) -> Iterator[PassedText]:
        """Their texts, once, each with its channel and its fields; `skipped` then counts anew."""
        passed = b"".join(self._pieces)
        self._pieces = []
        self._size = 0
        self.skipped = False
        if b"\r" in passed:
            for frame in FrameSplitter().feed(passed):
                yield from self._said(frame, channel_of)
            return
        begin = 0
        while begin < len(passed):
            end = begin
            for alike in self._alike:
                text, end = alike.texts(passed, begin)
                if end > begin:
                    yield alike.channel, alike.fields, text
                    break
            if end == begin:
                blank = passed.find(b"\n\n", begin)
                end = blank + 2 if blank >= 0 else len(passed)
                yield from self._said(Frame(passed[begin:end]), channel_of)
            begin = end

    def _said(self, frame: Frame, channel_of: ChannelOf) -> list[PassedText]:
        if not holds_text(frame.raw):
            return []
        try:
            chunk = loads(frame.data or b"null")
        except NotJson:
            return []
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        said: list[tuple[TextChannel, Passage]] = []
        for position, value in enumerate(choices if isinstance(choices, list) else []):
            channel = channel_of(value, position)
            if channel is not None and isinstance(value, dict):
                said += [(channel, passage) for passage in passages(delta_of(value))]
        if len(said) == 1 and self._tries < _MAX_TRIES and only_text(chunk) is not None:
            self._learn(frame, *said[0])
        return [(channel, passage.fields, passage.text) for channel, passage in said]

    def _learn(self, frame: Frame, channel: TextChannel, passage: Passage) -> None:
        self._tries += 1
        pattern = learn(frame, passage.text, len(passage.fields), text_of)
        if pattern is not None:
            self._alike.insert(0, _Alike.of(pattern, channel, passage.fields))
            del self._alike[_MAX_ALIKE:]

    def shortened(self) -> bool:
        """Keep the last only, if code neither begins nor ends in the others; where code may
        have begun before them, that is not to be asked."""
        passed = b"".join(self._pieces)
        if _TICKS.search(passed):
            return False
        begin = passed.find(b"\n\n", len(passed) - _LAST) + 2
        self._pieces = [passed[begin:]] if begin >= 2 else []
        self._size = len(passed) - begin if begin >= 2 else 0
        self.skipped = True
        return True
