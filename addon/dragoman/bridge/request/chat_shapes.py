"""Takes what clients that were moved from Chat Completions put into a Responses request.

Two forms are taken as what they mean: tools and a tool choice with a nested ``function``, and
calls, outputs and reasoning among the parts of a message.  This runs before anything else reads a
request, also a kept one, so that all other code sees one form.  A body without these is returned as
it is.  What else is written as a chat request has it is refused (`MOVED`).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ...notes import Evidence
from ...wire.json_codec import Json

MOVED: Mapping[str, str] = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}
"""Fields of a chat request, with the name of each in the Responses API."""


def formed(body: object, evidence: Evidence | None = None) -> Any:
    """`body` as the Responses API has it; what is not clear stays, to be refused."""
    if not isinstance(body, dict):
        return body
    changed: Json = {}
    tools, choice, items = (body.get(name) for name in ("tools", "tool_choice", "input"))
    if isinstance(tools, list) and (flat := [_flat(tool) for tool in tools]) != tools:
        changed["tools"] = flat
    if (chosen := _flat(choice)) is not choice:
        changed["tool_choice"] = chosen
    if evidence is not None:
        for name in changed:
            evidence.note("taken from its chat form:", name)
    if isinstance(items, list) and any(map(_has_items, items)):
        changed["input"] = [each for item in items for each in _split(item, evidence)]
    return {**body, **changed} if changed else body


def _flat(tool: Any) -> Any:
    """A function, or the choice of one, without the inner object."""
    if not (isinstance(tool, dict) and tool.get("type") == "function"):
        return tool
    if not isinstance(inner := tool.get("function"), dict):
        return tool
    return {name: value for name, value in tool.items() if name != "function"} | inner


def _is_item(part: Any) -> bool:
    """Whether a part of a message is an item: a call, its output or reasoning."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return False
    nested = kind == "function" and isinstance(part.get("function"), dict)
    return nested or kind == "reasoning" or kind.endswith(("_call", "_call_output"))


def _has_items(item: Any) -> bool:
    content = item.get("content") if isinstance(item, dict) and "role" in item else None
    return isinstance(content, list) and any(map(_is_item, content))


def _split(message: Any, evidence: Evidence | None) -> list[Any]:
    """A message with items among its parts as messages and items."""
    if not _has_items(message):
        return [message]
    items: list[Any] = []
    for is_item, group in groupby(message["content"], _is_item):
        if not is_item:
            items.append({**message, "content": [*group]})
            continue
        for part in group:
            if evidence is not None:
                evidence.note("taken as an item", f"part {part['type']}")
            items.append(_call(part) if part["type"] == "function" else part)
    return items


def _call(part: Json) -> Json:
    """A call in the form that an assistant's ``tool_calls`` have."""
    function, call_id = part["function"], part.get("call_id") or part.get("id")
    fields = {"name": function.get("name"), "arguments": function.get("arguments")}
    return {"type": "function_call", "call_id": call_id, **fields}
