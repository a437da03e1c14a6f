"""``<tool_call>``, with which three formats begin: each of them
matches it only together with what follows, which differs."""

from __future__ import annotations

import re

from .marker_set import MarkerSet
from .protocol import LeakFormat, MarkerMatch, Parser

OPEN, CLOSE = "<tool_call>", "</tool_call>"
TAGS = MarkerSet((OPEN, CLOSE))
OPENED = rf"{OPEN}\s{{0,64}}"
_TAIL = 256
"""Characters at the end of a text in which a marker may have begun."""


def begun(literal: str) -> str:
    """An expression of what `literal` begins with, from one character on to all of it."""
    expression = ""
    for character in reversed(literal[1:]):
        expression = f"(?:{re.escape(character)}{expression})?"
    return re.escape(literal[0]) + expression


class ToolCallFormat(LeakFormat):
    """`opening` is an expression of all with which a call begins, and `unfinished` one of the
    starts of that; both begin with ``<``."""

    def __init__(
        self, name: str, opening: str, unfinished: str, beginnings: tuple[str, ...], parser: Parser
    ) -> None:
        super().__init__(name, beginnings, opening, parser)
        self._match = re.compile(opening).match
        self._unfinished = re.compile(rf"(?:{begun(OPEN)}|{unfinished})\Z").search

    def match(self, text: str, at: int) -> MarkerMatch | None:
        found = self._match(text, at)
        if found is None:
            return None
        return MarkerMatch(self, found[0].strip(), found.start(), found.end(), begins=True)

    def unfinished(self, text: str) -> int:
        found = self._unfinished(text, max(0, len(text) - _TAIL))
        return len(text) - found.start() if found else 0
