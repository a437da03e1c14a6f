"""The formats that are looked for in a reply (`FormatChoice.active`), together.

Nearly all text has none of their markers, and to find that out must be cheap: in the bytes of a
frame, before it is parsed, and in a text.  The invariant: a doubt counts as a yes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache

from .marker_set import TAG_LIMIT, by_first, tree
from .protocol import LeakFormat, MarkerMatch


class ActiveFormats:
    """One or more formats: the marker that comes first, of whichever of them, counts."""

    def __init__(self, formats: Sequence[LeakFormat]) -> None:
        self._formats = tuple(formats)
        beginnings = {text for each in formats for text in each.beginnings}
        self._beginnings = beginnings
        # An expression that begins with one literal is searched several times faster.
        self._in_text = [
            (first, re.compile(re.escape(first) + tree(rest, r"\Z")).search)
            for first, rest in by_first(beginnings)
        ]
        self._find_beginning = re.compile(tree(beginnings)).search
        self._beginning = {
            text: [
                each
                for each in formats
                if any(text.startswith(own) or own.startswith(text) for own in each.beginnings)
            ]
            for text in beginnings
        }
        """The formats whose markers may begin with each of these."""
        self.looking_back = [each for each in formats if each.look_back]
        """Formats of which a call's beginning may have been stripped."""
        self.look_back = max((each.look_back for each in formats), default=0)
        """See `LeakFormat.look_back`."""

    def __contains__(self, other: object) -> bool:
        return other in self._formats

    def __iter__(self) -> Iterator[LeakFormat]:
        return iter(self._formats)

    def without(self, other: LeakFormat) -> ActiveFormats:
        """All but this one."""
        return _active(tuple(each for each in self._formats if each is not other))

    @cached_property
    def _in_json(self) -> list[tuple[int, Callable[[bytes], re.Match[bytes] | None]]]:
        """Expressions that find a beginning in JSON, or a piece of one, each with its first byte:
        after each character the string may end, or an escape follow.  Any may be escaped (Go does
        so with ``<``)."""
        firsts = [(first, tree(rest, r'[\\"]')) for first, rest in by_first(self._beginnings)]
        found = [(first, re.escape(first) + rest) for first, rest in firsts]
        escaped = "|".join(f"(?i:{ord(first):04x}){rest}" for first, rest in firsts)
        lines = "".join(rf"|n{rest}" for first, rest in firsts if first == "\n")
        found.append(("\\", rf"\\(?:u(?:{escaped or '(?!)'}){lines})"))
        return [(first.encode()[0], re.compile(text.encode()).search) for first, text in found]

    def may_hold_marker(self, raw: bytes) -> bool:
        """Whether the JSON text `raw` could hold a marker or a piece of one."""
        # An int is found in bytes much faster than bytes or an expression are.
        for first, search in self._in_json:  # noqa: SIM110 - a generator costs more
            if first in raw and search(raw) is not None:
                return True
        return False

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker, or the start of one, could be in `text`."""
        for first, search in self._in_text:  # noqa: SIM110
            if first in text and search(text) is not None:
                return True
        return False

    def find(
        self, text: str, start: int = 0, *, likenesses: Counter[LeakFormat] | None = None
    ) -> MarkerMatch | None:
        """The first marker from `start` on; of two at one place that of the first format.  The
        beginnings before it that are those of no marker are added to `likenesses`."""
        began = self._find_beginning(text, start)
        while began is not None:
            at = began.start()
            for each in self._beginning[began[0]]:
                if (marker := each.match(text, at)) is not None:
                    return marker
            if likenesses is not None:
                likenesses.update(self._beginning[began[0]])
            began = self._find_beginning(text, at + 1)
        return None

    def find_all(self, text: str) -> Iterator[MarkerMatch]:
        found = self.find(text)
        while found is not None:
            yield found
            found = self.find(text, found.end)

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text`, which holds no marker, may be the start of
        one."""
        if not self.may_begin_in(text[-TAG_LIMIT:]):
            return 0
        return max(each.markers.unfinished(text) for each in self._formats)


@lru_cache(maxsize=64)
def _active(formats: tuple[LeakFormat, ...]) -> ActiveFormats:
    return ActiveFormats(formats)
