"""Takes what clients that were moved from Chat Completions put into a Responses request.

Two forms mean what they mean there: tools and a tool choice with a nested ``function``; calls,
outputs and reasoning among the parts of a message.  A body without these is returned as it is;
`convert._MOVED` refuses others in words.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ...notes import Evidence
from ...wire.json_codec import Json, array


def formed(body: object, evidence: Evidence) -> Any:
    """`body` as the Responses API has it; what is not clear stays, to be refused."""
    if not isinstance(body, dict):
        return body
    made = {
        "tools": [_flat(tool) for tool in array(body.get("tools"))],
        "tool_choice": _flat(body.get("tool_choice")),
        "input": [each for item in array(body.get("input")) for each in _split(item)],
    }
    changed = {name: value for name, value in made.items() if value and value != body[name]}
    for name in changed:
        evidence.note("taken from its chat form:", name)
    return {**body, **changed} if changed else body


def _flat(tool: Any) -> Any:
    """A function, or the choice of one, without the inner object."""
    inner = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(inner, dict) or tool.get("type") != "function":
        return tool
    return {name: value for name, value in tool.items() if name != "function"} | inner


def _is_item(part: Any) -> bool:
    kind = str(part.get("type")) if isinstance(part, dict) else ""
    return kind.endswith(("reasoning", "_call", "_call_output")) or _flat(part) is not part


def _split(message: Any) -> Iterator[Any]:
    """A message with items among its parts as messages and items."""
    content = message.get("content") if isinstance(message, dict) and "role" in message else None
    if not any(map(_is_item, parts := array(content))):
        yield message
        return
    for is_item, group in [(kind, [*group]) for kind, group in groupby(parts, _is_item)]:
        yield from map(_item, group) if is_item else [{**message, "content": group}]


def _item(part: Json) -> Json:
    if part["type"] != "function":
        return part
    named = {name: part["function"].get(name) for name in ("name", "arguments")}
    return {"type": "function_call", "call_id": part.get("call_id") or part.get("id"), **named}
