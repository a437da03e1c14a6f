"""A chat request that its host would refuse, in the form that it takes.

The table of model families says what is refused.  A request is changed only there and only
as far as that takes; what needs no change stays the very object that came, so that a request
can leave as its own bytes.  The same request gives the same bytes, and the messages of one
turn begin with those of the turn before (`chat_history`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from ...notes import Evidence
from ...wire.json_codec import Json
from ..host_requirements import Family
from .chat_history import accepted_messages, with_member
from .moonshot_schema import TooLarge, moonshot_schema
from .tool_names import ToolNames

SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class Cured:
    """A request as it may be sent."""

    request: Json
    """The object that came, if nothing was changed."""
    tool_names: ToolNames
    """For the reply."""


def cure_request(request: Json, family: Family, evidence: Evidence) -> Generator[None, None, Cured]:
    """A chat request as the hosts of a family take it; yields after each message and tool.  Nothing
    is refused here: what has a wrong type stays as it is, for the host to judge."""
    names = ToolNames(family, evidence)
    cured = request
    if isinstance(messages := request.get("messages"), list):
        messages = yield from accepted_messages(messages, family, names, evidence)
        cured = with_member(cured, "messages", messages)
    cured = with_member(cured, "tools", (yield from _tools(request, family, names, evidence)))
    if family.refuses.schemas:
        cured = with_member(cured, "response_format", _response_format(request, evidence))
    cured = with_member(cured, "tool_choice", _tool_choice(request, family, names, evidence))
    thinks = family.thinks(request)
    for name in SAMPLING:
        if not family.accepts(name, request.get(name), thinks=thinks):
            evidence.note("dropped", f"field {name} ({family.name})")
            cured = {key: value for key, value in cured.items() if key != name}
    return Cured(cured, names)


def _tools(
    request: Json, family: Family, names: ToolNames, evidence: Evidence
) -> Generator[None, None, Any]:
    def accepted(function: Json) -> Json:
        if family.refuses.schemas:
            schema, where = function.get("parameters"), f"tool {function.get('name')}"
            schema = accepted_schema(schema, where, evidence)
            function = with_member(function, "parameters", schema)
        return _named(function, names)

    tools = request.get("tools")
    if not isinstance(tools, list):
        return tools
    sent = []
    for tool in tools:
        sent.append(with_inner(tool, "function", accepted))
        yield
    return sent


def _response_format(request: Json, evidence: Evidence) -> Any:
    def accepted(holder: Json) -> Json:
        schema = accepted_schema(holder.get("schema"), "response_format", evidence)
        return with_member(holder, "schema", schema)

    return with_inner(request.get("response_format"), "json_schema", accepted)


def _tool_choice(request: Json, family: Family, names: ToolNames, evidence: Evidence) -> Any:
    """A model that thinks refuses to be forced to call."""
    choice = request.get("tool_choice")
    is_tool = isinstance(choice, dict) and choice.get("type") != "allowed_tools"
    if not (is_tool or choice == "required"):
        return choice
    if family.forced_tool_choice or not family.thinks(request):
        return with_inner(choice, "function", lambda function: _named(function, names))
    what = "tool_choice of a function" if is_tool else "tool_choice required"
    evidence.note("downgraded to auto", f"{what} ({family.name})")
    return "auto"


def _named(function: Json, names: ToolNames) -> Json:
    """A function with the name that is sent."""
    name = function.get("name")
    return with_member(function, "name", names.sent(name) if isinstance(name, str) else name)


def accepted_schema(schema: Any, where: str, evidence: Evidence) -> Any:
    """A schema in Moonshot's subset; `where` it stands, for the record."""
    if not isinstance(schema, dict):
        return schema
    try:
        accepted, left_out = moonshot_schema(schema)
    except TooLarge:
        evidence.note("left as it is", f"the large schema of {where}")
        return schema
    except Exception:  # an odd schema is the host's to judge; the rest is cured
        evidence.note("left as it is", f"the odd schema of {where}")
        return schema
    if accepted is not schema:
        evidence.note("rewritten for Moonshot", f"the schema of {where}")
    for keyword in left_out:
        evidence.note("left out", f"{keyword} in the schema of {where}")
    return accepted


def with_inner(holder: Any, name: str, change: Callable[[Json], Json]) -> Any:
    """`holder` with its object `name` changed; the same object if there is nothing to change."""
    inner = holder.get(name) if isinstance(holder, dict) else None
    return with_member(holder, name, change(inner)) if isinstance(inner, dict) else holder
