"""Whether frames need no repair, by their bytes alone.

Nearly all do not: nothing in them can begin a marker or a text.  The invariant: false positives
are allowed, false negatives are not.  Searching for a word is much faster than a regular
expression, so each expression runs only if its word occurs.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

from ..wire.chat_text import DETAILS, STRINGS
from .formats.active import ActiveFormats

TEXTS = tuple(f'"{name}"'.encode() for name in STRINGS)
"""The fields that may have a stripped header."""
_CONTENT = b'"content"'
_ANY = b'"(?:%b)"' % "|".join(STRINGS).encode()
_CALL_BEGINS = re.compile(rb'"(?:name|type)"|"tool_calls"\s*:\s*\[\s*\{[^{}]*"id"')
_MAY_HOLD_TEXT = re.compile(rb'%b\s*:\s*(?!""|null)|"%b"|\\u00' % (_ANY, DETAILS.encode()))
_TEXT_BEGINS = re.compile(rb'(%b)\s*:\s*"(?!")' % _ANY)


class Prefilter:
    """Which frames of one stream pass."""

    __slots__ = ("_may_hold_marker", "_not_begun", "quiet", "resting")

    def __init__(self, formats: ActiveFormats, *, stripped: bool) -> None:
        """`stripped`: whether a stripped header could be known as one."""
        self._may_hold_marker = formats.may_hold_marker
        # Fields whose text has not begun: a stripped header may be at their start.
        self._not_begun = set(TEXTS) if stripped and formats.look_back else set()
        self.resting = True
        """Whether a frame without any text needs no repair."""
        self.quiet = True
        """Whether one that only continues a text, without a marker, needs none."""

    def look_for(self, formats: ActiveFormats) -> None:
        """Other formats are looked for from now on."""
        self._may_hold_marker = formats.may_hold_marker

    def passes(self, raw: bytes) -> bool:
        """Whether `raw`, one or more whole frames, needs no repair for certain, if this is
        `resting`."""
        if self._may_hold_marker(raw) or begins_call(raw):
            return False
        if not self.quiet and may_name_text(raw) and holds_text(raw):
            return False
        return not begins_text(raw, self._not_begun)

    def text_began(self, fields: tuple[str, ...]) -> None:
        """Text of these fields was read."""
        self._not_begun -= {b'"%b"' % name.encode() for name in fields}


def may_name_text(raw: bytes) -> bool:
    """Whether `raw` may name a field of text; if not, it `holds_text` of none."""
    # `in` takes several times longer for bytes, as it first takes them for a number.
    find = raw.find
    return find(b'"content"') >= 0 or find(b'"reasoning') >= 0 or find(b"\\u00") >= 0


def holds_text(raw: bytes) -> bool:
    """Whether `raw` may have text of the model."""
    return _MAY_HOLD_TEXT.search(raw) is not None


def begins_call(raw: bytes) -> bool:
    """Whether `raw` may have the first delta of a native call; the others need not be read."""
    start = raw.find(b'"tool_calls"')
    if start < 0:
        return False
    find = raw.find
    there = find(b'"name"') >= 0 or find(b'"type"') >= 0 or find(b'"id"', start) >= 0
    return there and _CALL_BEGINS.search(raw) is not None


def begins_text(raw: bytes, fields: AbstractSet[bytes]) -> bool:
    """Whether `raw` has text in one of the fields (of `TEXTS`)."""
    find = raw.find
    if find(b'"reasoning') < 0 and _CONTENT not in fields:
        return False
    there = [name for name in fields if find(name) >= 0]
    return bool(there) and any(match[1] in there for match in _TEXT_BEGINS.finditer(raw))
