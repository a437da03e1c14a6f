"""Converts a request of Anthropic's Messages API to a chat completions request.

The same conversation gives the same bytes, and the messages of one turn begin with those of the
turn before.  What a chat upstream cannot do is recorded; where silence would change the meaning,
refused.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any, Literal

from ...messages import names as api
from ...messages.tools import (
    PLACEHOLDER,
    MessagesTool,
    name_added,
    tool_changes,
    tools_added,
    tools_declared,
)
from ...notes import Evidence
from ...reply.turn_context import Tool, TurnContext
from ...wire.errors import Refused
from ...wire.json_codec import Json, dumps, objects, string
from ..anthropic_blocks import system_text
from ..conversation import InputMessage
from ..cure.tool_names import ToolNames
from ..host_requirements import Family, family_of
from .chat_messages import Layout
from .conversion import Conversion, converted
from .messages_history import MessageReader
from .toolbox import Toolbox, upstream_name
from .validation import (
    RequestObject,
    invalid_value,
    label,
    missing,
    present,
    unsupported,
    wrong_type,
)

_UNSUPPORTED = Literal["drop", "error"]


def convert_messages(
    body: object, *, unsupported: _UNSUPPORTED, evidence: Evidence
) -> Generator[None, None, Conversion]:
    """The chat request of a Messages request (`body`, any JSON value), or of a request that its
    tokens be counted.

    `unsupported` says what becomes of tools that only Anthropic's servers run.  Yields where others
    may have their turn.  Raises `Refused`, and nothing else, for what is malformed or cannot be
    served.
    """
    request = _checked(body)
    model = request.required_string("model")
    family = family_of(model)
    tools = tools_declared(dict(request.values))
    toolbox = Toolbox(family, unsupported=unsupported, evidence=evidence)
    declared = {tool.name for tool in tools}
    missed = _missed(request.array("tools"), declared, toolbox)
    added = [("a tool_addition", tool) for tool in tools_added(request.get("messages"))]
    missed_later = _missed(added, declared, toolbox)
    for tool in _in_order(tools, request):
        toolbox.declare([(f"tool {label(tool.name)}", _function(tool))])
        yield
    names = ToolNames(family.bridged, evidence)
    layout, reader = Layout(family, names, evidence), MessageReader(family, evidence, declared)
    messages = yield from _messages(request, missed, layout, reader)
    effort, thinks = _effort(request, family, evidence)
    echoed = {name: value for name, value in request.values.items() if name != "messages"}
    turn = TurnContext(echoed, model, request.boolean("stream") is True, {}, thinks)
    fields = RequestObject(_fields(request, [*missed, *missed_later], evidence))
    conversion = yield from converted(
        fields, turn, messages, toolbox, names=names, effort=effort, evidence=evidence
    )
    _record_ignored(request, evidence)
    return _with_deferred(conversion, tools, family)


def _checked(body: object) -> RequestObject:
    if not isinstance(body, dict):
        raise Refused("The request body must be a JSON object.", code="invalid_type")
    request = RequestObject(body)
    if not request.required_string("model"):
        raise missing("model")
    if request.get("thread") is not None:
        reason = "Threads are not kept here. Send all messages of the conversation."
        raise Refused(f"'thread': {reason}", param="thread", code="thread_unsupported_request")
    if not request.array("messages"):
        raise missing("messages")
    if not isinstance(system := request.get("system"), (str, list, type(None))):
        raise wrong_type(system, "a string or an array", "system")
    return request


# Messages

_CONTINUE = "Continue your last message from where it ends. Do not repeat any of it."
"""For models that cannot be given the beginning of their answer."""


def _messages(
    request: RequestObject,
    missed: list[str],
    layout: Layout,
    reader: MessageReader,
) -> Generator[None, None, list[Json]]:
    """The messages of the chat request: one of the system's, with what precedes all others."""
    given = [RequestObject.of(value, path) for path, value in request.array("messages")]
    first = next((at for at, each in enumerate(given) if each.get("role") != "system"), len(given))
    texts = [system_text(holder.get("content"), reader.tools) for holder in given[:first]]
    texts = [system_text(request.get("system")), *texts, _not_here(missed)]
    if system := "\n\n".join(filter(None, texts)):
        layout.feed(InputMessage("system", system))
    for message in given[first:]:
        is_silent = True
        for piece in reader.read(message):
            layout.feed(piece)
            is_silent = False
            yield
        if is_silent and message.get("role") == "assistant":
            layout.end_reply()
            layout.history.skip_reply()
        yield
    layout.end_reply()
    messages = layout.history.end_segment()
    if not messages:
        raise Refused("'messages' say nothing.", param="messages")
    latest = messages[-1]
    if latest["role"] == "assistant" and not latest.get("tool_calls"):
        reader.evidence.note("continued", "the assistant's last message")
        if prefill := reader.family.prefill:
            messages[-1] = latest | {prefill: True}
        else:
            messages.append({"role": "user", "content": _CONTINUE})
    return messages


