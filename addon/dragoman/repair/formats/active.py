"""The formats that are looked for in a reply, as one.

Nearly all text holds none of their markers, and that must be cheap to see: in the bytes of a
frame, before it is read, and in a text.  The invariant: a doubt counts as a yes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...wire.slices import Slices
from ..declared_tools import DeclaredTools
from .protocol import LeakFormat, MarkerMatch

_SEARCHED = 256 * 1024
"""Bytes that are searched by one call: less than a millisecond."""


class ActiveFormats:
    """One or more formats: the marker that comes first, of whichever of them, counts."""

    def __init__(self, formats: Sequence[LeakFormat]) -> None:
        self._formats = tuple(formats)
        beginnings = [text for each in formats for text in each.beginnings]
        firsts = "".join({text[0] for text in beginnings})
        self._first = firsts if len(firsts) == 1 else ""
        """Looking for one character is much sooner done than matching an expression."""
        self._in_text = re.compile(f"[{re.escape(firsts)}]").search
        self._in_json = re.compile(b"|".join(map(_in_json, beginnings))).search
        self._overlap = max((len(text) * len(r"\u003c") for text in beginnings), default=0)
        self.look_back = max((each.look_back for each in formats), default=0)
        """See `LeakFormat.look_back`."""

    def may_hold_marker(self, raw: bytes) -> bool:
        """Whether the JSON text `raw` could hold a marker or a piece of one."""
        if self._first == "<" and b"<" not in raw and b"\\u003" not in raw:
            return False
        return self._in_json(raw) is not None

    def holding_marker(self, raw: bytes) -> Slices[bool]:
        """The same in slices."""
        for begin in range(0, len(raw), _SEARCHED):
            if self.may_hold_marker(raw[begin : begin + _SEARCHED + self._overlap]):
                return True
            yield
        return False

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker could begin in `text`."""
        return self._first in text if self._first else self._in_text(text) is not None

    def find(self, text: str, start: int = 0) -> MarkerMatch | None:
        """The first marker from `start` on; of two at one place the format's that is named
        first."""
        first: MarkerMatch | None = None
        for each in self._formats:
            found = each.find(text, start)
            if found is not None and (first is None or found.start < first.start):
                first = found
        return first

    def find_all(self, text: str) -> Iterator[MarkerMatch]:
        """All markers."""
        found = self.find(text)
        while found is not None:
            yield found
            found = self.find(text, found.end)

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text` may be the start of a marker."""
        return max((each.unfinished(text) for each in self._formats), default=0)

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        """See `LeakFormat.may_be_header`."""
        return any(each.may_be_header(text, tools) for each in self._formats)


def _in_json(beginning: str) -> bytes:
    """An expression of where a marker that begins so, or a piece of it, may stand in JSON.
    The first character may be escaped (Go does so with ``<``); after any, the string may end
    or an escape follow."""
    first, others = beginning[0], beginning[1:]
    expression = b""
    for character in reversed(others):
        literal = re.escape(character.encode())
        expression = rb'(?:[\\"]|' + literal + expression + b")"
    return re.escape(first.encode()) + expression + rb"|\\u(?i:%04x)" % ord(first)
