"""The tools that a Messages request declares: which the client runs, and what is known of each.

| what stands in the request                                       | kind       | its schema       |
|------------------------------------------------------------------|------------|------------------|
| a tool with ``input_schema``                                     | `function` | that             |
| ``{"type": "bash_20250124", …}``, text editor, memory, computer  | `client`   | Anthropic's      |
| a name in a reminder of role `system`, as Claude Code writes it  | `deferred` | not known        |

The client runs a call of each.  None of these are tools of Anthropic's servers (``web_search_…``),
and the placeholder by which Claude Code keeps the loading of tools active.

A tool may also be given, or taken away, within the conversation (`tool_changes`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..repair.declared_tools import DeclaredTools, is_json_form, tools_by_id
from ..repair.model_family import families_of
from ..wire.json_codec import Json, array, objects, string
from . import names as api
from .names import blocks_of, text_of

PLACEHOLDER = "DeferredToolPlaceholder"
"""Not a tool: "never call this tool", says its description."""


@dataclass(frozen=True, slots=True)
class MessagesTool:
    """A tool that the client runs."""

    name: str
    kind: Literal["function", "client", "deferred"]
    schema: Any
    """Of its input; None if it is not known."""
    tool: Json
    """As the request has it; empty if that only names it."""
    is_loaded_later: bool
    """Whether it was, or will be, added to a running conversation."""


def tools_declared(request: Json) -> list[MessagesTool]:
    """The tools of a request, those of ``tools`` first, in their order; each name once."""
    messages = request.get("messages")
    given = objects(request.get("tools"))
    found = [_given(tool, later=tool.get("defer_loading") is True) for tool in given]
    found += [_given(tool, later=True) for tool in tools_added(messages)]
    declared = {tool.name: tool for tool in found if tool is not None}
    for name in names_deferred(messages):
        declared.setdefault(name, MessagesTool(name, "deferred", None, {}, is_loaded_later=True))
    return list(declared.values())


def _given(tool: Json, *, later: bool) -> MessagesTool | None:
    """A tool that the client runs; None for others."""
    name, found = string(tool.get("name")), _CLIENT_TYPE.fullmatch(string(tool.get("type")))
    if not name or name == PLACEHOLDER:
        return None
    if "input_schema" in tool:
        return MessagesTool(name, "function", tool["input_schema"], tool, later)
    return MessagesTool(name, "client", CLIENT_TOOLS[found[1]], tool, later) if found else None


# What is given, or taken away, within a conversation

_ADDITION, _REMOVAL = "tool_addition", "tool_removal"
"""Blocks of messages of role `system`, of the betas ``mid-conversation-tool-changes`` and
``inline-tools``: Anthropic's SDKs and Claude Code write them, so that ``tools`` stays what it was
and the host's cache holds."""


@dataclass(frozen=True, slots=True)
class MessagesTools:
    """The tools of a Messages request."""

    declared: DeclaredTools

    @classmethod
    def of_request(cls, request: object, received: object = None) -> MessagesTools:
        """From a request's body; anything unreadable declares nothing.  `received` is the one that
        the client sent, if that differs: reminders of role `system` are the user's in a cured one.
        Hosts map names of Claude's models to others, so such a name says nothing of the model."""
        body: Json = request if isinstance(request, dict) else {}
        choice, output = body.get("tool_choice"), body.get("output_config")
        told = received if isinstance(received, dict) else body
        tools = tools_declared({**body, "messages": told.get("messages")})
        # Under the client's name, where another was sent.
        given = {string(tool.get("name")) for tool in objects(told.get("tools"))}
        calls = api.calls_in(body.get("messages"))
        declared = DeclaredTools(
            {tool.name: tool.schema for tool in tools if tool.kind != "deferred"},
            only_named={t.name for t in tools if t.kind == "deferred" and t.name not in given},
            model=known_model(body.get("model")),
            forbidden=isinstance(choice, dict) and choice.get("type") == "none",
            wants_json=is_json_form(output.get("format") if isinstance(output, dict) else None),
            called=tools_by_id((string(c.get("id")), string(c.get("name"))) for c in calls),
        )
        return cls(declared)


def known_model(model: object) -> str:
    """The name of a model, if that says whose it is."""
    name = string(model)
    return "" if "anthropic" in families_of(name) else name


