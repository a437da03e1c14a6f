"""What an event of a reply, or a reply that comes whole, may hold.

Other streams wait while plain code reads, converts and writes it: some 45 µs for each call, and up
to 1 µs for each other JSON value.  The bridge fails a turn beyond a bound; repair passes it on
unread.
"""

from __future__ import annotations

from typing import Any

from .json_codec import (
    MAX_NESTING,
    Json,
    NotJson,
    TooDeep,
    has_more_outside_strings,
    loads,
    marks_in,
    nesting_exceeds,
    objects,
)

MAX_REPLY = 8 * 1024 * 1024
"""Bytes of a reply that is read as a whole, at once: that takes some 100 ms.  No model writes half
as much."""
MAX_EVENT = 32 * 1024 * 1024
"""Bytes of one event that are held; a larger one is passed on in pieces as it arrives, each marked
``whole=False``."""
MAX_VALUES = 200_000
"""JSON values: the log probabilities of 20,000 tokens."""
MAX_PARTS = 1_000
"""Choices, and what a list in a message of one holds: calls, parts, sources; items or blocks of
other APIs, and their parts.  No client runs as many calls."""
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
    marks = marks_in(text) if len(text) > MAX_PARTS else 0  # one before each value, at least
    if marks > MAX_VALUES and has_more_outside_strings(text, MAX_VALUES):
        return None, f"more than {MAX_VALUES:,} JSON values"
    value = loads(text, checks=not marks)
    if marks > MAX_NESTING and nesting_exceeds(value, MAX_NESTING):
        raise TooDeep(f"nested more than {MAX_NESTING} levels deep")
    if marks > MAX_PARTS and isinstance(value, dict) and _parts_in(value) > MAX_PARTS:
        return None, f"more than {MAX_PARTS:,} calls or parts"
    return value, ""


def _parts_in(value: Json) -> int:
    count, holders = 0, [value]
    for holder in holders:  # more are found in each
        for name, member in holder.items():
            if name in _HOLDERS and isinstance(member, dict):
                holders.append(member)
            elif name in _LISTS and isinstance(member, list):
                count += len(member)
                if count > MAX_PARTS:
                    return count
                holders += objects(member)
    return count
