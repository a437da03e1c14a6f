"""The markers of a format that are fixed texts, and a format whose calls begin with one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..declared_tools import DeclaredTools
from .json_arguments import JsonArguments
from .protocol import MarkerMatch

_NONE: Mapping[str, str] = {}
HEADER_LIMIT = 256
"""Characters of a header, with the markers and the white space in it."""


class MarkerSet:
    """Finds any of some markers in a text."""

    def __init__(self, markers: Iterable[str]) -> None:
        longest_first = sorted(markers, key=len, reverse=True)
        self.expression = "|".join(map(re.escape, longest_first))
        marker = re.compile(self.expression)
        self.find = marker.search
        """The first marker from a place on."""
        self.match = marker.match
        """The marker at a place."""
        self._longest = len(longest_first[0])
        firsts = "".join({text[0] for text in longest_first})
        self._first = re.compile(f"[{re.escape(firsts)}]").search
        self._starts = {text[:size] for text in longest_first for size in range(1, len(text))}

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text` may be the start of a marker."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            if text[-size:] in self._starts:
                return size
        return 0

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker stands in `text`, or may by what follows."""
        if self._first(text) is None:
            return False
        return self.find(text) is not None or self.unfinished(text) > 0


class MarkedJson(JsonArguments):
    """Arguments that are JSON text up to one of these markers."""

    def __init__(self, markers: MarkerSet, strays: Mapping[str, str] = _NONE) -> None:
        super().__init__(markers.find, markers.unfinished, strays)
        self._markers = markers

    def takes(self, text: str) -> str | None:
        return None if self._markers.may_begin_in(text) else super().takes(text)


def tag_at(text: str, at: int, tags: Iterable[str]) -> tuple[str, int] | None:
    """Which of these tags stands in `text` from `at` on, after white space, and where it ends;
    ``("", at)`` if one may by what follows, and None if not."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    for tag in tags:
        if text.startswith(tag, begin) and begin + len(tag) - at <= HEADER_LIMIT:
            return tag, begin + len(tag)
    may_follow = any(tag.startswith(text[begin : begin + len(tag)]) for tag in tags)
    return ("", at) if may_follow and len(text) - at < HEADER_LIMIT else None


class MarkedFormat:
    """What `LeakFormat` asks of a format whose calls always begin with a marker."""

    look_back = 0

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:  # noqa: ARG002
        return False

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:  # noqa: ARG002
        return ""

    def begins_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:  # noqa: ARG002
        return False
