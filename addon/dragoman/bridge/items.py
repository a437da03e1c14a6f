"""Input items of a Responses request, each read into one piece of a conversation.

A table by item type.  Reading an item needs nothing but the item (and the toolbox it
may declare tools in), so the same item gives the same piece in every turn; how pieces
become messages is `history`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..evidence import Evidence
from ..jsonio import NotJson, dumps, loads
from .content import (
    Part,
    json_text,
    output_content,
    readable_text,
    text_content,
    user_content,
)
from .envelope import open_sealed
from .errors import Refused
from .fields import Fields, label, missing
from .tools import Toolbox, upstream_name


@dataclass(frozen=True, slots=True)
class Heard:
    """A message of the user or of the system."""

    role: Literal["system", "user"]
    content: str | list[Part]


@dataclass(frozen=True, slots=True)
class Said:
    """Text of the assistant, a refusal too."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning of the assistant."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call of the assistant."""

    call_id: str
    """As the client has it; "" if it sent none."""
    name: str
    """The function's name upstream."""
    arguments: str
    """The text of a JSON object."""
    item_id: str = ""
    """Set for a call that may be answered by the id of its item."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a tool returned."""

    call_id: str
    text: str
    media: list[Part] = field(default_factory=list)


Piece = Heard | Said | Thought | Called | Answered


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads items; keeps nothing of them but the tools they declare."""

    toolbox: Toolbox
    evidence: Evidence

    def read(self, value: object, path: str) -> Piece | None:
        """The piece of an item; None for one that is none (recorded unless it only
        declares tools).  Raises `Refused`."""
        item = Fields.of(value, path)
        kind = item.string("type")
        if kind is None:
            kind = _untyped(item)
        if read := _ITEMS.get(kind):
            return read(self, item)
        self.evidence.note("dropped", f"item {label(kind)}")
        return None

    def name(self, item: Fields) -> str:
        """The upstream name of the function or custom tool an item calls."""
        return upstream_name(
            item.required_string("name"), item.string("namespace"), self.toolbox.family
        )

    def arguments(self, value: object, item: Fields, name: str) -> str:
        """A JSON object's text, kept to the byte if it is one.

        Engines parse the arguments of past calls, and one that was cut off would make
        every later request of the thread fail; so what is no object is wrapped in one.
        """
        if value is None or value == "":
            return "{}"
        if isinstance(value, dict):
            return json_text(value, item.at("arguments"))
        text = item.required_string("arguments")
        try:
            if isinstance(loads(text), dict):
                return text
        except NotJson:
            pass
        self.evidence.note("wrapped", f"invalid arguments of {name}")
        return dumps({"invalid_arguments": text}).decode()


def _untyped(item: Fields) -> str:
    """A message may lack its type, and so may a reference."""
    if "role" in item.values:
        return "message"
    if "id" in item.values:
        return "item_reference"
    raise missing(item.at("type"))


def _message(reader: Reader, item: Fields) -> Piece:
    role, content, path = item.required_string("role"), item.get("content"), item.at("content")
    match role:
        case "user":
            return Heard("user", user_content(content, path, reader.evidence))
        case "system" | "developer":
            return Heard("system", text_content(content, path, reader.evidence, joint="\n"))
        case "assistant":
            return Said(text_content(content, path, reader.evidence, joint=""))
        case _:
            raise Refused(
                f"Invalid value for '{item.at('role')}': '{label(role)}'. Supported values are: "
                "'assistant', 'system', 'developer', and 'user'.",
                param=item.at("role"),
                code="invalid_value",
            )


def _reasoning(_: Reader, item: Fields) -> Piece:
    """The sealed text; else, for a foreign or lost envelope, what can be read."""
    sealed = open_sealed(item.get("encrypted_content"))
    if sealed is not None:
        return Thought(sealed)
    for name in ("content", "summary"):
        if text := readable_text(item.get(name), joint="\n\n"):
            return Thought(text)
    return Thought("")


def _function_call(reader: Reader, item: Fields) -> Piece:
    name = reader.name(item)
    return Called(_call_id(item), name, reader.arguments(item.get("arguments"), item, name))


def _tool_call(reader: Reader, item: Fields) -> Piece:
    """A function call as the dialect `guide` has it; its clients answer the item's id."""
    function = item.object("function")
    if function is None:
        raise missing(item.at("function"))
    named = Fields({**item.values, **function.values}, function.path)
    name = reader.name(named)
    arguments = reader.arguments(named.get("arguments"), named, name)
    return Called(_call_id(item), name, arguments, item.string("id") or "")


