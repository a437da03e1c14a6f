"""Reads the input items of a Responses request into the pieces of a conversation: a table by item
type.

Reading an item needs only the item (and the toolbox it may declare tools in), so the same item
gives the same pieces in every turn; `chat_messages` makes messages of the pieces.  Of an item that
no chat upstream has, the text is sent: tools that ran at a provider leave their calls and results
in the conversation, which the model needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...notes import Evidence
from ...responses.envelope import open_sealed
from ...wire.errors import Refused
from ...wire.json_codec import NotJson, dumps, loads
from ..conversation import (
    AssistantText,
    ContentPart,
    ConversationItem,
    InputMessage,
    Reasoning,
    Remark,
    ToolCall,
    ToolOutput,
)
from .content import merged, readable_text, text_content, text_of, user_content
from .images import LEFT_OUT, json_without_data, without_data, without_media
from .tool_outputs import output_content
from .toolbox import Toolbox, upstream_name
from .validation import RequestObject, invalid_value, label, missing, present, unsupported

HOSTED: Mapping[str, tuple[str, ...]] = {
    "web_search_call": ("action", "query", "queries", "results"),
    "file_search_call": ("queries", "results"),
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("revised_prompt", "result"),
    "computer_call": ("action", "actions"),
    "computer_call_output": ("output",),
    "mcp_call": ("server_label", "name", "arguments", "output", "error"),
    "mcp_list_tools": ("server_label", "tools", "error"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
    "mcp_approval_response": ("approve", "reason"),
}
"""The items of hosted tools, and the fields of their requests and results."""
_FROM_THE_CLIENT = ("computer_call_output", "mcp_approval_response")
"""The hosted items that answer the model; the others are its own."""
_LOST_CONTEXT = "[What was said before was compacted by another provider, and cannot be read here.]"

_Read = ConversationItem | tuple[ConversationItem, ...] | None


@dataclass(frozen=True, slots=True)
class Reader:
    toolbox: Toolbox
    evidence: Evidence

    def read(self, value: object, path: str) -> Sequence[ConversationItem]:
        """The pieces of an item; none for one that is dropped (recorded) or only declares tools.
        Raises `Refused`."""
        item = RequestObject.of(value, path)
        kind = item.string("type")
        read = _ITEMS.get(_untyped(item) if kind is None else kind, _as_text)(self, item)
        return read if isinstance(read, tuple) else () if read is None else (read,)

    def name(self, item: RequestObject) -> str:
        """The upstream name of the tool that an item calls."""
        name, namespace = item.required_string("name"), item.string("namespace")
        return upstream_name(name, namespace, self.toolbox.family)


def _untyped(item: RequestObject) -> str:
    """A message may lack its type, and so may a reference."""
    if "role" in item.values:
        return "message"
    if "id" in item.values:
        return "item_reference"
    raise missing(item.at("type"))


def _message(reader: Reader, item: RequestObject) -> _Read:
    role, content, path = item.required_string("role"), item.get("content"), item.at("content")
    match role:
        case "user":
            return InputMessage("user", user_content(content, path, reader.evidence))
        case "system" | "developer":
            return _instructions(reader, role, content, path)
        case "assistant" if item.get("tool_calls"):
            raise unsupported(item.at("tool_calls"), "A call is an item of type 'function_call'.")
        case "tool" | "function":
            reason = "The result of a tool is an item of type 'function_call_output'."
            raise unsupported(item.at("role"), reason)
        case "assistant":
            return _assistant_text(reader, text_content(content, path, reader.evidence, joint=""))
        case _:
            supported = "'assistant', 'system', 'developer', and 'user'"
            raise invalid_value(role, item.at("role"), supported)


def _instructions(
    reader: Reader, role: Literal["system", "developer"], content: object, path: str
) -> _Read:
    """Images in them go to a user's message, the only one that can hold them."""
    media: list[ContentPart] = []
    text = text_content(content, path, reader.evidence, joint="\n", media=media)
    if not media:
        return InputMessage(role, text)
    reader.evidence.note("moved to a user message", f"media of a {role} message")
    moved = InputMessage("user", [{"type": "text", "text": f"[Sent by the {role}:]"}, *media])
    return (InputMessage(role, text), moved) if text else moved