def _not_here(missed: list[str]) -> str:
    """What the model should know of tools that it is not given: it would make up their results."""
    if not missed:
        return ""
    named = ", ".join(dict.fromkeys(missed))
    return f"[Not available here: {named}. Where it is needed, say so; do not make up its results.]"


# Tools


def _missed(given: Iterable[tuple[str, Any]], declared: set[str], toolbox: Toolbox) -> list[str]:
    """The names of the tools that Anthropic's servers run: recorded, or refused.  Refuses malformed
    ones of the client's.  `given`: each with its path."""
    missed = []
    for path, value in given:
        tool = RequestObject.of(value, path)
        name = tool.string("name") or ""
        tool.plain_object("input_schema")
        tool.string("description")
        if name in declared or name == PLACEHOLDER:
            continue
        kind = tool.string("type")
        if kind in (None, "custom", "function"):
            raise missing(tool.at("input_schema" if name else "name"))
        toolbox.declare([(path, {"type": kind})])
        missed.append(name or str(kind))
    return missed


def _in_order(tools: list[MessagesTool], request: RequestObject) -> list[MessagesTool]:
    """The tools of the request as they are declared: those that were loaded later last, in the
    order in which they were, those of before a compaction first.  Claude Code sends all in the
    order of the alphabet."""
    loaded = {name: at for at, name in enumerate(_references(request.get("messages")))}

    def place(tool: MessagesTool) -> int:
        return loaded.get(tool.name, -1) if tool.is_loaded_later else -2

    return sorted((tool for tool in tools if tool.kind != "deferred"), key=place)


def _references(messages: object) -> dict[str, None]:
    """The tools that outputs have named as loaded, or the client has added, each once."""
    found: dict[str, None] = {}
    for message in objects(messages):
        for block in objects(message.get("content")):
            for inner in objects(block.get("content")) if block.get("type") == api.RESULT else ():
                if inner.get("type") == "tool_reference":
                    found.setdefault(string(inner.get("tool_name")))
        for name in map(name_added, tool_changes([message])):
            found.setdefault(name)
    return found


def _function(tool: MessagesTool) -> Json:
    """A tool as the Responses API has it."""
    schema, about = tool.schema, string(tool.tool.get("description"))
    if isinstance(schema, dict):
        schema = {name: value for name, value in schema.items() if name != "$schema"}
    if examples := objects(tool.tool.get("input_examples")):
        lines = "\n".join(dumps(each).decode() for each in examples)
        about = f"{about}\n\nExamples of its input:\n{lines}".lstrip()
    return {"type": "function", "name": tool.name, "description": about, "parameters": schema}


def _with_deferred(conversion: Conversion, tools: list[MessagesTool], family: Family) -> Conversion:
    """Also with the tools that the client runs though it only names them."""
    named = {
        upstream_name(tool.name, None, family): Tool("function", tool.name)
        for tool in tools
        if tool.kind == "deferred"
    }
    turn = replace(conversion.turn, tools={**named, **conversion.turn.tools})
    only = {*named, *(tool.name for tool in named.values())}
    return replace(conversion, turn=turn, only_named=frozenset(only))