def _custom_tool_call(reader: Reader, item: Fields) -> Piece:
    text = dumps({"input": item.string("input") or ""}).decode()
    return Called(_call_id(item), reader.name(item), text)


def _local_shell_call(_: Reader, item: Fields) -> Piece:
    text = _without_type(item, "action")
    return Called(_call_id(item), "local_shell", text, item.string("id") or "")


def _shell_call(_: Reader, item: Fields) -> Piece:
    return Called(_call_id(item), "shell", _without_type(item, "action"))


def _apply_patch_call(_: Reader, item: Fields) -> Piece:
    operation = item.plain_object("operation") or {}
    return Called(_call_id(item), "apply_patch", json_text(operation, item.at("operation")))


def _tool_search_call(reader: Reader, item: Fields) -> Piece | None:
    """One the provider ran has no place here: its result is in the tools."""
    if item.string("execution") == "server":
        reader.evidence.note("dropped", "item tool_search_call")
        return None
    text = reader.arguments(item.get("arguments"), item, "tool_search")
    return Called(_call_id(item), "tool_search", text)


def _output(_: Reader, item: Fields) -> Piece:
    text, media = output_content(item.get("output"), item.at("output"))
    return Answered(_call_id(item), text, media)


def _local_shell_call_output(_: Reader, item: Fields) -> Piece:
    """Its reference has an ``id`` alone, which is the call's; clients send ``call_id``."""
    text, media = output_content(item.get("output"), item.at("output"))
    return Answered(_call_id(item) or item.string("id") or "", text, media)


def _apply_patch_call_output(_: Reader, item: Fields) -> Piece:
    report = {name: item.string(name) for name in ("status", "output")}
    report = {name: value for name, value in report.items() if value is not None}
    return Answered(_call_id(item), json_text(report, item.path))


def _tool_search_output(reader: Reader, item: Fields) -> Piece | None:
    """Declares what was found, and tells the model what it is called now."""
    names = reader.toolbox.declare(item.array("tools"))
    if item.string("execution") == "server":
        return None
    return Answered(_call_id(item), dumps({"loaded_tools": names}).decode())


def _additional_tools(reader: Reader, item: Fields) -> None:
    reader.toolbox.declare(item.array("tools"))


def _item_reference(_: Reader, item: Fields) -> Piece:
    """One that is kept has been replaced by now.  The words are OpenAI's: clients look for
    them, and send the item itself."""
    raise Refused(
        f"Item with id '{label(item.required_string('id'))}' not found. Items are not persisted "
        "when `store` is set to false. Try again with `store` set to true, or remove this item "
        "from your input.",
        param="input",
        status=404,
    )


def _compaction(_: Reader, item: Fields) -> Piece:
    """It stands for the conversation before it, so without it the rest makes no sense."""
    raise Refused(
        f"'{item.path}': a Chat Completions upstream cannot read a 'compaction' item, which only "
        "the provider that made it can open. Start a new conversation, or compact it by a "
        "summary in plain text.",
        param=item.path,
        code="unsupported_value",
    )


def _call_id(item: Fields) -> str:
    return item.string("call_id") or ""


def _without_type(item: Fields, name: str) -> str:
    """An object's fields as arguments; its type is the tool's, and null says nothing."""
    values: Mapping[str, Any] = item.plain_object(name) or {}
    fields = {key: value for key, value in values.items() if key != "type" and value is not None}
    return dumps(fields).decode()


_ITEMS: Mapping[str, Callable[[Reader, Fields], Piece | None]] = {
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
    "shell_call_output": _output,
    "apply_patch_call": _apply_patch_call,
    "apply_patch_call_output": _apply_patch_call_output,
    "tool_search_call": _tool_search_call,
    "tool_search_output": _tool_search_output,
    "additional_tools": _additional_tools,
    "item_reference": _item_reference,
    "compaction": _compaction,
    "compaction_summary": _compaction,
}
