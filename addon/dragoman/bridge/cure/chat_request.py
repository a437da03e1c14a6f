"""A chat request that its host would refuse, in the form that it takes.

The table of model families says what is refused.  A request is changed only there and only
as far as that takes; what needs no change is the very object that came, so that a request
can leave as its own bytes.  The same request gives the same bytes, and the messages of one
turn begin with those of the turn before (`chat_history`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...wire.json_codec import Json
from ...wire.slices import Slices
from ..model_families import Family
from .chat_history import accepted_messages
from .moonshot_schema import TooLarge, moonshot_schema
from .tool_names import ToolNames

SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
Notes = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Cured:
    """A request as it may be sent, and what was changed in it."""

    request: Json
    """The object that came, if nothing was."""
    notes: tuple[tuple[str, str], ...]
    """What was done and to what, as `notes.Evidence` takes it; once for each time."""
    tool_names: ToolNames
    """For the reply."""


def curing(request: Json, family: Family) -> Slices[Cured]:
    """A chat request as the hosts of a family take it.  Nothing is refused here: what has a wrong
    type stays as it is, for the host to judge."""
    notes: Notes = []
    names = ToolNames(family, notes)
    changed: Json = {}
    messages = request.get("messages")
    if isinstance(messages, list):
        made = yield from accepted_messages(messages, family, names, notes)
        if made is not messages:
            changed["messages"] = made
    changed |= yield from _tools(request, family, names, notes)
    if family.refuses.schemas:
        changed |= _response_format(request, notes)
    changed |= _choice(request, family, names, notes)
    left_out = _refused_sampling(request, family)
    for name in left_out:
        notes.append(("dropped", f"field {name} ({family.name})"))
    if changed or left_out:
        fields = (request | changed).items()
        request = {name: value for name, value in fields if name not in left_out}
    return Cured(request, tuple(notes), names)


def _refused_sampling(request: Json, family: Family) -> list[str]:
    thinks = family.thinks(request)
    asked = ((name, request.get(name)) for name in SAMPLING)
    return [name for name, value in asked if not family.takes(name, value, thinks=thinks)]


def _choice(request: Json, family: Family, names: ToolNames, notes: Notes) -> Json:
    """A model that thinks refuses to be forced to call."""
    choice = request.get("tool_choice")
    if not (isinstance(choice, dict) or choice == "required"):
        return {}
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return {}
    if family.forced_tool_choice or not family.thinks(request):
        named = _named(choice, names)
        return {} if named is choice else {"tool_choice": named}
    what = "tool_choice required" if choice == "required" else "tool_choice of a function"
    notes.append(("downgraded to auto", f"{what} ({family.name})"))
    return {"tool_choice": "auto"}


def _tools(request: Json, family: Family, names: ToolNames, notes: Notes) -> Slices[Json]:
    """The tools, if one of them is changed."""
    tools = request.get("tools")
    if not isinstance(tools, list):
        return {}
    made = []
    for tool in tools:
        accepted = _tool(tool, notes) if family.refuses.schemas else tool
        made.append(_named(accepted, names))
        yield
    changed = any(new is not old for new, old in zip(made, tools, strict=True))
    return {"tools": made} if changed else {}


def _response_format(request: Json, notes: Notes) -> Json:
    wanted: Any = request.get("response_format")
    for holder in _nested(wanted, "json_schema"):
        schema = _schema(holder.get("schema"), "response_format", notes)
        if schema is not holder.get("schema"):
            return {"response_format": {**wanted, "json_schema": {**holder, "schema": schema}}}
    return {}


def _named(holder: Any, names: ToolNames) -> Any:
    """A tool, or the choice of one, with the name that is sent."""
    for function in _nested(holder, "function"):
        given = function.get("name")
        if isinstance(given, str) and (sent := names.sent(given)) != given:
            return {**holder, "function": {**function, "name": sent}}
    return holder


def _tool(tool: Any, notes: Notes) -> Any:
    for function in _nested(tool, "function"):
        schema = _schema(function.get("parameters"), f"tool {function.get('name')}", notes)
        if schema is not function.get("parameters"):
            return {**tool, "function": {**function, "parameters": schema}}
    return tool


def _nested(value: Any, name: str) -> Iterator[Json]:
    """The object of that name, if it is one."""
    inner = value.get(name) if isinstance(value, dict) else None
    if isinstance(inner, dict):
        yield inner


def _schema(schema: Any, where: str, notes: Notes) -> Any:
    if not isinstance(schema, dict):
        return schema
    try:
        made, left_out = moonshot_schema(schema)
    except TooLarge:
        notes.append(("left as it is", f"the large schema of {where}"))
        return schema
    except Exception:  # an odd schema is the host's to judge; the rest is cured
        notes.append(("left as it is", f"the odd schema of {where}"))
        return schema
    if made is not schema:
        notes.append(("rewritten for Moonshot", f"the schema of {where}"))
    notes += [("left out", f"{keyword} in the schema of {where}") for keyword in left_out]
    return made
