"""Reads the input items of a Responses request into the pieces of a conversation: a table by item
type.

Reading an item needs only the item (and the toolbox it may declare tools in), so the same item
gives the same pieces in every turn; `chat_messages` makes messages of the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...notes import Evidence
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
from ..envelope import open_sealed
from .content import (
    json_text,
    merged,
    readable_text,
    system_content,
    text_content,
    text_of,
    user_content,
)
from .hosted_items import FROM_THE_CLIENT, HOSTED, LOST_CONTEXT, remark
from .tool_outputs import output_content, shell_output
from .toolbox import Toolbox, upstream_name
from .validation import RequestObject, label, missing

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
        if kind is None:
            kind = _untyped(item)
        if read := _ITEMS.get(kind):
            made = read(self, item)
        elif kind in HOSTED:
            made = _hosted(self, item, kind)
        else:
            made = _unknown(self, item, kind)
        return made if isinstance(made, tuple) else () if made is None else (made,)

    def name(self, item: RequestObject) -> str:
        """The upstream name of the tool that an item calls."""
        return upstream_name(
            item.required_string("name"), item.string("namespace"), self.toolbox.family
        )

    def arguments(self, value: object, item: RequestObject, name: str) -> str:
        """A JSON object's text, kept to the byte if it is one.

        Engines parse the arguments of past calls, and one that was cut off would make
        every later request of the thread fail; so what is no object is wrapped in one.
        """
        if value is None or value == "":
            return "{}"
        if isinstance(value, dict):
            return json_text(value)
        text = item.required_string("arguments")
        try:
            if isinstance(loads(text), dict):
                return text
        except NotJson:
            pass
        self.evidence.note("wrapped", f"invalid arguments of {name}")
        return dumps({"invalid_arguments": text}).decode()


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
            return _instructing(reader, role, content, path)
        case "assistant":
            return _said(reader, text_content(content, path, reader.evidence, joint=""))
        case _:
            raise Refused(
                f"Invalid value for '{item.at('role')}': '{label(role)}'. Supported values are: "
                "'assistant', 'system', 'developer', and 'user'.",
                param=item.at("role"),
                code="invalid_value",
            )


def _instructing(
    reader: Reader, role: Literal["system", "developer"], content: object, path: str
) -> _Read:
    """Its images go to a user's message, the only one that can hold them."""
    text, media = system_content(content, path, reader.evidence)
    if not media:
        return InputMessage(role, text)
    reader.evidence.note("moved to a user message", f"media of a {role} message")
    sent = InputMessage("user", [{"type": "text", "text": f"[Sent by the {role}:]"}, *media])
    return (InputMessage(role, text), sent) if text else sent


def _said(reader: Reader, text: str) -> _Read:
    """Some clients put the reasoning they were given in front of the text, in its tags
    (pydantic-ai, for a provider other than the one that reasoned)."""
    thinking, end, rest = text.lstrip().partition("</think>")
    if not end or not thinking.startswith("<think>"):
        return AssistantText(text)
    reader.evidence.note("taken as reasoning", "<think> in an assistant's text")
    reasoning = thinking.removeprefix("<think>").removeprefix("\n").removesuffix("\n")
    return Reasoning(reasoning), AssistantText(rest.lstrip())


def _reasoning(_: Reader, item: RequestObject) -> ConversationItem:
    """The sealed text; else, for a foreign or lost envelope, what can be read."""
    sealed = open_sealed(item.get("encrypted_content"))
    if sealed is not None:
        return Reasoning(sealed)
    for name in ("content", "summary"):
        if text := readable_text(item.get(name), joint="\n\n"):
            return Reasoning(text)
    return Reasoning("")


def _function_call(reader: Reader, item: RequestObject) -> ConversationItem:
    name = reader.name(item)
    return ToolCall(_call_id(item), name, reader.arguments(item.get("arguments"), item, name))


def _tool_call(reader: Reader, item: RequestObject) -> ConversationItem:
    """A function call as the dialect `guide` has it; its clients answer the item's id."""
    function = item.object("function")
    if function is None:
        raise missing(item.at("function"))
    named = RequestObject({**item.values, **function.values}, function.path)
    name = reader.name(named)
    arguments = reader.arguments(named.get("arguments"), named, name)
    return ToolCall(_call_id(item), name, arguments, item.string("id") or "")


def _custom_tool_call(reader: Reader, item: RequestObject) -> ConversationItem:
    text = dumps({"input": item.string("input") or ""}).decode()
    return ToolCall(_call_id(item), reader.name(item), text)


def _local_shell_call(_: Reader, item: RequestObject) -> ConversationItem:
    text = _action(item)
    return ToolCall(_call_id(item), "local_shell", text, item.string("id") or "")


def _shell_call(_: Reader, item: RequestObject) -> ConversationItem:
    return ToolCall(_call_id(item), "shell", _action(item))


def _apply_patch_call(_: Reader, item: RequestObject) -> ConversationItem:
    operation = item.plain_object("operation") or {}
    return ToolCall(_call_id(item), "apply_patch", json_text(operation))


def _tool_search_call(reader: Reader, item: RequestObject) -> ConversationItem | None:
    """One the provider ran has no place here: its result is in the tools."""
    if item.string("execution") == "server":
        reader.evidence.note("dropped", "item tool_search_call")
        return None
    text = reader.arguments(item.get("arguments"), item, "tool_search")
    return ToolCall(_call_id(item), "tool_search", text)


