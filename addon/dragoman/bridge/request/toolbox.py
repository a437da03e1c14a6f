"""The tools of a request: declared in the Responses API, sent as chat functions; and the choice of
those that the model may or must call, which names only functions that are sent along.

The upstream name of a tool depends on its own name and namespace alone, never on what else is
declared.  So a call in the history has the same name in every turn, also after its tool was
withdrawn, and the messages stay a prefix of the next turn's.  The price is that two tools can meet
in one name; that is refused, naming both.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from ...notes import Evidence
from ...reply.turn_context import Tool, ToolKind
from ...wire.errors import Refused
from ...wire.json_codec import Json
from ..host_requirements import Family
from .tool_schemas import FUNCTIONS, without_encrypted
from .validation import RequestObject, label, missing, present, unsupported, wrong_type

_KINDS: dict[str, ToolKind] = {kind: kind for kind in get_args(ToolKind)}
_NAMED = ("function", "custom")
"""Kinds whose tools have names; the others are named after their kind."""
_DEFAULT_NAMESPACE = "functions"
"""Codex treats a call in it and a call in no namespace as the same call."""


def upstream_name(name: str, namespace: str | None, family: Family) -> str:
    """The function name of a tool upstream: ``<namespace>__<name>``, or `name` alone, as the
    model's family takes it."""
    return family.sent_tool_name(_joined(name, namespace))


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
        self.tools: dict[str, Tool] = {}
        """By the names that they have upstream."""
        self._functions: dict[str, Json] = {}

    def chat_tools(self, allowed: frozenset[str] | None = None) -> list[Json]:
        """The ``tools`` of the chat request; with `allowed`, only those named in it."""
        return [
            {"type": "function", "function": {"name": name, **function}}
            for name, function in self._functions.items()
            if allowed is None or name in allowed
        ]

    def named(self, choice: RequestObject) -> list[str]:
        """The upstream names of the tools that a choice means; empty if they were dropped."""
        type_ = choice.required_string("type")
        kind = _KINDS.get(type_)
        if kind is None and type_ != "namespace":
            self._cannot_serve(type_, choice.at("type"))
            return []
        name, namespace = type_, None
        if kind is None or kind in _NAMED:
            name, namespace = choice.required_string("name"), choice.string("namespace")
        if names := self._find(kind, name, namespace):
            return names
        message = f"'{choice.path}': tool '{label(name)}' is not among the tools."
        raise Refused(message, param=choice.path)

    def _find(self, kind: ToolKind | None, name: str, namespace: str | None) -> list[str]:
        """The upstream name of a declared tool, whose namespace may be left out if only one tool
        has the name; without a kind, those of all tools in the namespace `name`."""
        tools = self.tools.items()
        if kind is None:
            return [upstream for upstream, tool in tools if tool.namespace == name]
        upstream = upstream_name(name, namespace, self.family)
        if upstream in self.tools and self.tools[upstream].kind == kind:
            return [upstream]
        found = [upstream for upstream, tool in tools if (tool.kind, tool.name) == (kind, name)]
        return found if len(found) == 1 and not namespace else []

    def declare(
        self, tools: list[tuple[str, Any]], namespace: str | None = None, about: str | None = None
    ) -> list[str]:
        """Add the tools of an array (as `RequestObject.array` gives it); returns the names they
        have upstream.

        Raises `Refused` for a malformed tool, for two that would have the same name, and
        for one no chat upstream can serve if those are to be errors.
        """
        names: list[str] = []
        for path, value in tools:
            tool = RequestObject.of(value, path)
            type_ = tool.required_string("type")
            kind = _KINDS.get(type_)
            is_misplaced = namespace is not None and kind not in _NAMED
            if type_ == "namespace" and namespace is None:
                names += self._declare_namespace(tool)
            elif kind is None or is_misplaced or _runs_at_provider(kind, tool):
                self._cannot_serve(type_, tool.at("type"))
            else:
                # The description of a namespace goes with its first tool, to be sent once.
                names.append(self._declare(tool, kind, namespace, None if names else about))
        return names

    def _declare_namespace(self, holder: RequestObject) -> list[str]:
        name, about = holder.required_string("name"), holder.string("description")
        names = self.declare(holder.array("tools"), name, about)
        if names and name != _DEFAULT_NAMESPACE:
            self._evidence.note("flattened", f"namespace {label(name)}")
        return names

    def _declare(
        self, tool: RequestObject, kind: ToolKind, namespace: str | None, about: str | None
    ) -> str:
        function = FUNCTIONS[kind](tool)
        parameters = without_encrypted(function["parameters"])
        encrypted = parameters != function["parameters"]
        function = {**function, "parameters": parameters}
        if about:
            remark = f"(About all {namespace} tools: {about})"
            description = f"{function.pop('description', '')}\n\n{remark}".lstrip()
            function = {"description": description, **function}
        name = tool.required_string("name") if kind in _NAMED else kind
        if tool.boolean("defer_loading"):
            self._evidence.note("loaded at once", "tools with defer_loading")
        if encrypted:
            self._evidence.note("left out", f"encrypted in the schema of {label(name)}")
        return self._add(Tool(kind, name, namespace, encrypted), function, tool.path)

    def _cannot_serve(self, kind: str, path: str) -> None:
        """A tool that runs at the provider, or is unknown: recorded, or refused."""
        if self._unsupported == "error":
            tool = f"a tool of type '{label(kind)}'"
            reason = f"{tool} cannot be served by an upstream that only speaks Chat Completions."
            raise unsupported(path, reason)
        self._evidence.note("dropped", f"tool {label(kind)}")

    def _add(self, tool: Tool, function: Json, path: str) -> str:
        name = upstream_name(tool.name, tool.namespace, self.family)
        other = self.tools.setdefault(name, tool)
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


