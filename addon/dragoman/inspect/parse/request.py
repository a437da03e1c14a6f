"""Parses a request of either API, to be shown.

Values of unexpected types are left out or shown as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...wire.chat_calls import elements, read_delta
from ...wire.chat_text import reasoning
from ...wire.json_codec import Json, NotJson, array, dumps, loads, objects, string

MAX_REQUEST = 24 * 1024 * 1024
_CONVERSATIONS = ("messages", "input", "tool_outputs")
"""Of a chat request, of a Responses request, and of what is submitted to a response."""
_NOT_SETTINGS = frozenset({"model", *_CONVERSATIONS, "instructions", "tools", "stream"})
_ROLE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "type", "id"})
_TEXT_NAMES = ("text", "thinking", "refusal")


@dataclass(frozen=True, slots=True)
class Entry:
    """A message, or another item."""

    role: str
    """The role, or the type of the item."""
    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each."""
    about: str = ""
    """Which call an output answers, and the like."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    shape: Literal["chat", "Responses"]
    model: str
    stream: bool
    entries: list[Entry]
    tools: list[str]
    settings: Json


def parse_request(body: bytes) -> ParsedRequest | None:
    """None if it is no request of an LLM."""
    try:
        value = loads(body) if len(body) <= MAX_REQUEST else None
    except NotJson:
        return None
    if not isinstance(value, dict) or value.keys().isdisjoint(_CONVERSATIONS):
        return None
    chat = "messages" in value
    return ParsedRequest(
        "chat" if chat else "Responses",
        string(value.get("model")),
        value.get("stream") is True,
        list(map(_message, array(value["messages"]))) if chat else _items(value),
        [name for tool in objects(value.get("tools")) for name in _tool(tool)],
        {name: member for name, member in value.items() if name not in _NOT_SETTINGS},
    )


def _message(value: object) -> Entry:
    if not isinstance(value, dict):
        return Entry("(no message)", _text(value))
    calls = map(read_delta, elements(value))
    return Entry(
        string(value.get("role")) or "(no role)",
        _text(value.get("content")),
        reasoning(value),
        tuple((call.name or "(no name)", call.arguments) for call in calls if call),
        string(value.get("tool_call_id")) or string(value.get("name")),
    )


def _items(value: Json) -> list[Entry]:
    instructions = _text(value.get("instructions"))
    items = value.get("input", value.get("tool_outputs"))
    first = [Entry("instructions", instructions)] if instructions else []
    if isinstance(items, list):
        return first + [_item(item) for item in items]
    return [*first, Entry("user", _text(items))]


def _item(value: object) -> Entry:
    if not isinstance(value, dict):
        return Entry("(no item)", _text(value))
    kind, call_id = string(value.get("type")), string(value.get("call_id"))
    if kind in ("message", "") and "role" in value:
        return _message(value)
    if kind == "reasoning":
        summary, content = _text(value.get("summary")), _text(value.get("content"))
        return Entry(kind, reasoning=content or summary)
    if kind.endswith("_call"):
        arguments = value.get("arguments", value.get("input", value.get("action")))
        name = string(value.get("name")) or kind
        return Entry(kind, calls=((name, _text(arguments)),), about=call_id)
    if kind.endswith("_output") or (not kind and "output" in value):
        about = call_id or string(value.get("tool_call_id"))
        return Entry(kind or "tool output", _text(value.get("output")), about=about)
    rest = {name: member for name, member in value.items() if name not in _ROLE_FIELDS}
    return Entry(kind or "(no type)", _text(rest))


def _text(value: object) -> str:
    """Content as text; other parts are named with their size."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return "\n".join(_part(part) for part in value)
    if value is None or value == {}:
        return ""
    return dumps(value).decode()


def _part(part: Json) -> str:
    for name in _TEXT_NAMES:
        if isinstance(part.get(name), str):
            return string(part[name])
    kind, written = string(part.get("type")) or "part", dumps(part).decode()
    return f"[{kind[:40]}: {len(written):,} characters]" if len(written) > 300 else written


def _tool(value: Json) -> list[str]:
    """A namespace has several names."""
    inner = value.get("function", value.get("custom"))
    name = string((inner if isinstance(inner, dict) else value).get("name"))
    if within := objects(value.get("tools")):
        # Only one level: a namespace holds no namespace.
        return [f"{name}.{string(tool.get('name'))}" for tool in within]
    return [name or string(value.get("type")) or "(no name)"]
