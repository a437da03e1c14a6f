"""Converts a Responses request that is written, in whole or in part, as a chat request.

Clients that were moved from one API to the other send ``messages`` for ``input``, tools and
choices with a nested ``function``, messages of the role `tool`, an assistant's ``tool_calls``;
others put a content part where an item belongs, or a call among the parts of a message.  This
runs before anything else reads a request, also a kept one, so that all other code sees one form.
A body in that form is returned as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ...notes import Evidence
from ...wire.chat_text import reasoning
from ...wire.json_codec import Json

_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("input_text", "text", "input_image", "image_url"), "user"),
    **dict.fromkeys(("input_file", "file", "input_audio"), "user"),
    **dict.fromkeys(("output_text", "refusal"), "assistant"),
}
"""The role of a content part in the place of an item."""


def formed(body: object, evidence: Evidence | None = None) -> Any:
    """`body` as the Responses API has it; what is not clear stays, to be refused."""
    if not isinstance(body, dict):
        return body
    shapes = _Shapes(Evidence() if evidence is None else evidence)
    changed = shapes.fields(body)
    value = changed.get("input", body.get("input"))
    if isinstance(value, list):
        items = shapes.items(value)
        if items is not value:
            changed["input"] = items
    if not changed:
        return body
    return {name: value for name, value in {**body, **changed}.items() if value is not _GONE}


_GONE = object()
"""The value of a field that was renamed."""


class _Shapes:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def _note(self, what: str) -> None:
        self._evidence.note("taken from its chat form:", what)

    # Fields of the request

    def fields(self, body: Json) -> Json:
        changed: Json = {}
        if body.get("input") is None and body.get("messages") is not None:
            self._note("messages")
            changed |= {"input": body["messages"], "messages": _GONE}
        for name in ("max_tokens", "max_completion_tokens"):
            limit = body.get("max_output_tokens", changed.get("max_output_tokens"))
            if body.get(name) is not None and limit is None:
                self._note(name)
                changed |= {"max_output_tokens": body[name], name: _GONE}
        self._inside(body, changed, "reasoning_effort", "reasoning", "effort")
        self._inside(body, changed, "response_format", "text", "format")
        tools = body.get("tools")
        if isinstance(tools, list) and any(map(_is_nested, tools)):
            changed["tools"] = [self._flat(tool, "tools") for tool in tools]
        choice = body.get("tool_choice")
        if isinstance(choice, dict) and (flat := self._choice(choice)) is not choice:
            changed["tool_choice"] = flat
        return changed

    def _inside(self, body: Json, changed: Json, name: str, outer: str, inner: str) -> None:
        """A field that belongs at ``outer.inner``."""
        value, place = body.get(name), body.get(outer) or {}
        if value is None or not isinstance(place, dict) or place.get(inner) is not None:
            return
        self._note(name)
        if isinstance(value, dict):
            value = _unnested(value, "json_schema")
        changed |= {outer: {**place, inner: value}, name: _GONE}

    def _choice(self, choice: Json) -> Json:
        if choice.get("type") == "allowed_tools" and isinstance(choice.get("allowed_tools"), dict):
            choice = _unnested(choice, "allowed_tools")
            self._note("tool_choice")
        tools = choice.get("tools")
        if isinstance(tools, list) and any(map(_is_nested, tools)):
            return {**choice, "tools": [self._flat(tool, "tool_choice") for tool in tools]}
        return self._flat(choice, "tool_choice") if _is_nested(choice) else choice

    def _flat(self, value: Any, what: str) -> Any:
        """A tool, or the choice of one, without its inner object."""
        if not _is_nested(value):
            return value
        self._note(what)
        flat = _unnested(value, value["type"])
        form = flat.get("format")
        if isinstance(form, dict) and isinstance(form.get("grammar"), dict):
            flat["format"] = _unnested(form, "grammar")
        return flat

    # Items

    def items(self, items: list[Any]) -> list[Any]:
        """The converted items; the same list if nothing changes."""
        formed: list[Any] | None = None
        for index, item in enumerate(items):
            meant = self._item(item) if isinstance(item, dict) else None
            if meant is not None and formed is None:
                formed = items[:index]
            if formed is not None:
                formed += [item] if meant is None else meant
        return items if formed is None else formed

    def _item(self, item: Json) -> list[Any] | None:
        """The items that an item in a chat form means; None for an item of the Responses API."""
        match item.get("type"):
            case None | "message" if "role" in item:
                return self._message(item)
            case "tool_call_output":
                self._note("tool_call_output")
                return [_output(item)]
            case "function_call_output" if "tool_call_id" in item and "call_id" not in item:
                self._note("tool_call_id")
                return [_output(item)]
            case "function" | "function_call" if isinstance(item.get("function"), dict):
                self._note("tool_calls")
                return [_call(item)]
            case "tool_call" if "function" not in item and "name" in item:
                self._note("tool_calls")
                return [_call(item)]
            case str(kind) if kind in _PARTS and "role" not in item:
                self._evidence.note("taken as a message", f"part {kind}")
                return [{"type": "message", "role": _PARTS[kind], "content": [item]}]
            case _:
                return None

    def _message(self, item: Json) -> list[Any] | None:
        role, content = item.get("role"), item.get("content")
        if role in ("tool", "function"):
            self._note("a tool's message")
            return [_output(item)]
        items = self._assistant_items(item) if role == "assistant" else None
        if items is None and isinstance(content, list) and any(map(_is_item, content)):
            items = self._split(item, content)
        return items

    def _assistant_items(self, message: Json) -> list[Any] | None:
        """Its reasoning, its text and its calls as items."""
        calls = message.get("tool_calls") or []
        if isinstance(message.get("function_call"), dict):
            calls = [{"function": message["function_call"]}]
        text = reasoning(message)
        if not calls and not text:
            return None
        items: list[Any] = []
        if text:
            self._note("reasoning of a message")
            part = {"type": "reasoning_text", "text": text}
            items.append({"type": "reasoning", "summary": [], "content": [part]})
        if content := message.get("content"):
            plain = {"type": "message", "role": "assistant", "content": content}
            items += self._message(plain) or [plain]
        if calls:
            self._note("tool_calls")
            calls = calls if isinstance(calls, list) else [calls]
            items += [_call(call) if isinstance(call, dict) else call for call in calls]
        return items

    def _split(self, message: Json, parts: list[Any]) -> list[Any]:
        """A message with items among its parts as messages and items."""
        items: list[Any] = []
        for is_item, group in groupby(parts, _is_item):
            if not is_item:
                items.append({**message, "content": [*group]})
                continue
            for part in group:
                self._evidence.note("taken as an item", f"part {part['type']}")
                items += self._item(part) or [part]
        return items


def _is_nested(value: Any) -> bool:
    """Whether the fields are in an inner object named after the type."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind in ("function", "custom") and isinstance(value.get(kind), dict)


def _unnested(value: Json, name: str) -> Json:
    """`value` with the fields of its object `name` beside its own."""
    inner = value.get(name)
    if not isinstance(inner, dict):
        return value
    return {**{key: own for key, own in value.items() if key != name}, **inner}


def _is_item(part: Any) -> bool:
    """Whether a part of a message is an item: a call, its output or reasoning."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return False
    nested = kind == "function" and isinstance(part.get("function"), dict)
    return nested or kind == "reasoning" or kind.endswith(("_call", "_call_output"))


def _output(item: Json) -> Json:
    output = item.get("output")
    return {
        "type": "function_call_output",
        "call_id": item.get("call_id") or item.get("tool_call_id") or item.get("id"),
        "output": item.get("content") if output is None else output,
    }


def _call(call: Json) -> Json:
    custom, function = call.get("custom"), call.get("function")
    ids = {"call_id": call.get("call_id") or call.get("id")}
    if isinstance(custom, dict):
        fields = {"name": custom.get("name"), "input": custom.get("input")}
        return {"type": "custom_tool_call", **ids, **fields}
    inner = function if isinstance(function, dict) else call
    fields = {"name": inner.get("name"), "arguments": inner.get("arguments")}
    return {"type": "function_call", **ids, **fields}
