"""Event-stream framing: bytes in, frames out, and back; and the JSON value of a frame.

A frame is everything up to and including the blank line that ends it, kept as
the very bytes that arrived.  The invariant: the ``raw`` of all frames, joined,
is the input, whatever the line ends, however it was cut.  So a frame that needs
no repair can be forwarded without having been understood.

Parsing follows the HTML Standard, section 9.2.6 (server-sent events): lines end
in CR, LF or CRLF, one leading BOM is ignored, one space after the colon is
removed, several ``data`` lines are joined by LF.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..notes import Evidence
from .json_codec import (
    MAX_NESTING,
    Json,
    NotJson,
    TooDeep,
    dumps,
    loads,
    marks_in,
    nesting_exceeds,
    values_so_far,
)
from .reply_bounds import MAX_EVENT, MAX_PARTS, MAX_VALUES, parts_in

_BEYOND = f"more than {MAX_VALUES:,} JSON values"
NOT_JSON = "no JSON"
"""See `Frame.fault`."""
LARGE = 32 * 1024
"""Bytes of a frame after the work on which other flows run, before the next one's."""
_STEP = 64 * 1024
_TINY = 8
"""Bytes of a line on average, below which frames that carry nothing are looked for: a chunk and its
blank line have three times as many."""
LF, CR = ord("\n"), ord("\r")  # a number is found in bytes several times faster than bytes are
_BOM = b"\xef\xbb\xbf"
_EOL = re.compile(rb"\r\n|\n|\r")
# The groups are atomic: the CR of a CRLF must never count as a line end of its own.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
# A line may begin the frame, after the LF of a CRLF that was cut, and the stream's BOM.
_LINE = rb"(?:\A\n?(?:\xef\xbb\xbf)?|[\r\n])"
_DATA = re.compile(_LINE + rb"data(?::[ ]?([^\r\n]*+))?(?=[\r\n]|\Z)")
_ERROR = re.compile(_LINE + rb"event:[ ]?error(?=[\r\n]|\Z)")
# Whole frames, one or more, of nothing but line ends, comments, and data without a character.
_END = rb"(?>\r\n|\n|\r)"
_EMPTY_LINES = rb"(?:(?:data:?+ ?+|:[^\r\n]*+)" + _END + rb")++"
_NOTHING = re.compile(rb"(?:(?:%b?+%b|%b)%b)++" % (_END, _EMPTY_LINES, _END, _END))
_EMPTY = (b"\n\n\n", b"\n:", b"\ndata\n", b"\ndata:\n", b"\ndata: \n")
_EMPTY_STARTS = (b":", b"\n", b"data\n", b"data:\n", b"data: \n")
"""What such a frame has, if its lines end in LF."""
BLANK_LINE_ENDS = (b"\n\n", b"\r\r", b"\n\r", b"\n\r\n")
"""A frame may begin after these."""
# A blank line is at most four bytes long, so the last three may be the start of one.
_OVERLAP = 3


# What an event stream begins with; "retry" is hardly ever the first.
_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_START = 64
"""Bytes within which a body shows its form: some hosts send line ends first."""


def is_event_stream(start: bytes | bytearray) -> bool | None:
    """Whether a body that begins so is an event stream; None: too few bytes to know. Hosts label
    streams as text, as JSON, or not at all, so only the bytes count."""
    begin = bytes(start[:_START])
    text = begin.removeprefix(_BOM).lstrip()
    if text.startswith(_STARTS):
        return True
    open_yet = _BOM.startswith(begin) or any(name.startswith(text) for name in _STARTS)
    return None if open_yet and len(start) < _START else False


