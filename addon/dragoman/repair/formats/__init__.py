"""The leak formats that are known: the registry.

A new one is a file or a folder here that keeps the promises of `protocol`, and a row below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .active import ActiveFormats
from .kimi_k2.format import KIMI_K2
from .protocol import LeakFormat

FORMATS: tuple[LeakFormat, ...] = (KIMI_K2,)
ALL = ActiveFormats(FORMATS)
MARKERS = re.compile("|".join(each.markers for each in FORMATS))
"""Any marker of any format, for those who only show or cut texts."""
BEGINNINGS = "|".join(re.escape(text) for each in FORMATS for text in each.beginnings)
"""An expression of what markers begin with."""

_STARTS = re.compile(f"(?={BEGINNINGS})")


def begins_with_marker(text: str) -> bool:
    """Whether a marker may stand at the start of a text."""
    return _STARTS.match(text) is not None


def at_markers(text: str, at_least: int = 1) -> Iterator[str]:
    """A text in pieces of so many characters or more, each marker at the start of one."""
    begin = 0
    for found in _STARTS.finditer(text, 1):
        if found.start() - begin >= at_least:
            yield text[begin : found.start()]
            begin = found.start()
    if begin < len(text):
        yield text[begin:]