def _assistant_text(reader: Reader, text: str) -> _Read:
    """Some clients put the reasoning that they received before the text, in its tags
    (pydantic-ai, for a provider other than the one that reasoned)."""
    thinking, end, rest = text.lstrip().partition("</think>")
    if not end or not thinking.startswith("<think>"):
        return AssistantText(text)
    reader.evidence.note("taken as reasoning", "<think> in an assistant's text")
    reasoning = thinking.removeprefix("<think>").removeprefix("\n").removesuffix("\n")
    return Reasoning(reasoning), AssistantText(rest.lstrip())


def _agent_message(reader: Reader, item: RequestObject) -> ConversationItem:
    """A message of one agent to another, which reads it as its user's.  With providers that
    encrypt nothing, Codex puts the text into the part that is called encrypted."""
    content = user_content(item.get("content"), item.at("content"), reader.evidence)
    author, recipient = item.string("author") or "an agent", item.string("recipient")
    to = f" to {recipient}" if recipient else ""
    heading: ContentPart = {"type": "text", "text": f"[Message from {author}{to}:]"}
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return InputMessage("user", merged([heading, *parts]))


def _reasoning(_: Reader, item: RequestObject) -> ConversationItem:
    """The sealed text; else, for a foreign or lost envelope, what can be read."""
    sealed = open_sealed(item.get("encrypted_content"))
    if sealed is not None:
        return Reasoning(sealed)
    texts = (readable_text(item.get(name), joint="\n\n") for name in ("content", "summary"))
    return Reasoning(next(filter(None, texts), ""))


def _compaction(reader: Reader, item: RequestObject) -> ConversationItem:
    """Only the provider that made it can open it.  Clients send it in every turn, so the
    conversation could not continue if it were refused."""
    summary = open_sealed(item.get("encrypted_content"))
    if summary is not None:
        return InputMessage("user", f"[Summary of the conversation so far:]\n{summary}")
    kind = f"item {label(item.get('type'))}"
    if text := text_of(item.get("summary")):
        reader.evidence.note("sent as text", kind)
        return InputMessage("user", text)
    reader.evidence.note("lost", f"context in {kind}")
    return InputMessage("user", _LOST_CONTEXT)


def _call_id(item: RequestObject) -> str:
    return item.string("call_id") or ""


def _function_call(reader: Reader, item: RequestObject) -> ToolCall:
    return ToolCall(_call_id(item), reader.name(item), _arguments(item))


def _arguments(item: RequestObject) -> str:
    """A text stays as it is: `cure.chat_history` has what is no object wrapped in one."""
    value = item.get("arguments")
    if value is None or value == "":
        return "{}"
    return dumps(value).decode() if isinstance(value, dict) else item.required_string("arguments")


def _tool_call(reader: Reader, item: RequestObject) -> ConversationItem:
    """A function call as the dialect `guide` has it; its clients answer the item's id."""
    function = item.object("function")
    if function is None:
        raise missing(item.at("function"))
    flat = RequestObject({**item.values, **function.values}, function.path)
    call = _function_call(reader, flat)
    item_id = item.string("id") or ""
    return replace(call, call_id=_call_id(item) or item_id, item_id=item_id)


def _custom_tool_call(reader: Reader, item: RequestObject) -> ConversationItem:
    text = dumps({"input": item.string("input") or ""}).decode()
    return ToolCall(_call_id(item), reader.name(item), text)


