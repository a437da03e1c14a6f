"""The names of the Responses API: its events, the types of its items, how ids begin.

Source: the types of openai-python and openai-node; what only other servers send says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..wire.json_codec import Json, dumps, string

FAILURES = frozenset({"response.failed", "response.cancelled", "response.error"})
"""The last event of a turn that is not whole; two are of other servers."""
TERMINALS = FAILURES | {"response.completed", "response.incomplete"}
"""The last event of a stream, with the whole response."""


def is_event(value: Mapping[str, Any]) -> bool:
    """Whether an object of a stream is an event of this API, not a chat chunk."""
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    return kind.startswith("response.") or (kind in ("error", "ping") and "choices" not in value)


def is_response(value: Mapping[str, Any]) -> bool:
    """Whether this is a whole reply."""
    return value.get("object") == "response" or isinstance(value.get("output"), list)


TextKind = Literal["text", "refusal", "reasoning", "call"]
"""``call``: the arguments or the input of one."""


@dataclass(frozen=True, slots=True)
class TextEvents:
    """The events by which a text is streamed, and the field of the whole text: in the event `done`
    and in the item."""

    kind: TextKind
    field: str
    delta: str
    done: str


OUTPUT_TEXT = TextEvents("text", "text", "response.output_text.delta", "response.output_text.done")
REFUSAL = TextEvents("refusal", "refusal", "response.refusal.delta", "response.refusal.done")
SUMMARY_TEXT = TextEvents(
    "reasoning",
    "text",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
)
REASONING = TextEvents(
    "reasoning", "text", "response.reasoning.delta", "response.reasoning.done"
)  # OpenResponses
ARGUMENTS = TextEvents(
    "call",
    "arguments",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
)
CUSTOM_INPUT = TextEvents(
    "call", "input", "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"
)
REASONING_TEXT = TextEvents(
    "reasoning", "text", "response.reasoning_text.delta", "response.reasoning_text.done"
)
_ONLY_READ = (
    REASONING_TEXT,
    TextEvents(
        "reasoning", "text", "response.reasoning_summary.delta", "response.reasoning_summary.done"
    ),  # other servers
    TextEvents(
        "call", "arguments", "response.mcp_call_arguments.delta", "response.mcp_call_arguments.done"
    ),
    TextEvents(
        "call",
        "code",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
    ),
)
_TEXTS = (OUTPUT_TEXT, REFUSAL, SUMMARY_TEXT, REASONING, ARGUMENTS, CUSTOM_INPUT, *_ONLY_READ)
DELTAS = {text.delta: text for text in _TEXTS}
DONES = {text.done: text for text in _TEXTS}

CALL_OUTPUTS = {
    "function_call": "function_call_output",
    "tool_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
}
"""The calls that the client executes, and their outputs."""
STREAMED_CALLS = ("function_call", "tool_call", "custom_tool_call")
"""The calls with one text, which is streamed; the others carry a structure."""

_NO_ARGUMENTS = frozenset(
    {
        *("id", "type", "status", "call_id", "name", "namespace", "execution", "created_by"),
        "environment",
    }
)
"""The members of a call item that are no arguments."""

ID_PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "compaction": "cmp",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "local_shell_call": "lsh",
    "local_shell_call_output": "lsho",
    "shell_call": "sh",
    "shell_call_output": "sho",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "computer_call_output": "cuo",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "mcp_approval_response": "mcpa",
}


def delta_in(event: Json) -> str:
    """The text of an event that is a delta; empty in any other."""
    return string(event.get("delta")) if string(event.get("type")) in DELTAS else ""


def item_id(item_type: str, of: str) -> str:
    """The id of an item; `of` is unique. An unknown type is a client's."""
    return f"{ID_PREFIXES.get(item_type, 'item')}_{of}"


def refers(item: object) -> bool:
    """Whether an input item refers to one that was sent before."""
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and not item.keys() - {"id", "type"})


def call_fields(item: Json) -> tuple[str, str, Any]:
    """The kind of a call item (``function``, ``custom``, ``shell``, ``web_search``), its name and
    its arguments; the kind is empty for any other item."""
    kind, inner = string(item.get("type")), item.get("function")
    if not kind.endswith("_call"):
        return "", "", ""
    fields = item | inner if isinstance(inner, dict) else item
    if kind in ("function_call", "tool_call"):
        shown, arguments = "function", fields.get("arguments")
    elif kind == "custom_tool_call":
        shown, arguments = "custom", fields.get("input")
    else:
        shown, arguments = kind.removesuffix("_call"), None
    return shown, string(fields.get("name")) or shown, arguments


def call_id(item: Json) -> str:
    """The id of a call; some hosts give it none but its item's."""
    return string(item.get("call_id")) or string(item.get("id"))


def shown_arguments(item: Json) -> str:
    """The arguments of a call item of any kind, as a text for people."""
    shown, _, arguments = call_fields(item)
    if shown not in ("function", "custom"):
        arguments = {name: item[name] for name in item if name not in _NO_ARGUMENTS}
        if len(arguments) == 1:
            (arguments,) = arguments.values()
    written = dumps(arguments).decode() if arguments and not isinstance(arguments, str) else ""
    return string(arguments) or written