# All other fields, by their names in the Responses API


def _fields(request: RequestObject, missed: list[str], evidence: Evidence) -> Json:
    choice = request.object("tool_choice")
    return present(
        tools=request.get("tools"),
        tool_choice=None if choice is None else _choice(choice, missed, evidence),
        parallel_tool_calls=False if choice and choice.boolean(_ONE_CALL) else None,
        max_output_tokens=request.integer("max_tokens"),
        temperature=request.number("temperature"),
        top_p=request.number("top_p"),
        top_k=request.integer("top_k"),
        stop=request.strings("stop_sequences") or None,
        text=_text(request),
        stream=request.boolean("stream"),
    )


_ONE_CALL = "disable_parallel_tool_use"
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def _choice(choice: RequestObject, missed: list[str], evidence: Evidence) -> str | Json:
    kind = choice.required_string("type")
    if kind in _CHOICES:
        return _CHOICES[kind]
    if kind != "tool":
        raise invalid_value(kind, choice.at("type"), "'auto', 'any', 'tool' and 'none'")
    name = choice.required_string("name")
    if name in missed:
        evidence.note("downgraded to auto", f"tool_choice {label(name)}")
        return "auto"
    return {"type": "function", "name": name}


def _text(request: RequestObject) -> Json | None:
    """The form of the answer; ``output_format`` is the field's older name."""
    config = request.object("output_config")
    form = config.object("format") if config else None
    form = form or request.object("output_format")
    if form is None:
        return None
    if (kind := form.required_string("type")) != "json_schema":
        raise unsupported(form.at("type"), f"a chat upstream has no format '{label(kind)}'.")
    schema = form.plain_object("schema")
    if schema is None:
        raise missing(form.at("schema"))
    return {"format": {"type": "json_schema", "name": "answer", "schema": schema}}


_BANDS = ((4_000, "low"), (16_000, "medium"))
"""Efforts by the tokens of a budget that is smaller."""
_LARGER = ("xhigh", "max")


def _effort(request: RequestObject, family: Family, evidence: Evidence) -> tuple[str | None, bool]:
    """The effort in the words of the Responses API, None for the host's own, and whether the client
    asks for thoughts."""
    thinking, config = request.object("thinking"), request.object("output_config")
    kind = thinking.required_string("type") if thinking else None
    if kind == "disabled":
        if family.thinking_off is None and not family.efforts:
            evidence.note("left out", f"thinking disabled ({family.name})")
            return None, False
        return "none", False
    if kind not in (None, "enabled", "adaptive"):
        raise invalid_value(str(kind), "thinking.type", "'enabled', 'adaptive' and 'disabled'")
    effort = config.string("effort") if config else None
    budget = thinking.integer("budget_tokens") if thinking else None
    if effort is None and kind == "enabled" and budget is not None:
        effort = next((each for limit, each in _BANDS if budget < limit), "high")
    if effort in _LARGER and not family.efforts and effort != family.highest_effort:
        evidence.note("changed", f"effort {effort} to {family.highest_effort} ({family.name})")
        effort = family.highest_effort
    return effort, kind is not None or effort is not None


_READ = {
    *("model", "messages", "system", "tools", "tool_choice", "max_tokens", "stop_sequences"),
    *("temperature", "top_p", "top_k", "stream", "thinking", "output_config", "output_format"),
    # Of no meaning upstream: who the user is, and what only Anthropic's servers do.
    *("metadata", "cache_control", "service_tier", "safeguards", "betas"),
}


def _record_ignored(request: RequestObject, evidence: Evidence) -> None:
    for name, value in request.values.items():
        if name not in _READ and value is not None and not (name == _EDITS and _keeps_all(value)):
            evidence.note("dropped", f"field {label(name)}")


_EDITS = "context_management"


def _keeps_all(management: object) -> bool:
    """Whether nothing is to be done: Claude Code sends ``{"keep": "all"}``."""
    edits = objects(management.get("edits")) if isinstance(management, dict) else []
    return all(edit.get("keep") == "all" for edit in edits)
