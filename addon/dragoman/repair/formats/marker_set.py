"""Markers in a text, and a format whose calls begin with one.

A marker is a fixed text (`MarkerSet`), or what an expression describes (`MarkerPattern`): then
another expression describes its starts (`begun`, `so_far`), as a text may end in half a marker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from .protocol import LeakFormat, MarkerMatch, Parser

HEADER_LIMIT = 256
"""Characters of a header, with the markers and the white space in it."""
TAG_LIMIT = 1200
"""Characters of one tag: four attributes with values of 200, and blanks around all; a longer
tag is text."""


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


class MarkerPattern:
    """Finds markers that an expression describes; it offers what a `MarkerSet` does."""

    def __init__(
        self, expression: str, begun: str, *, first: str = "<", halves: tuple[str, ...] = ()
    ) -> None:
        """`begun` is an expression for the starts of markers up to the end of a text, see
        `so_far`.  Markers begin with `first`; `halves` are the starts of those that do not."""
        self.expression = expression
        marker = re.compile(expression)
        self.find = marker.search
        self.match = marker.match
        self.begun = re.compile(begun)
        self._first = first
        self._halves = halves

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text` may be the start of a marker."""
        found = self.begun.search(text, max(0, len(text) - TAG_LIMIT))
        return len(text) - found.start() if found else 0

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker may begin in `text`; a quick look, False is certain."""
        return self._first in text or text.endswith(self._halves)

    def header_at(self, text: str, at: int) -> re.Match[str] | bool:
        """The header at this position, if this is the expression of one; else whether it may come
        with more text."""
        found = self.match(text, at)
        if found is not None:
            return found.end() - at <= HEADER_LIMIT and found
        begun = self.begun.fullmatch(text, at)
        return begun is not None and len(text) - at <= HEADER_LIMIT


class MarkedFormat(LeakFormat):
    """A format whose calls begin with a marker."""

    def __init__(
        self,
        name: str,
        markers: MarkerSet | MarkerPattern,
        parser: Parser,
        *,
        begin: Collection[str] | None = None,
        beginnings: Iterable[str],
        names: Mapping[str, str] | None = None,
    ) -> None:
        """`begin` are the markers with which a section or a call begins, if not all do; `names`
        the names of markers in the evidence, if they have other names than themselves."""
        super().__init__(name, tuple(beginnings), markers.expression, parser)
        self._set = markers
        self._begin = begin
        self._names = names or {}

    def match(self, text: str, at: int) -> MarkerMatch | None:
        found = self._set.match(text, at)
        if found is None:
            return None
        marker = found[0]
        name = self._names.get(marker) or marker.strip()
        begins = self._begin is None or marker in self._begin
        return MarkerMatch(self, name, at, at + len(marker), begins)

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


def begun(literal: str) -> str:
    """An expression for the starts of `literal`, from one character to all of it."""
    expression = ""
    for character in reversed(literal[1:]):
        expression = f"(?:{re.escape(character)}{expression})?"
    return re.escape(literal[0]) + expression


def so_far(*parts: str | tuple[str, ...]) -> str:
    """An expression for the starts of what consists of these parts, up to the end of the text.
    A tuple lists words, one of which is there; a string is an expression for what has no start
    of its own, such as one character, or blanks."""
    rest = r"\Z"
    for part in reversed(parts):
        if isinstance(part, str):
            rest = rf"(?:\Z|{part}{rest})"
        else:
            words = "|".join(map(re.escape, sorted(part, key=len, reverse=True)))
            rest = rf"(?:\Z|(?:{'|'.join(map(begun, part))})\Z|(?:{words}){rest})"
    return rest
