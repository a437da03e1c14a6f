"""Parses a request of any API, to be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from ...notes import printable
from ...wire.json_codec import Json, NotJson, loads, objects, string
from ...wire.request_bounds import MAX_BODY

_CONVERSATIONS = ("messages", "input", "tool_outputs")
"""The member with the conversation: of a chat request, of a Responses request, and of outputs that
are submitted to a response."""
_NOT_SETTINGS = frozenset({"model", *_CONVERSATIONS, "instructions", "system", "tools", "stream"})


_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,100})"')
_MODEL_WITHIN = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    shape: Literal["chat", "Responses", "Messages"]
    model: str
    stream: bool
    items: list[Any]
    """Messages, or items of the Responses API, as they are."""
    tools: list[Json]
    """Their definitions."""
    settings: Json


def parse_request(body: bytes) -> ParsedRequest | None:
    """None if it is no request of an LLM."""
    try:
        value = loads(body) if len(body) <= MAX_BODY else None
    except NotJson:
        return None
    if not isinstance(value, dict) or value.keys().isdisjoint(_CONVERSATIONS):
        return None
    shape: Literal["chat", "Responses", "Messages"] = "Responses"
    if "messages" in value:
        schemas = ("input_schema" in tool for tool in objects(value.get("tools")))
        shape = "Messages" if "system" in value or any(schemas) else "chat"
    return ParsedRequest(
        shape,
        string(value.get("model")),
        value.get("stream") is True,
        _items(value),
        objects(value.get("tools")),
        {name: member for name, member in value.items() if name not in _NOT_SETTINGS},
    )


def model_asked(request: bytes) -> str:
    """The model in a request, for a reply that names none."""
    found = _MODEL.search(request[:_MODEL_WITHIN])
    return printable(found[1].decode("utf-8", "replace")) if found else ""


def _items(value: Json) -> list[Any]:
    """Instructions, and a text in place of items, are items as well."""
    first = ("instructions", "system")
    before = [{"type": name, "content": value[name]} for name in first if value.get(name)]
    said = next(value[name] for name in _CONVERSATIONS if name in value)
    return [*before, *(said if isinstance(said, list) else [{"role": "user", "content": said}])]


def names_of(value: Json) -> list[str]:
    """The names in the definition of a tool: a namespace has several."""
    inner = value.get("function", value.get("custom"))
    name = string((inner if isinstance(inner, dict) else value).get("name"))
    if within := objects(value.get("tools")):
        # Only one level: a namespace holds no namespace.
        return [f"{name}.{string(tool.get('name'))}" for tool in within]
    return [name or string(value.get("type")) or "(no name)"]
