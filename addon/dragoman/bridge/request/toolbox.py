"""The tools of a request: declared in the Responses API, sent as chat functions.

The name a tool has upstream depends on its own name and namespace alone, never on
what else is declared.  So a call in the history has the same name in every turn,
also after its tool was withdrawn, and the messages stay a prefix of the next turn's.
The price is that two tools can meet in one name; that is refused, naming both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

from ...notes import Evidence
from ...wire.errors import Refused
from ..model_families import Family
from ..turn_context import Tool, ToolKind
from .tool_schemas import FUNCTIONS, Function, without_encrypted
from .validation import RequestObject, label

KINDS: Final[Mapping[str, ToolKind]] = {kind: kind for kind in get_args(ToolKind)}
NAMED: Final = ("function", "custom")
"""Kinds whose tools have names; the others are named after their kind."""
_DEFAULT_NAMESPACE: Final = "functions"
"""Codex treats a call in it and a call in no namespace as the same call."""


def upstream_name(name: str, namespace: str | None, family: Family) -> str:
    """The function name of a tool upstream: ``<namespace>__<name>``, or `name` alone, as the
    model's family takes it."""
    return family.tool_called(_joined(name, namespace))


def _joined(name: str, namespace: str | None) -> str:
    """Namespaces of MCP servers may end like the joint (``mcp__files__``)."""
    if not namespace or namespace == _DEFAULT_NAMESPACE:
        return name
    return f"{namespace.rstrip('_') or namespace}__{name}"


class Toolbox:
    """The tools of one request, in the order of their declaration.

    Filled by `declare`, from the request's ``tools`` and from items of its input.
    """

    def __init__(
        self, family: Family, *, unsupported: Literal["drop", "error"], evidence: Evidence
    ) -> None:
        self.family = family
        self._unsupported = unsupported
        self._evidence = evidence
        self._tools: dict[str, Tool] = {}
        self._functions: dict[str, Function] = {}

    @property
    def table(self) -> dict[str, Tool]:
        return dict(self._tools)

    def chat_tools(self, allowed: frozenset[str] | None = None) -> list[dict[str, Any]]:
        """The ``tools`` of the chat request; with `allowed`, only those named in it."""
        return [
            {"type": "function", "function": {"name": name, **function}}
            for name, function in self._functions.items()
            if allowed is None or name in allowed
        ]

    def find(self, kind: ToolKind, name: str, namespace: str | None) -> str | None:
        """The upstream name of a declared tool; its namespace may be left out if only one
        tool has the name."""
        upstream = upstream_name(name, namespace, self.family)
        if upstream in self._tools and self._tools[upstream].kind == kind:
            return upstream
        tools = () if namespace else self._tools.items()
        found = [upstream for upstream, tool in tools if (tool.kind, tool.name) == (kind, name)]
        return found[0] if len(found) == 1 else None

    def members(self, namespace: str) -> list[str]:
        return [name for name, tool in self._tools.items() if tool.namespace == namespace]

    def declare(self, tools: list[tuple[str, Any]]) -> list[str]:
        """Add the tools of an array (as `RequestObject.array` gives it); returns the names they
        have upstream.

        Raises `Refused` for a malformed tool, for two that would have the same name, and
        for one no chat upstream can serve if those are to be errors.
        """
        names: list[str] = []
        for path, value in tools:
            tool = RequestObject.of(value, path)
            kind = tool.required_string("type")
            is_namespace = kind == "namespace"
            names += self._declare_namespace(tool) if is_namespace else self._declare(tool, kind)
        return names

    def _declare_namespace(self, holder: RequestObject) -> list[str]:
        """The tools in a namespace; its own description goes with the first, to be sent once."""
        namespace = holder.required_string("name")
        about = holder.string("description")
        names: list[str] = []
        for path, value in holder.array("tools"):
            tool = RequestObject.of(value, path)
            kind = tool.required_string("type")
            names += self._declare(tool, kind, namespace, "" if names else about)
        if names and namespace != _DEFAULT_NAMESPACE:
            self._evidence.note("flattened", f"namespace {label(namespace)}")
        return names

    def _declare(
        self,
        tool: RequestObject,
        type_: str,
        namespace: str | None = None,
        about: str | None = None,
    ) -> list[str]:
        """`about`: the description of the namespace.  Returns the name, or none."""
        kind = KINDS.get(type_)
        is_misplaced = namespace is not None and kind not in NAMED
        if kind is None or is_misplaced or _runs_at_provider(kind, tool):
            self.cannot_serve(type_, tool.at("type"))
            return []
        function = FUNCTIONS[kind](tool)
        parameters = without_encrypted(function["parameters"])
        encrypted = parameters != function["parameters"]
        function = {**function, "parameters": parameters}
        if about:
            remark = f"(About all {namespace} tools: {about})"
            description = f"{function.pop('description', '')}\n\n{remark}".lstrip()
            function = {"description": description, **function}
        name = tool.required_string("name") if kind in NAMED else kind
        if tool.boolean("defer_loading"):
            self._evidence.note("loaded at once", "tools with defer_loading")
        if encrypted:
            self._evidence.note("left out", f"encrypted in the schema of {label(name)}")
        return [self._add(Tool(kind, name, namespace, encrypted), function, tool.path)]

    def cannot_serve(self, kind: str, path: str) -> None:
        """A tool that runs at the provider, or is unknown: recorded, or refused."""
        if self._unsupported == "error":
            raise Refused(
                f"'{path}': a tool of type '{label(kind)}' cannot be served by an upstream that "
                "only speaks Chat Completions.",
                param=path,
                code="unsupported_value",
            )
        self._evidence.note("dropped", f"tool {label(kind)}")

    def _add(self, tool: Tool, function: Function, path: str) -> str:
        name = upstream_name(tool.name, tool.namespace, self.family)
        other = self._tools.setdefault(name, tool)
        if other != tool:
            raise Refused(
                f"'{path}': {_described(tool)} and {_described(other)} would both be called "
                f"'{name}' by the upstream. Rename one of them.",
                param=path,
                code="invalid_value",
            )
        if name not in self._functions and name != _joined(tool.name, tool.namespace):
            self._evidence.note("renamed", f"tool {label(tool.name)} to {name}")
        if self._functions.setdefault(name, function) != function:
            self._functions[name] = function
            self._evidence.note("declared again, differently", f"tool {name}")
        return name


def _runs_at_provider(kind: ToolKind, tool: RequestObject) -> bool:
    """Whether a kind that clients can run is declared to be run by the provider."""
    match kind:
        case "tool_search":
            return tool.string("execution") != "client"
        case "shell":
            place = tool.object("environment")
            return place is not None and (place.string("type") or "").startswith("container")
        case _:
            return False


def _described(tool: Tool) -> str:
    place = f" in namespace '{label(tool.namespace)}'" if tool.namespace else ""
    return f"the {tool.kind} tool '{label(tool.name)}'{place}"
