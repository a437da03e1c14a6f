"""What a reply that is read whole may hold, beside the bytes that `proxy.content_decoding` allows.

Other streams wait while plain code reads, converts and writes it: some 45 µs for each call, and up
to 1 µs for each other JSON value.  The bridge fails a turn beyond a bound; repair passes it on
unread.
"""

from __future__ import annotations

from typing import Any

from ..notes import Evidence
from .json_codec import NotJson, array, loads, objects
from .request_bounds import has_more_values

MAX_VALUES = 200_000
"""JSON values: the log probabilities of 20,000 tokens."""
MAX_PARTS = 2_000
"""Choices, and what a list in a message of one holds: calls, parts, sources; items or blocks of
other APIs.  No client runs as many calls."""


class TooMany(Exception):  # noqa: N818 - a limit, not a fault of the program
    """A bound is exceeded; the message names it."""


def whole_value(body: bytes) -> Any:
    """The value of a reply that is no event stream.  Raises `NotJson` and `TooMany`."""
    if has_more_values(body, MAX_VALUES):
        raise TooMany(f"more than {MAX_VALUES:,} JSON values")
    value = loads(body)
    if isinstance(value, dict) and _parts_in(value) > MAX_PARTS:
        raise TooMany(f"more than {MAX_PARTS:,} calls or parts")
    return value


def repairable(body: bytes, evidence: Evidence) -> Any:
    """As `whole_value`, for repair: None if the reply passes unread."""
    try:
        return whole_value(body)
    except NotJson:
        return None
    except TooMany as bound:
        evidence.note("not repaired", f"a reply of {bound}")
        return None


def _parts_in(reply: dict[str, Any]) -> int:
    count = sum(len(array(reply.get(name))) for name in ("choices", "output", "content"))
    for choice in objects(reply.get("choices")):
        for message in objects([choice.get("message"), choice.get("delta")]):
            count += sum(map(len, map(array, message.values())))
    return count
