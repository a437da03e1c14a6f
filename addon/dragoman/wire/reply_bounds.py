"""What an event of a reply, or a reply that comes whole, may hold beside its bytes.

Other streams wait while plain code reads, converts and writes it: some 45 µs for each call, and up
to 1 µs for each other JSON value.  The bridge fails a turn beyond a bound; repair passes it on
unread.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from .json_codec import Json, NotJson, has_more_values, loads

MAX_VALUES = 200_000
"""JSON values: the log probabilities of 20,000 tokens."""
MAX_PARTS = 1_000
"""Choices, and what a list in a message of one holds: calls, parts, sources; items or blocks of
other APIs, and their parts.  No client runs as many calls."""
_PART = 2
"""Bytes of a part, at least."""
_HOLDERS = ("response", "message", "delta", "item", "part")
_LISTS = (
    *("choices", "content", "tool_calls", "reasoning_details", "thinking", "annotations"),
    *("citations", "search_results", "output", "summary"),
)


class TooMany(NotJson):
    """A bound is exceeded; the message names it."""


def bounded(text: bytes) -> tuple[Any, str]:
    """The value of a reply or of an event; or none, and the bound that it exceeds.  Raises
    `NotJson`."""
    if len(text) > MAX_VALUES and has_more_values(text, MAX_VALUES):
        return None, f"more than {MAX_VALUES:,} JSON values"
    value = loads(text)
    if len(text) > _PART * MAX_PARTS and isinstance(value, dict) and _parts_in(value) > MAX_PARTS:
        return None, f"more than {MAX_PARTS:,} calls or parts"
    return value, ""


def _parts_in(value: Json) -> int:
    count, holders = 0, [value]
    for holder in holders:  # more are found in each
        lists = [members for name in _LISTS if isinstance(members := holder.get(name), list)]
        count += sum(map(len, lists))
        if count > MAX_PARTS:
            break
        inner = chain(map(holder.get, _HOLDERS), *lists)
        holders += [each for each in inner if isinstance(each, dict)]
    return count
