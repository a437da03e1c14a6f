"""The special tokens of Kimi's tool-call format, and how to find them in text.

Every marker begins with ``<|tool_call``, so text without ``<`` holds none, and no
marker holds another ``<``: an unfinished one can only start at the last ``<``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator

from ....wire.slices import Slices


class Marker(enum.Enum):
    """What a marker means; some hosts write the section markers in the singular."""

    SECTION_BEGIN = enum.auto()
    SECTION_END = enum.auto()
    CALL_BEGIN = enum.auto()
    ARGUMENTS_BEGIN = enum.auto()
    CALL_END = enum.auto()


MARKERS = {
    "<|tool_calls_section_begin|>": Marker.SECTION_BEGIN,
    "<|tool_call_section_begin|>": Marker.SECTION_BEGIN,
    "<|tool_calls_section_end|>": Marker.SECTION_END,
    "<|tool_call_section_end|>": Marker.SECTION_END,
    "<|tool_call_begin|>": Marker.CALL_BEGIN,
    "<|tool_call_argument_begin|>": Marker.ARGUMENTS_BEGIN,
    "<|tool_call_end|>": Marker.CALL_END,
}
LONGEST = max(map(len, MARKERS))

_MARKER = re.compile("|".join(map(re.escape, MARKERS)))
find_marker = _MARKER.search
find_markers = _MARKER.findall

# What may follow a marker's "<": its bar, an escape, or the end of the string.  Go writes "<"
# inside JSON as an escape, in either case of the hexadecimal digit.
_BEGINS = re.compile(rb'<[|\\"]|\\u003[cC]')


_SEARCHED = 256 * 1024
"""Bytes that are searched by one call."""
_STARTS = re.compile(r"(?=<\|)")


def at_markers(text: str, at_least: int = 1) -> Iterator[str]:
    """A text in pieces of so many characters or more, each marker at the start of one."""
    begin = 0
    for found in _STARTS.finditer(text, 1):
        if found.start() - begin >= at_least:
            yield text[begin : found.start()]
            begin = found.start()
    if begin < len(text):
        yield text[begin:]


def may_hold_marker(raw: bytes) -> bool:
    """Whether the JSON text `raw` could hold a marker or a piece of one."""
    return (b"<" in raw or b"\\u003" in raw) and _BEGINS.search(raw) is not None


def holding_marker(raw: bytes) -> Slices[bool]:
    """The same in slices."""
    for begin in range(0, len(raw), _SEARCHED):
        if may_hold_marker(raw[begin : begin + _SEARCHED + len(b"\\u003")]):
            return True
        yield
    return False


def unfinished_marker(text: str) -> int:
    """How many characters at the end of `text` may be the start of a marker."""
    start = text.rfind("<", -LONGEST)
    if start < 0:
        return 0
    tail = text[start:]
    return len(tail) if any(marker.startswith(tail) for marker in MARKERS) else 0
