"""The tools of a Responses request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...repair.tool_index import ToolIndex
from ...wire.errors import Refused
from ...wire.json_codec import Json, array, objects, string
from ...wire.responses import STREAMED_CALLS
from ...wire.slices import Slices
from ..model_families import Family
from ..reply.tool_lookup import ToolLookup
from ..request.toolbox import Toolbox
from ..turn_context import Tool

_ANY_NAME = Family("any", "", tool_name=re.compile(".+", re.DOTALL))
"""A host that speaks the API itself shows the model a tool under its own name."""


@dataclass(frozen=True, slots=True)
class RequestTools:
    """The declared tools, as repair and as the client knows them."""

    declared: DeclaredTools
    names: ToolLookup
    requested: bool
    """Whether there was a request that could be read; else the response repeats it."""

    @classmethod
    def reading(cls, request: object) -> Slices[RequestTools]:
        """From a request's body, or a response, which repeats it; in slices.  An unreadable
        request declares nothing."""
        body: Json = request if isinstance(request, dict) else {}
        toolbox = Toolbox(_ANY_NAME, unsupported="drop", evidence=Evidence())
        called: dict[str, str] = {}
        for tool in _tools(body):
            with suppress(Refused):  # the host may understand it
                toolbox.declare([("tools", tool)])
            yield
        for item in objects(body.get("input")):
            call_id, name = item.get("call_id"), item.get("name")
            if (
                item.get("type") in STREAMED_CALLS
                and isinstance(call_id, str)
                and isinstance(name, str)
            ):
                # An id that two tools share means nothing.
                called[call_id] = name if called.setdefault(call_id, name) == name else ""
            yield
        functions = [tool["function"] for tool in toolbox.chat_tools()]
        schemas = {function["name"]: function.get("parameters") for function in functions}
        index = ToolIndex(schemas)
        yield from index.indexing()
        declared = DeclaredTools(
            {**_spellings(toolbox.tools, schemas), **schemas},
            model=string(body.get("model")),
            forbidden=body.get("tool_choice") == "none",
            called={call_id: name for call_id, name in called.items() if name},
            index=index,
        )
        return cls(declared, ToolLookup(toolbox.tools), isinstance(request, dict))


def _spellings(tools: Mapping[str, Tool], schemas: Mapping[str, object]) -> dict[str, object]:
    """The tools of namespaces by the other names that hosts give them."""
    names = Counter(tool.name for tool in tools.values())
    spellings: dict[str, object] = {}
    for key, tool in tools.items():
        if tool.namespace is not None:
            spellings[f"{tool.namespace}.{tool.name}"] = schemas[key]
            if names[tool.name] == 1:
                spellings[tool.name] = schemas[key]
    return spellings


def _tools(body: Json) -> Iterator[Any]:
    """The tools of the request, and of items that add some (Codex)."""
    adding = (item for item in objects(body.get("input")) if item.get("type") == "additional_tools")
    for holder in (body, *adding):
        yield from array(holder.get("tools"))
