"""The tools of a Responses request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools, ToolLookup, is_json_form, tools_by_id
from ..reply.turn_context import Tool
from ..responses.names import STREAMED_CALLS
from ..wire.errors import Refused
from ..wire.json_codec import Json, array, objects, string
from .host_requirements import Family
from .request.toolbox import Toolbox

_ANY_NAME = Family("any", "", tool_name=re.compile(".+", re.DOTALL))
"""A host that speaks the API itself shows the model a tool under its own name."""


@dataclass(frozen=True, slots=True)
class ResponsesTools:
    """The declared tools, as repair and as the client knows them."""

    declared: DeclaredTools
    names: ToolLookup[Tool]
    requested: bool
    """Whether there was a request that could be read; else the response repeats it."""

    @classmethod
    def of_request(cls, request: object) -> ResponsesTools:
        """From a request's body, or a response, which repeats it.  An unreadable request declares
        nothing."""
        body: Json = request if isinstance(request, dict) else {}
        toolbox = Toolbox(_ANY_NAME, unsupported="drop", evidence=Evidence())
        for tool in _tools(body):
            with suppress(Refused):  # the host may understand it
                toolbox.declare([("tools", tool)])
        items = objects(body.get("input"))
        calls = (item for item in items if item.get("type") in STREAMED_CALLS)
        functions = [tool["function"] for tool in toolbox.chat_tools()]
        schemas = {function["name"]: function.get("parameters") for function in functions}
        names, text = ToolLookup(toolbox.tools), body.get("text")
        declared = DeclaredTools(
            schemas,
            aliases=names.aliases,
            model=string(body.get("model")),
            forbidden=body.get("tool_choice") == "none",
            wants_json=is_json_form(text.get("format") if isinstance(text, dict) else None),
            called=tools_by_id((string(i.get("call_id")), string(i.get("name"))) for i in calls),
        )
        return cls(declared, names, isinstance(request, dict))

    def repeated_in(self, response: Json) -> ResponsesTools:
        """Those of the request that a response repeats."""
        return self.of_request(response)


def _tools(body: Json) -> Iterator[Any]:
    """The tools of the request, and of items that add some (Codex)."""
    adding = (item for item in objects(body.get("input")) if item.get("type") == "additional_tools")
    for holder in (body, *adding):
        yield from array(holder.get("tools"))