_STRUCTURED: Mapping[str, tuple[str, str]] = {
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""The tools of the calls that carry a structure, and where."""


def _structured_call(_: Reader, item: RequestObject) -> ToolCall:
    """Its structure as arguments; an action's type is the tool's, and null is an absent field."""
    name, holder = _STRUCTURED[item.required_string("type")]
    fields = item.plain_object(holder) or {}
    if holder == "action":
        fields = {key: each for key, each in fields.items() if key != "type" and each is not None}
    item_id = (item.string("id") or "") if name == "local_shell" else ""
    return ToolCall(_call_id(item) or item_id, name, dumps(fields).decode(), item_id)


def _tool_search_call(reader: Reader, item: RequestObject) -> ConversationItem | None:
    """One the provider ran has no place here: its result is in the tools."""
    if item.string("execution") == "server":
        reader.evidence.note("dropped", "item tool_search_call")
        return None
    return ToolCall(_call_id(item), "tool_search", _arguments(item))


def _output(reader: Reader, item: RequestObject) -> ToolOutput:
    """Clients put a tool's output under ``content``, too."""
    value = item.get("output")
    value = item.get("content") if value is None else value
    if isinstance(value, list) and item.get("type") == "shell_call_output":
        return ToolOutput(_call_id(item), "\n".join(dumps(part).decode() for part in value))
    return ToolOutput(_call_id(item), output_content(value, reader.evidence))


def _local_shell_call_output(reader: Reader, item: RequestObject) -> ConversationItem:
    """Its reference has an ``id`` alone, which is the call's; clients send ``call_id``."""
    output = _output(reader, item)
    return replace(output, call_id=output.call_id or item.string("id") or "")


def _apply_patch_call_output(_: Reader, item: RequestObject) -> ConversationItem:
    report = present(status=item.string("status"), output=item.string("output"))
    return ToolOutput(_call_id(item), dumps(report).decode())


def _tool_search_output(reader: Reader, item: RequestObject) -> ConversationItem | None:
    """Declares the tools that were found, and tells the model their names upstream."""
    names = reader.toolbox.declare(item.array("tools"))
    if item.string("execution") == "server":
        return None
    return ToolOutput(_call_id(item), dumps({"loaded_tools": names}).decode())


def _additional_tools(reader: Reader, item: RequestObject) -> None:
    reader.toolbox.declare(item.array("tools"))


def _item_reference(_: Reader, item: RequestObject) -> ConversationItem:
    """A reference to a kept item has been replaced by now.  The words are OpenAI's: clients look
    for them, and send the item itself."""
    raise Refused(
        f"Item with id '{label(item.required_string('id'))}' not found. Items are not persisted "
        "when `store` is set to false. Try again with `store` set to true, or remove this item "
        "from your input.",
        param="input",
        status=404,
    )


def _of_the_turn(_: Reader, __: RequestObject) -> None:
    """About the turn, not part of the conversation: see `convert._effort`."""


def _as_text(reader: Reader, item: RequestObject) -> ConversationItem | None:
    """The text of an item that no chat upstream has, if there is any; its role or, for a call,
    its type says whose it is."""
    kind = item.required_string("type")
    text = _hosted_text(kind, item) if kind in HOSTED else text_of(item.values)
    if not text:
        reader.evidence.note("dropped", f"item {label(kind)}")
        return None
    reader.evidence.note("sent as text", f"item {label(kind)}")
    if kind in HOSTED:
        return InputMessage("user", text) if kind in _FROM_THE_CLIENT else Remark(text)
    role = item.get("role")
    if role in ("system", "developer"):
        return InputMessage(role, text)
    if role == "assistant" or (role is None and kind.endswith("_call")):
        return Remark(text)
    return InputMessage("user", text)


def _hosted_text(kind: str, item: RequestObject) -> str:
    """The request and result of a hosted tool, without pictures and other data; empty if the
    item has none."""
    fields = []
    for name in HOSTED[kind]:
        value = item.get(name)
        if name == "tools" and isinstance(value, list):
            value = [tool.get("name") for tool in value if isinstance(tool, dict)]
        if value is None or value in ("", [], {}):
            continue
        is_picture = kind == "image_generation_call" and name == "result"
        fields.append(f"{name}: {LEFT_OUT if is_picture else _field_text(value)}")
    return f"[{kind}: {', '.join(fields)}]" if fields else ""


def _field_text(value: Any) -> str:
    """A field as text; strings may be JSON themselves, and hold pictures."""
    if not isinstance(value, str):
        return json_without_data(value)
    try:
        inner = loads(value) if value.startswith(("[", "{")) else None
    except NotJson:
        inner = None
    kept = without_media(inner)
    return without_data(value if kept == inner else dumps(kept).decode())


_ITEMS: Mapping[str, Callable[[Reader, RequestObject], _Read]] = {
    "message": _message,
    "agent_message": _agent_message,
    "reasoning": _reasoning,
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "context_compaction": _compaction,
    "function_call": _function_call,
    "function_call_output": _output,
    "tool_call": _tool_call,
    "custom_tool_call": _custom_tool_call,
    "custom_tool_call_output": _output,
    **dict.fromkeys(_STRUCTURED, _structured_call),
    "local_shell_call_output": _local_shell_call_output,
    "shell_call_output": _output,
    "apply_patch_call_output": _apply_patch_call_output,
    "tool_search_call": _tool_search_call,
    "tool_search_output": _tool_search_output,
    "additional_tools": _additional_tools,
    "item_reference": _item_reference,
    "configuration_update": _of_the_turn,
    "compaction_trigger": _of_the_turn,
}