@dataclass(slots=True)  # not frozen: two are made for nearly every event
class Frame:
    """One event of a stream, as it arrived or will be sent."""

    raw: bytes
    whole: bool = True
    """False for a piece of a frame larger than `MAX_EVENT`."""
    empty: bool = False
    """Whether this is known to carry nothing: it may be many frames of blank lines and comments."""
    _value: Any = field(default=..., repr=False, compare=False)
    fault: str = field(default="", repr=False, compare=False)
    """Why its data is not read, once its `json` has been asked for: `NOT_JSON`, or the bound that
    it exceeds."""

    @property
    def json(self) -> Any:
        """Its JSON value, parsed once; None for what has a `fault` or no data, or is only a piece
        of a frame."""
        if self._value is ...:
            self._value, data = None, self.data if self.whole else None
            try:
                if data is not None:
                    self._value, self.fault = bounded(data)
            except NotJson:
                self.fault = NOT_JSON
        return self._value

    def note_bound(self, evidence: Evidence) -> None:
        """Once its `json` has been asked for: whether it exceeds a bound."""
        if self.fault not in ("", NOT_JSON):
            evidence.note("not repaired", f"an event or reply of {self.fault}")

    @property
    def data(self) -> bytes | None:
        """The joined ``data`` lines; None if they hold nothing: such a frame is no event."""
        raw = self.raw
        if (begin := self._data_line) >= 0:
            return raw[begin + 6 : -2] or None
        values = [] if self.empty else _DATA.findall(raw)
        return b"\n".join(values) if any(values) else None

    @property
    def is_done(self) -> bool:
        """Whether this is ``data: [DONE]``, the end of a chat stream."""
        data = self.data
        return data is not None and data.strip() == b"[DONE]"

    @property
    def is_error(self) -> bool:
        """Whether one of its lines is ``event: error``."""
        if self.empty or b"event:" not in self.raw:
            return False
        begin = self._data_line  # nothing is looked for in a line of many megabytes
        return _ERROR.search(self.raw if begin < 0 else self.raw[:begin]) is not None

    @property
    def _data_line(self) -> int:
        """Where its one line ``data: …`` begins, if at most a line ``event: …`` is before it, as in
        nearly all frames; else -1."""
        raw = self.raw
        begin = raw.find(LF) + 1 if raw.startswith(b"event: ") else 0
        is_data_line = raw.startswith(b"data: ", begin) and raw.find(LF, begin) == len(raw) - 2
        return begin if is_data_line and CR not in raw else -1

    @property
    def other_lines(self) -> bytes:
        """Every line that is not ``data`` (event, id, retry, comments), LF-ended."""
        if (begin := self._data_line) >= 0:
            return self.raw[:begin]
        lines = _EOL.split(_without_bom(self.raw))
        return b"".join(
            line + b"\n" for line in lines if line and line.partition(b":")[0] != b"data"
        )


def _without_bom(raw: bytes) -> bytes:
    """The LF of a CRLF that was cut may precede it."""
    return raw.removeprefix(b"\n").removeprefix(_BOM)


def encode(data: bytes) -> Frame:
    """A frame that carries `data`, which has no line end."""
    return Frame(b"data: %b\n\n" % data)


def encode_event(value: Json) -> Frame:
    """A frame with a JSON value, which is kept with it for those that read it at once.  Clients
    want the line ``event:``, which equals the value's ``type``."""
    around = value["type"].encode(), dumps(value)
    return Frame(b"event: %b\ndata: %b\n\n" % around, _value=value)


def encode_chunk(value: Any, other_lines: bytes = b"") -> Frame:
    """A frame with a JSON value, which is kept with it."""
    return Frame(b"".join((other_lines, b"data: ", dumps(value), b"\n\n")), _value=value)


def bounded(text: bytes) -> tuple[Any, str]:
    """The value of a reply or of an event; or none, and the bound that it exceeds.  Raises
    `NotJson`."""
    if len(text) <= MAX_PARTS:
        return loads(text), ""
    marks = marks_in(text)  # one before each value, at least
    if marks > MAX_VALUES and any(values >= MAX_VALUES for values in values_so_far(text)):
        return None, _BEYOND
    return _read(text, marks)


def bounded_in_steps(text: bytes) -> Generator[None, None, tuple[Any, str]]:
    """As `bounded`; other flows may run where it yields."""
    marks = marks_in(text)
    yield
    for values in values_so_far(text) if marks > MAX_VALUES else ():
        if values >= MAX_VALUES:
            return None, _BEYOND
        yield
    return _read(text, marks)


def _read(text: bytes, marks: int) -> tuple[Any, str]:
    value = loads(text, checks=not marks)
    if marks > MAX_NESTING and nesting_exceeds(value, MAX_NESTING):
        raise TooDeep(f"nested more than {MAX_NESTING} levels deep")
    if marks > MAX_PARTS and isinstance(value, dict) and parts_in(value) > MAX_PARTS:
        return None, f"more than {MAX_PARTS:,} calls or parts"
    return value, ""


