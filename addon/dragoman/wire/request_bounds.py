"""What a request may hold, so that one call of the JSON reader reads it.

Other streams wait for that: some 0.2 µs for each JSON value, 2 to 5 ms for each megabyte.
A request beyond a bound is refused in words where it would be converted, and else passed on unread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .errors import Refused
from .json_codec import MAX_NESTING, TooDeep, array, nesting_exceeds, objects, values_so_far

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a body, decompressed.  A context of a million tokens has some 4 MB; larger requests
hold images."""
BYTES = f"{MAX_BODY:,} bytes, decompressed"
MAX_VALUES = 400_000
"""JSON values of a request: to read or to write as many takes less than 100 ms."""
MAX_ITEMS = 20_000
"""Items or messages."""
MAX_PARTS = 5_000
"""Members of an array of one of them: parts, calls.  One is converted at once."""
MAX_INNER = 8
"""Levels inside an item or a block on which texts are looked for: a result, its page, the document
on it, its source, the blocks of that.  Each may copy what is in it."""
MAX_TOOLS = 2_000
"""Tools, also those that items or namespaces hold; hosts take a few hundred."""


class TooLarge(Refused):
    """A bound is exceeded; the message names it."""

    def __init__(self, what: str) -> None:
        message = f"The request is too large: more than {what}."
        super().__init__(message, code="request_too_large", status=413)


def check_size(body: bytes) -> Iterator[None]:
    """Raises `TooLarge` for a request's body of too many bytes or values.  Yields where others may
    have their turn."""
    if len(body) > MAX_BODY:
        raise TooLarge(BYTES)
    if len(body) > MAX_VALUES:
        for values in values_so_far(body):
            if values >= MAX_VALUES:
                raise TooLarge(f"{MAX_VALUES:,} JSON values")
            yield


def check_value(value: Any) -> None:
    """Raises `NotJson` for the value of a body that is nested too deeply, and `TooLarge`."""
    if nesting_exceeds(value, MAX_NESTING):
        raise TooDeep(f"nested more than {MAX_NESTING} levels deep")
    if isinstance(value, dict):
        _check_lists(value)


def _check_lists(request: dict[str, Any]) -> None:
    tools = _tools_in(request)
    for name in ("input", "messages"):
        items = array(request.get(name))
        if len(items) > MAX_ITEMS:
            raise TooLarge(f"{MAX_ITEMS:,} items in '{name}'")
        for item in items:
            if not isinstance(item, dict):
                continue
            for member in item.values():
                if isinstance(member, list) and len(member) > MAX_PARTS:
                    raise TooLarge(f"{MAX_PARTS:,} parts in an item")
            if "tools" in item:
                tools += _tools_in(item)
            tools += _tools_added(item)
    if tools > MAX_TOOLS:
        raise TooLarge(f"{MAX_TOOLS:,} tools")


def _tools_added(message: dict[str, Any]) -> int:
    """The tools that a message of the Messages API brings."""
    blocks = objects(message.get("content"))
    changes = (
        change for block in blocks for change in (block, *objects(block.get("tool_changes")))
    )
    return sum(change.get("type") == "tool_addition" for change in changes)


def _tools_in(holder: dict[str, Any]) -> int:
    """A namespace counts as a tool, and with its tools."""
    tools = array(holder.get("tools"))
    inner = sum(len(array(tool.get("tools"))) for tool in objects(tools))
    return len(tools) + len(array(holder.get("functions"))) + inner
