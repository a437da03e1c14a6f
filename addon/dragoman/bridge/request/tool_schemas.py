"""Each kind of Responses tool as the one kind a chat upstream knows: a function.

The arguments of such a function are the fields of the client's own call item, so
that both directions are a renaming: `custom`, one string ``input``; `local_shell` and
`shell`, the fields of ``action`` (without its ``type``); `apply_patch`, the fields of
``operation``; `tool_search`, the search arguments.  The schemas follow the items of
OpenAI's API reference (Responses, local shell, shell and apply patch tools).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...reply.turn_context import ToolKind
from ...wire.json_codec import Json
from .validation import RequestObject, present

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_INTEGER = {"type": "integer"}
_STRING_MEMBERS = {"type": "object", "additionalProperties": _STRING}


def _object(*required: str, **properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": [*required]}


_LOCAL_SHELL: Json = {
    "description": "Runs a command on the user's machine and returns its output.",
    "parameters": _object(
        "command",
        command=_STRINGS | {"description": "The program and its arguments."},
        env=_STRING_MEMBERS | {"description": "Environment variables to set."},
        timeout_ms=_INTEGER | {"description": "Timeout in milliseconds."},
        user=_STRING | {"description": "The user to run the command as."},
        working_directory=_STRING | {"description": "The directory to run it in."},
    ),
}
_SHELL: Json = {
    "description": "Runs shell commands, concurrently, and returns the output of each.",
    "parameters": _object(
        "commands",
        commands=_STRINGS | {"description": "The shell commands to run."},
        timeout_ms=_INTEGER | {"description": "Timeout in milliseconds."},
        max_output_length=_INTEGER
        | {"description": "How many characters of each output to return at most."},
    ),
}
_APPLY_PATCH: Json = {
    "description": "Creates, updates or deletes one file with a diff in V4A format.",
    "parameters": _object(
        "type",
        "path",
        type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        path=_STRING | {"description": "The path of the file."},
        diff=_STRING | {"description": "The diff; not for delete_file."},
    ),
}
_SEARCH = _object("query", query=_STRING | {"description": "What the wanted tool should do."})
_NO_PARAMETERS: Json = {"type": "object", "properties": {}}


def _function(tool: RequestObject) -> Json:
    """``strict`` is kept; a missing schema is one without properties.

    The root of a schema is an object, whatever else it says: Moonshot and OpenAI
    refuse another one, and arguments are never anything else.
    """
    return present(
        description=tool.string("description") or None,
        parameters=_parameters(tool, _NO_PARAMETERS),
        strict=tool.boolean("strict"),
    )


def _custom(tool: RequestObject) -> Json:
    """One string ``input``; a chat upstream cannot enforce a grammar, so the description has it."""
    parts = [tool.string("description"), "Pass the raw input of this tool as the string `input`."]
    form = tool.object("format")
    if form is not None and form.string("type") == "grammar":
        syntax = form.string("syntax") or "lark"
        definition = form.required_string("definition")
        parts.append(f"The input must follow this {syntax} grammar:\n{definition}")
    description = "\n\n".join(filter(None, parts))
    return {"description": description, "parameters": _object("input", input=_STRING)}


def _tool_search(tool: RequestObject) -> Json:
    description = tool.string("description") or "Searches for further tools and loads them."
    return {"description": description, "parameters": _parameters(tool, _SEARCH)}


def _parameters(tool: RequestObject, default: Json) -> Json:
    schema = tool.plain_object("parameters")
    if not schema:
        return default
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def without_encrypted(schema: Any) -> Any:
    """A schema without the key by which Codex wants an argument encrypted: only OpenAI does so."""
    if isinstance(schema, list):
        return [without_encrypted(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            plain[key] = {name: without_encrypted(each) for name, each in value.items()}
        elif isinstance(value, (dict, list)) and key not in _VALUES:
            plain[key] = without_encrypted(value)
        elif key != "encrypted" or not isinstance(value, bool):
            plain[key] = value
    return plain


_VALUES = ("default", "enum", "const", "examples")

FUNCTIONS: Mapping[ToolKind, Callable[[RequestObject], Json]] = {
    "function": _function,
    "custom": _custom,
    "local_shell": lambda _: _LOCAL_SHELL,
    "shell": lambda _: _SHELL,
    "apply_patch": lambda _: _APPLY_PATCH,
    "tool_search": _tool_search,
}
"""The chat function of a declared tool, by its kind.  Raises `Refused` for wrong types."""