def tool_fields(request: RequestObject, toolbox: Toolbox, evidence: Evidence) -> Json:
    """Tools, which of them to call, and how; empty without tools, as hosts refuse an empty array
    and a choice among nothing."""
    choice, allowed = _choice(request, toolbox, evidence)
    parallel = request.boolean("parallel_tool_calls")
    tools = toolbox.chat_tools(allowed)
    if not tools:
        if choice not in (None, "auto", "none"):
            evidence.note("dropped", "tool_choice without tools")
        return {}
    return present(tools=tools, tool_choice=choice, parallel_tool_calls=parallel)


def _choice(
    request: RequestObject, toolbox: Toolbox, evidence: Evidence
) -> tuple[str | Json | None, frozenset[str] | None]:
    """``tool_choice`` for the upstream, and the upstream names of the tools to be sent, None for
    all.  A choice of a tool that was dropped becomes ``auto``."""
    value, path = request.get("tool_choice"), request.at("tool_choice")
    if value is None or value in ("auto", "none", "required"):
        return value, None
    if isinstance(value, str):
        raise _invalid(value, path)
    if not isinstance(value, dict):
        raise wrong_type(value, "a string or an object", path)
    choice = RequestObject(value, path)
    if choice.string("type") == "allowed_tools":
        # OpenAI sends all tools and lets few be called; here only those few are sent, which every
        # chat upstream understands.
        mode = choice.string("mode") or "auto"
        if mode not in ("auto", "required"):
            raise _invalid(mode, choice.at("mode"))
        if choice.get("tools") is None:
            raise missing(choice.at("tools"))
        tools = [RequestObject.of(each, path) for path, each in choice.array("tools")]
        return mode, frozenset(name for tool in tools for name in toolbox.named(tool))
    names = toolbox.named(choice)
    if not names:
        evidence.note("downgraded to auto", f"tool_choice {label(choice.get('type'))}")
        return "auto", None
    if len(names) > 1:
        return "required", frozenset(names)
    return {"type": "function", "function": {"name": names[0]}}, None


def _invalid(value: str, path: str) -> Refused:
    return Refused(f"Invalid value for '{path}': '{label(value)}'.", param=path)