def _output(reader: Reader, item: RequestObject) -> ConversationItem:
    text, media = output_content(_returned(item), reader.evidence)
    return ToolOutput(_call_id(item), text, media)


def _shell_call_output(reader: Reader, item: RequestObject) -> ConversationItem:
    text, media = shell_output(_returned(item), reader.evidence)
    return ToolOutput(_call_id(item), text, media)


def _local_shell_call_output(reader: Reader, item: RequestObject) -> ConversationItem:
    """Its reference has an ``id`` alone, which is the call's; clients send ``call_id``."""
    text, media = output_content(_returned(item), reader.evidence)
    return ToolOutput(_call_id(item) or item.string("id") or "", text, media)


def _returned(item: RequestObject) -> Any:
    """Clients put a tool's output under ``content``, too."""
    output = item.get("output")
    return item.get("content") if output is None else output


def _apply_patch_call_output(_: Reader, item: RequestObject) -> ConversationItem:
    report = {name: item.string(name) for name in ("status", "output")}
    report = {name: value for name, value in report.items() if value is not None}
    return ToolOutput(_call_id(item), json_text(report))


def _tool_search_output(reader: Reader, item: RequestObject) -> ConversationItem | None:
    """Declares what was found, and tells the model what it is called now."""
    names = reader.toolbox.declare(item.array("tools"))
    if item.string("execution") == "server":
        return None
    return ToolOutput(_call_id(item), dumps({"loaded_tools": names}).decode())


def _additional_tools(reader: Reader, item: RequestObject) -> None:
    reader.toolbox.declare(item.array("tools"))


def _item_reference(_: Reader, item: RequestObject) -> ConversationItem:
    """One that is kept has been replaced by now.  The words are OpenAI's: clients look for
    them, and send the item itself."""
    raise Refused(
        f"Item with id '{label(item.required_string('id'))}' not found. Items are not persisted "
        "when `store` is set to false. Try again with `store` set to true, or remove this item "
        "from your input.",
        param="input",
        status=404,
    )


def _agent_message(reader: Reader, item: RequestObject) -> ConversationItem:
    """A message of one agent to another, which reads it as its user's.  With providers that
    encrypt nothing, Codex puts the text into the part that is called encrypted."""
    content = user_content(item.get("content"), item.at("content"), reader.evidence)
    author, recipient = item.string("author") or "an agent", item.string("recipient")
    to = f" to {recipient}" if recipient else ""
    heading: ContentPart = {"type": "text", "text": f"[Message from {author}{to}:]"}
    said = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return InputMessage("user", merged([heading, *said]))


def _of_the_turn(_: Reader, __: RequestObject) -> None:
    """See `turn_items`."""


def _compaction(reader: Reader, item: RequestObject) -> ConversationItem:
    """Only the provider that made it can open it.  Clients send it in every turn, so the
    conversation could not go on if it were refused."""
    summary = open_sealed(item.get("encrypted_content"))
    if summary is not None:
        return InputMessage("user", f"[Summary of the conversation so far:]\n{summary}")
    kind = f"item {label(item.get('type'))}"
    if text := text_of(item.get("summary")):
        reader.evidence.note("sent as text", kind)
        return InputMessage("user", text)
    reader.evidence.note("lost", f"context in {kind}")
    return InputMessage("user", LOST_CONTEXT)


def _hosted(reader: Reader, item: RequestObject, kind: str) -> ConversationItem | None:
    text = remark(kind, item)
    if not text:
        reader.evidence.note("dropped", f"item {kind}")
        return None
    reader.evidence.note("sent as text", f"item {kind}")
    return InputMessage("user", text) if kind in FROM_THE_CLIENT else Remark(text)


def _unknown(reader: Reader, item: RequestObject, kind: str) -> ConversationItem | None:
    """Its text, if it has any: said by whom its role or, for a call, its name says."""
    text = text_of(item.values)
    if not text:
        reader.evidence.note("dropped", f"item {label(kind)}")
        return None
    reader.evidence.note("sent as text", f"item {label(kind)}")
    role = item.get("role")
    if role in ("system", "developer"):
        return InputMessage(role, text)
    if role == "assistant" or (role is None and kind.endswith("_call")):
        return Remark(text)
    return InputMessage("user", text)


def _call_id(item: RequestObject) -> str:
    return item.string("call_id") or ""


def _action(item: RequestObject) -> str:
    """Its fields as arguments; its type is the tool's, and null is an absent field."""
    values: Mapping[str, Any] = item.plain_object("action") or {}
    fields = {key: value for key, value in values.items() if key != "type" and value is not None}
    return dumps(fields).decode()


_ITEMS: Mapping[str, Callable[[Reader, RequestObject], _Read]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _output,
    "tool_call": _tool_call,
    "custom_tool_call": _custom_tool_call,
    "custom_tool_call_output": _output,
    "local_shell_call": _local_shell_call,
    "local_shell_call_output": _local_shell_call_output,
    "shell_call": _shell_call,
    "shell_call_output": _shell_call_output,
    "apply_patch_call": _apply_patch_call,
    "apply_patch_call_output": _apply_patch_call_output,
    "tool_search_call": _tool_search_call,
    "tool_search_output": _tool_search_output,
    "additional_tools": _additional_tools,
    "item_reference": _item_reference,
    "agent_message": _agent_message,
    "configuration_update": _of_the_turn,
    "compaction_trigger": _of_the_turn,
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "context_compaction": _compaction,
}