def tool_changes(messages: object) -> Iterator[Json]:
    """The blocks by which tools come and go, in their order; a ``compaction`` has those of the
    messages that it stands for."""
    for message in objects(messages):
        for block in objects(message.get("content")):
            if message.get("role") == "system" and block.get("type") in (_ADDITION, _REMOVAL):
                yield block
            elif block.get("type") == "compaction":
                yield from objects(block.get("tool_changes"))


def tools_added(messages: object) -> list[Json]:
    """The definitions that a conversation brings, as they would stand in ``tools``."""
    return list(filter(None, map(_definition, tool_changes(messages))))


def name_added(change: Json) -> str:
    """The name of the tool that a block adds; "" for other blocks."""
    return _name_in(change) if change.get("type") == _ADDITION else ""


def change_line(block: Json, tools: Container[str] | None = None) -> str:
    """What a block of an instruction says of a tool, for the model; "" if it says nothing.
    `tools`: the names of those that are declared, if that is known."""
    definition = _definition(block)
    name = _name_in(block) or string((definition or {}).get("type"))
    if not name or name == PLACEHOLDER or block.get("type") not in (_ADDITION, _REMOVAL):
        return ""
    if block["type"] == _REMOVAL:
        return f"Do not call any more: {name}"
    if definition is not None:
        is_run = _given(definition, later=True) is not None
    else:
        is_run = tools is None or name in tools
    return f"{'Loaded' if is_run else 'Not available here'}: {name}"


def _name_in(change: Json) -> str:
    given = change.get("tool")
    tool = _definition(change) or (given if isinstance(given, dict) else {})
    return string(tool.get("name")) or string(tool.get("server_name"))


def _definition(change: Json) -> Json | None:
    """A tool that comes with its definition; None for one that is only named."""
    tool = change.get("tool")
    found = tool.get("definition") if isinstance(tool, dict) else None
    return found if isinstance(found, dict) and change.get("type") == _ADDITION else None


# What Claude Code only names

_NAMED = re.compile(r"deferred tools are (?:now )?available via |tools were loaded earlier in this")
"""In the sentence before the names; it ends with a colon, and they with a line that is no name."""
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def names_deferred(messages: object) -> list[str]:
    """The tools that reminders of role `system` name, in their order.  A text of anybody else's,
    a tool's output for one, names none."""
    names: dict[str, None] = {}
    for message in array(messages):
        if isinstance(message, dict) and message.get("role") == "system":
            for block in blocks_of(message):
                names.update(dict.fromkeys(_named_in(text_of(block))))
    return list(names)


def _named_in(text: str) -> Iterator[str]:
    if _NAMED.search(text) is None:
        return
    is_sentence = is_list = False
    for line in map(str.strip, text.splitlines()):
        is_name = is_list and _NAME.fullmatch(line) is not None
        if is_name:
            yield line
            continue
        is_sentence = (is_sentence and bool(line)) or _NAMED.search(line) is not None
        is_list = is_sentence and line.endswith(":")


# Anthropic's tools that the client runs: its documentation, "Tool use", at each tool

_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}
_POINT = {"type": "array", "items": _INTEGER}


def _object(required: str, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": required.split()}


def _one_of(words: str) -> Json:
    return {"type": "string", "enum": words.split()}


_FILE: Json = {
    "path": _STRING,
    "file_text": _STRING,
    "view_range": _POINT,
    "old_str": _STRING,
    "new_str": _STRING,
    "insert_line": _INTEGER,
    "insert_text": _STRING,
}
CLIENT_TOOLS: dict[str, Json] = {
    "bash": _object("", command=_STRING, restart={"type": "boolean"}),
    "text_editor": _object(
        "command path",
        command=_one_of("view create str_replace insert undo_edit"),
        **_FILE,
    ),
    "memory": _object(
        "command",
        command=_one_of("view create str_replace insert delete rename"),
        **_FILE,
        old_path=_STRING,
        new_path=_STRING,
    ),
    "computer": _object(
        "action",
        action=_one_of(
            "key hold_key type cursor_position mouse_move left_mouse_down left_mouse_up left_click "
            "left_click_drag right_click middle_click double_click triple_click scroll wait "
            "screenshot zoom"
        ),
        coordinate=_POINT,
        start_coordinate=_POINT,
        text=_STRING,
        duration={"type": "number"},
        scroll_direction=_one_of("up down left right"),
        scroll_amount=_INTEGER,
        region=_POINT,
    ),
}
"""The schemas of all versions of each, by the word before the date in its type."""
_CLIENT_TYPE = re.compile(rf"({'|'.join(CLIENT_TOOLS)})_\d{{8}}")