class Document(Frame):
    """A reply that came whole, or a part of one that is read as one."""

    __slots__ = ()

    def __init__(self, raw: bytes = b"", *, value: Any = ...) -> None:
        super().__init__(raw, _value=value)

    @property
    def data(self) -> bytes:
        return self.raw

    def read(self) -> Generator[None, None, None]:
        """Have its `json` read in steps; other flows may run where it yields."""
        if self._value is ...:
            try:
                self._value, self.fault = yield from bounded_in_steps(self.raw)
            except NotJson:
                self._value, self.fault = None, NOT_JSON


DONE = encode(b"[DONE]")
"""The end of a chat stream, and of a Responses stream in some dialects."""


def joined(frames: Iterable[Frame]) -> bytes:
    return b"".join([frame.raw for frame in frames])


def split(stream: bytes, max_frame: int = MAX_EVENT) -> Iterator[Frame]:
    """The frames of a whole stream, one by one: it may hold one for every two of its bytes."""
    splitter = FrameSplitter(max_frame)
    for start in range(0, len(stream), _STEP):
        yield from splitter.feed(stream[start : start + _STEP])
    yield from splitter.close()


def frames_in(data: bytes) -> tuple[list[Frame], bytes]:
    """The frames of `data`, and the beginning of one, which may be empty.  Of many short lines,
    those that carry nothing and follow each other are one."""
    tiny = _TINY * data.count(LF) > len(data)
    empty = tiny and (data.startswith(_EMPTY_STARTS) or any(each in data for each in _EMPTY))
    if CR not in data and not empty:
        # As nearly all hosts send; this is much faster than an expression.
        *raws, rest = data.split(b"\n\n")
        return [Frame(raw + b"\n\n") for raw in raws], rest
    frames: list[Frame] = []
    at = 0
    while True:
        if (nothing := _NOTHING.match(data, at)) is not None:
            frames.append(Frame(nothing[0], empty=True))
            at = nothing.end()
        if (blank := _BLANK_LINE.search(data, at)) is None:
            return frames, data[at:]
        frames.append(Frame(data[at : blank.end()]))
        at = blank.end()


class FrameSplitter:
    """Cuts a byte stream into frames; linear in the input, whatever the cuts.

    A frame is released with the first byte that completes its blank line.  If that
    byte is the CR of a CRLF, the LF opens the next frame, where it means nothing.
    """

    def __init__(self, max_frame: int = MAX_EVENT) -> None:
        self.held = bytearray()
        """The begin of a frame whose end has not come."""
        self._searched = 0
        self._max_frame = max_frame
        self._oversize = False

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that `data` completes."""
        if self.held:
            before = len(self.held)
            self.held += data
            may_end = LF in data or CR in data  # seen much faster than by an expression
            if not (may_end and _BLANK_LINE.search(self.held, self._searched)):
                return self._wait()
            data = bytes(self.held)
            del self.held[before:]  # `data` is the caller's until its frames are known
        elif data.find(b"\n\n") == len(data) - 2 > 0 and data.count(LF) <= 3 and CR not in data:
            return [Frame(data)]  # of one line or two, as nearly all pieces of a body are
        frames, rest = frames_in(data)
        self.held.clear()
        if frames and self._oversize:
            frames[0].whole = self._oversize = False
        if rest:
            self.held += rest
            frames += self._wait()
        return frames

    def close(self) -> list[Frame]:
        """The rest, when the stream ends without a final blank line."""
        rest = bytes(self.held)
        self.held.clear()
        return [Frame(rest, not self._oversize)] if rest else []

    def _wait(self) -> list[Frame]:
        """Remember how far the held bytes were searched; release them if too many."""
        size = len(self.held)
        if size > self._max_frame or (self._oversize and size > _OVERLAP):
            self._oversize = True
            piece = bytes(self.held[:-_OVERLAP])
            del self.held[:-_OVERLAP]
            self._searched = 0
            return [Frame(piece, whole=False)]
        self._searched = max(0, size - _OVERLAP)
        return []
