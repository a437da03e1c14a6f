"""Markers that are fixed texts, and a format whose calls begin with one of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from .protocol import LeakFormat, MarkerMatch, Parser

HEADER_LIMIT = 256
"""Characters of a header, with the markers and the white space in it."""


class MarkerSet:
    """Finds any of some markers in a text."""

    def __init__(self, markers: Iterable[str]) -> None:
        longest_first = sorted(markers, key=len, reverse=True)
        self.texts = tuple(longest_first)
        self.expression = "|".join(map(re.escape, longest_first))
        marker = re.compile(self.expression)
        self.find = marker.search
        """The first marker from a position on."""
        self.match = marker.match
        """The marker at a position."""
        self._longest = len(longest_first[0])
        firsts = "".join({text[0] for text in longest_first})
        self.may_begin_in = re.compile(f"[{re.escape(firsts)}]").search
        """Finds a character with which a marker begins."""
        self._starts = {text[:size] for text in longest_first for size in range(1, len(text))}

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text` may be the start of a marker."""
        first = self.may_begin_in(text, len(text) - self._longest + 1)
        if first is None:
            return 0
        for size in range(len(text) - first.start(), 0, -1):
            if text[-size:] in self._starts:
                return size
        return 0


class MarkedFormat(LeakFormat):
    """A format with fixed markers."""

    def __init__(
        self,
        name: str,
        markers: MarkerSet,
        parser: Parser,
        *,
        begin: Collection[str],
        beginnings: Iterable[str] = (),
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`begin` are the markers with which a section or a call begins, `names` the names of
        markers in the evidence, if they have other names than themselves."""
        super().__init__(name, tuple(beginnings or markers.texts), markers.expression, parser)
        self._set = markers
        self._begin = begin
        self._names = names or {}

    def match(self, text: str, at: int) -> MarkerMatch | None:
        found = self._set.match(text, at)
        if found is None:
            return None
        marker = found[0]
        name = self._names.get(marker, marker)
        return MarkerMatch(self, name, at, at + len(marker), marker in self._begin)

    def unfinished(self, text: str) -> int:
        return self._set.unfinished(text)


def tag_at(text: str, at: int, tags: Iterable[str]) -> tuple[str, int] | None:
    """Which of these tags follows in `text` at `at`, after white space, and where it ends;
    ``("", at)`` if one may, by what comes, and None if not."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    for tag in tags:
        if text.startswith(tag, begin) and begin + len(tag) - at <= HEADER_LIMIT:
            return tag, begin + len(tag)
    may_follow = any(tag.startswith(text[begin : begin + len(tag)]) for tag in tags)
    return ("", at) if may_follow and len(text) - at < HEADER_LIMIT else None
