"""The output items of a response: their shapes, and the texts that are streamed in them.

The parts are a table of what may lie in what, and of their events; the writer can open nothing
else.  A tool call comes back as the item of its kind.  Function and custom calls have one text,
which is streamed; the others carry a structure made of the complete arguments (`tool_schemas`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ..reply.turn_context import Tool, ToolKind
from ..wire.json_codec import Json, NotJson, loads
from . import names as responses
from .dialects import Dialect
from .names import TextEvents


@dataclass(frozen=True, slots=True)
class StreamedPart:
    """A text that is streamed: its place, and its events.  The last five are empty for a text that
    is a field of the item itself."""

    item: Literal["message", "reasoning", "call"]
    """The kind of item that holds it."""
    text: TextEvents
    type: str = ""
    """The part's."""
    holder: str = ""
    """The list of the item in which the part lies."""
    added: str = ""
    done: str = ""
    """The events of the part itself."""
    index: str = ""
    """The field that numbers the parts of the holder."""

    def empty(self) -> Json:
        """The part as it is added."""
        lists: Json = {"annotations": [], "logprobs": []} if self is TEXT else {}
        return {"type": self.type, self.text.field: "", **lists}


_CONTENT = ("content", "response.content_part.added", "response.content_part.done", "content_index")
_SUMMARIES = (
    "summary",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done",
    "summary_index",
)

TEXT = StreamedPart("message", responses.OUTPUT_TEXT, "output_text", *_CONTENT)
REFUSAL = StreamedPart("message", responses.REFUSAL, "refusal", *_CONTENT)
SUMMARY = StreamedPart("reasoning", responses.SUMMARY_TEXT, "summary_text", *_SUMMARIES)
REASONING = StreamedPart("reasoning", responses.REASONING, "reasoning_text", *_CONTENT)
ARGUMENTS = StreamedPart("call", responses.ARGUMENTS)
INPUT = StreamedPart("call", responses.CUSTOM_INPUT)


def message() -> Json:
    return {"type": "message", "role": "assistant", "content": []}


def reasoning(part: StreamedPart) -> Json:
    return {"type": "reasoning", "summary": [], part.holder: []}


def text_call(tool: Tool, call_id: str, dialect: Dialect) -> Json:
    """The item of a function or custom call, its text still empty."""
    if tool.kind == "custom":
        call: Json = {"type": "custom_tool_call", "name": tool.name, "input": ""}
    elif dialect.tool_call_items:
        call = {"type": "tool_call", "function": {"name": tool.name, "arguments": ""}}
    else:
        call = {"type": "function_call", "name": tool.name, "arguments": ""}
    if tool.namespace is not None:
        call["namespace"] = tool.namespace
    if tool.encrypted:
        call["encrypted_function_args"] = []
    return call | {"call_id": call_id}


def structured_call(kind: ToolKind, arguments: str) -> Json | None:
    """The fields of a call item, without ids and status, made of complete arguments; None if these
    do not fit the kind."""
    try:
        values = loads(arguments.strip() or "{}")
    except NotJson:
        return None
    return _STRUCTURED[kind](values) if isinstance(values, dict) else None


def unfit_call(kind: ToolKind, arguments: str) -> Json:
    """The fields of a call item that runs nothing, as its arguments do not fit. A search is tried
    with the arguments as its words. The others name no command or no file, which their tools
    report as a failure; ``incomplete`` is no status of a patch."""
    match kind:
        case "tool_search":
            return _tool_search({"query": arguments.strip()})
        case "apply_patch":
            operation = {"type": "update_file", "path": "", "diff": arguments}
            return {"type": "apply_patch_call", "operation": operation}
        case "local_shell":
            return _local_shell_call([], {}) | {"status": "incomplete"}
        case _:
            return _shell_call([], {}) | {"status": "incomplete"}


def _local_shell(values: Json) -> Json | None:
    if not _strings(values.get("command")):
        return None
    fields = _typed(values, int, "timeout_ms") | _typed(values, str, "user", "working_directory")
    env = values.get("env")
    if isinstance(env, dict) and _strings(list(env.values())):
        fields["env"] = env
    return _local_shell_call(values["command"], fields)


def _local_shell_call(command: list[str], fields: Json) -> Json:
    action = {"type": "exec", "command": command, "env": {}, **fields}
    return {"type": "local_shell_call", "action": action}


def _shell(values: Json) -> Json | None:
    if not _strings(values.get("commands")):
        return None
    return _shell_call(values["commands"], _typed(values, int, "timeout_ms", "max_output_length"))


def _shell_call(commands: list[str], limits: Json) -> Json:
    """Every field that the API's type requires; it is always the client that runs it."""
    action = {"commands": commands, "timeout_ms": None, "max_output_length": None, **limits}
    return {"type": "shell_call", "action": action, "environment": {"type": "local"}}


_OPERATIONS = {
    "create_file": ("type", "path", "diff"),
    "update_file": ("type", "path", "diff"),
    "delete_file": ("type", "path"),
}


def _apply_patch(values: Json) -> Json | None:
    kind = values.get("type")
    fields = _OPERATIONS.get(kind) if isinstance(kind, str) else None
    operation = _typed(values, str, *(fields or ()))
    if fields is None or len(operation) < len(fields):
        return None
    return {"type": "apply_patch_call", "operation": operation}


def _tool_search(values: Json) -> Json:
    return {"type": "tool_search_call", "execution": "client", "arguments": values}


_STRUCTURED: dict[str, Callable[[Json], Json | None]] = {
    "local_shell": _local_shell,
    "shell": _shell,
    "apply_patch": _apply_patch,
    "tool_search": _tool_search,
}


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(element, str) for element in value)


def _typed(values: Json, kind: type, *names: str) -> Json:
    """The named fields that have this type exactly (a bool is no int)."""
    return {name: values[name] for name in names if type(values.get(name)) is kind}
