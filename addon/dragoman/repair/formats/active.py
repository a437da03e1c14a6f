"""The formats that are looked for in a reply, as one.

Nearly all text holds none of their markers, and that must be cheap to see: in the bytes of a
frame, before it is read, and in a text.  The invariant: a doubt counts as a yes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from ...wire.slices import Slices
from .protocol import LeakFormat, MarkerMatch

_SEARCHED = 256 * 1024
"""Bytes that are searched by one call: less than a millisecond."""


class ActiveFormats:
    """One or more formats: the marker that comes first, of whichever of them, counts."""

    def __init__(self, formats: Sequence[LeakFormat]) -> None:
        self._formats = tuple(formats)
        beginnings = {text for each in formats for text in each.beginnings}
        self._firsts = sorted({text[0] for text in beginnings})
        self._needles = _needles(beginnings)
        self._in_json = re.compile(_in_json(beginnings)).search
        self._in_text = re.compile(_tree(beginnings, r"\Z")).search
        self._begins = re.compile(_tree(beginnings)).search
        self._beginning = {
            text: [each for each in formats if any(map(text.startswith, each.beginnings))]
            for text in beginnings
        }
        """The formats of which a marker may stand where one of these does."""
        self._overlap = max((len(text) * len(r"\u003c") for text in beginnings), default=0)
        self.looking_back = [each for each in formats if each.look_back]
        """Formats of which a call's beginning may have been stripped."""
        self.look_back = max((each.look_back for each in formats), default=0)
        """See `LeakFormat.look_back`."""

    def __contains__(self, other: object) -> bool:
        return other in self._formats

    def __iter__(self) -> Iterator[LeakFormat]:
        return iter(self._formats)

    def may_hold_marker(self, raw: bytes) -> bool:
        """Whether the JSON text `raw` could hold a marker or a piece of one."""
        # Looking for a few bytes is much sooner done than matching an expression.
        for needle in self._needles:
            if needle in raw:
                return self._in_json(raw) is not None
        return False

    def holding_marker(self, raw: bytes) -> Slices[bool]:
        """The same in slices."""
        for begin in range(0, len(raw), _SEARCHED):
            if self.may_hold_marker(raw[begin : begin + _SEARCHED + self._overlap]):
                return True
            yield
        return False

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker, or the first piece of one, could stand in `text`."""
        for first in self._firsts:
            if first in text:
                return self._in_text(text) is not None
        return False

    def find(self, text: str, start: int = 0) -> MarkerMatch | None:
        """The first marker from `start` on; of two at one place the format's that is named
        first."""
        found: dict[LeakFormat, MarkerMatch | None] = {}
        began = self._begins(text, start)
        while began is not None:
            for each in self._beginning[began[0]]:
                if each not in found:
                    found[each] = each.find(text, began.start())
                marker = found[each]
                if marker is not None and marker.start == began.start():
                    return marker
            began = self._begins(text, began.start() + 1)
        return None

    def find_all(self, text: str) -> Iterator[MarkerMatch]:
        """All markers."""
        found = self.find(text)
        while found is not None:
            yield found
            found = self.find(text, found.end)

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text`, which holds no marker, may be the start of
        one."""
        if not self.may_begin_in(text):
            return 0
        return max(each.unfinished(text) for each in self._formats)


def _tree(texts: AbstractSet[str], cut: str | None = None) -> str:
    """An expression of any of these texts, the shortest where one begins with another; with
    `cut`, of the start of one as well, where that expression follows."""
    if "" in texts:
        return ""
    if not texts:
        return r"(?!)"
    branches = [] if cut is None else [cut]
    for first in sorted({text[0] for text in texts}):
        rest = {text[1:] for text in texts if text[0] == first}
        branches.append(re.escape(first) + _tree(rest, cut))
    return f"(?:{'|'.join(branches)})"


def _in_json(beginnings: AbstractSet[str]) -> bytes:
    """An expression of where a marker that begins so, or a piece of it, may stand in JSON.
    The first character may be escaped (Go does so with ``<``); after any, the string may end
    or an escape follow."""
    branches = []
    for first in sorted({text[0] for text in beginnings}):
        rest = {text[1:] for text in beginnings if text[0] == first}
        escaped = rf"\\u(?i:{ord(first):04x})"
        branches.append(rf"(?:{re.escape(first)}|{escaped})" + _tree(rest, r'[\\"]'))
    return ("|".join(branches) or r"(?!)").encode()


def _needles(beginnings: AbstractSet[str]) -> tuple[bytes, ...]:
    """Bytes of which some stand wherever `_in_json` matches: those of the first character, or
    of the first two where JSON itself is full of the first."""
    found = {b"\\u"} if any(text[0] > "\x7f" for text in beginnings) else {b"\\u00"}
    for text in beginnings:
        if text[0] in '[]{},:"' and len(text) > 1:
            found |= {(text[0] + second).encode() for second in (text[1], "\\", '"')}
        else:
            found.add(text[0].encode())
    return tuple(sorted(found))
