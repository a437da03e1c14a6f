"""The formats that are looked for in a reply (`FormatChoice.active`), together.

Nearly all text has none of their markers, and to find that out must be cheap: in the bytes of a
frame, before it is parsed, and in a text.  The invariant: a doubt counts as a yes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from ...wire.slices import Slices
from .marker_set import by_first, tree
from .protocol import LeakFormat, MarkerMatch

_SEARCHED = 256 * 1024
"""Bytes that are searched by one call: less than a millisecond."""


class ActiveFormats:
    """One or more formats: the marker that comes first, of whichever of them, counts."""

    def __init__(self, formats: Sequence[LeakFormat]) -> None:
        self._formats = tuple(formats)
        beginnings = {text for each in formats for text in each.beginnings}
        self.beginnings = {text[:size] for text in beginnings for size in range(1, len(text) + 1)}
        """The beginnings of markers, and their starts."""
        # An expression that begins with one literal is searched several times faster.
        self._in_json = _searches_in_json(beginnings, _cut_tree)
        self._in_document = _searches_in_json(beginnings, _uncut)
        self._in_text = [
            (first, re.compile(re.escape(first) + tree(rest, r"\Z")).search)
            for first, rest in by_first(beginnings)
        ]
        self.find_beginning = re.compile(tree(beginnings)).search
        """Finds a beginning."""
        self.find_beginning_or_end = re.compile(tree(beginnings, r"\Z")).search
        """Finds a beginning, or the start of one at the end of the text, or this end."""
        self._beginning = {
            text: [
                each
                for each in formats
                if any(text.startswith(own) or own.startswith(text) for own in each.beginnings)
            ]
            for text in beginnings
        }
        """The formats whose markers may begin with each of these."""
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
        # An int is found in bytes much faster than bytes or an expression are.
        for first, search in self._in_json:  # noqa: SIM110 - a generator costs more
            if first in raw and search(raw) is not None:
                return True
        return False

    def holding_marker(self, document: bytes) -> Slices[bool]:
        """Whether a whole JSON text, in which no marker is cut, could hold one; in slices."""
        for begin in range(0, len(document), _SEARCHED):
            part = document[begin : begin + _SEARCHED + self._overlap]
            if any(first in part and search(part) for first, search in self._in_document):
                return True
            yield
        return False

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker, or the start of one, could be in `text`."""
        for first, search in self._in_text:  # noqa: SIM110
            if first in text and search(text) is not None:
                return True
        return False

    def find(self, text: str, start: int = 0) -> MarkerMatch | None:
        """The first marker from `start` on; of two at one place that of the first format."""
        began = self.find_beginning(text, start)
        while began is not None:
            at = began.start()
            for each in self._beginning[began[0]]:
                if (marker := each.match(text, at)) is not None:
                    return marker
            began = self.find_beginning(text, at + 1)
        return None

    def find_all(self, text: str) -> Iterator[MarkerMatch]:
        found = self.find(text)
        while found is not None:
            yield found
            found = self.find(text, found.end)

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text`, which holds no marker, may be the start of
        one."""
        if not self.may_begin_in(text):
            return 0
        return max(each.markers.unfinished(text) for each in self._formats)


def _cut_tree(texts: AbstractSet[str]) -> str:
    """An expression for any of these texts in JSON, or for a piece of one: after each character
    the string may end, or an escape follow."""
    return tree(texts, r'[\\"]')


def _uncut(texts: AbstractSet[str]) -> str:
    """The same of whole texts, in many of which a word ends with the first letter of a marker.
    Nobody escapes letters and digits."""
    whole = (
        "".join(c if c.isalnum() and c.isascii() else rf"(?:{re.escape(c)}|\\)" for c in text)
        for text in sorted(texts)
    )
    return f"(?:{'|'.join(whole)})"


def _searches_in_json(
    beginnings: AbstractSet[str], tree: Callable[[AbstractSet[str]], str]
) -> list[tuple[int, Callable[[bytes], re.Match[bytes] | None]]]:
    """Expressions that find these beginnings in JSON, each with its first byte; `tree` makes them
    of what follows the first character, which may be escaped (Go does so with ``<``)."""
    firsts = [(first, tree(rest)) for first, rest in by_first(beginnings)]
    found = [(first, re.escape(first) + rest) for first, rest in firsts]
    escaped = "|".join(f"(?i:{ord(first):04x}){rest}" for first, rest in firsts)
    found.append(("\\", rf"\\u(?:{escaped or '(?!)'})"))
    return [(first.encode()[0], re.compile(text.encode()).search) for first, text in found]
