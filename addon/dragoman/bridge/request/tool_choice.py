"""``tool_choice``: which tools the model may or must call.

The invariant: what is sent names only functions that are sent along.  A choice that cannot be
kept (a hosted tool) becomes ``auto`` and is recorded; one that names nothing declared is refused,
as at OpenAI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...notes import Evidence
from ...wire.errors import Refused
from .toolbox import KINDS, NAMED, Toolbox
from .validation import RequestObject, label, wrong_type

_MODES = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    value: str | dict[str, Any] | None
    """None: the client chose nothing."""
    allowed: frozenset[str] | None = None
    """The upstream names of the tools to be sent; None for all."""


def read_choice(request: RequestObject, toolbox: Toolbox, evidence: Evidence) -> ToolChoice:
    """Raises `Refused` for a malformed choice and for a tool that is not declared."""
    value, path = request.get("tool_choice"), request.at("tool_choice")
    if value is None:
        return ToolChoice(None)
    if isinstance(value, str):
        if value not in _MODES:
            raise _invalid(value, path)
        return ToolChoice(value)
    if not isinstance(value, dict):
        raise wrong_type(value, "a string or an object", path)
    choice = RequestObject(value, path)
    if choice.string("type") == "allowed_tools":
        return _allowed(choice, toolbox)
    names = _named(choice, toolbox)
    if not names:
        evidence.note("downgraded to auto", f"tool_choice {label(choice.get('type'))}")
        return ToolChoice("auto")
    if len(names) > 1:
        return ToolChoice("required", frozenset(names))
    return ToolChoice({"type": "function", "function": {"name": names[0]}})


def _allowed(choice: RequestObject, toolbox: Toolbox) -> ToolChoice:
    """OpenAI sends all tools and lets few be called; here only those few are sent,
    which every chat upstream understands."""
    mode = choice.string("mode") or "auto"
    if mode not in ("auto", "required"):
        raise _invalid(mode, choice.at("mode"))
    tools = [RequestObject.of(value, path) for path, value in choice.array("tools")]
    return ToolChoice(mode, frozenset(name for tool in tools for name in _named(tool, toolbox)))


def _named(choice: RequestObject, toolbox: Toolbox) -> list[str]:
    """The upstream names of the tools a choice means; empty if they were dropped."""
    type_ = choice.required_string("type")
    if type_ == "namespace":
        namespace = choice.required_string("name")
        if names := toolbox.members(namespace):
            return names
        raise _undeclared(namespace, choice.path)
    kind = KINDS.get(type_)
    if kind is None:
        toolbox.cannot_serve(type_, choice.at("type"))
        return []
    is_named = kind in NAMED
    name = choice.required_string("name") if is_named else kind
    upstream = toolbox.find(kind, name, choice.string("namespace") if is_named else None)
    if upstream is None:
        raise _undeclared(name, choice.path)
    return [upstream]


def _invalid(value: str, path: str) -> Refused:
    return Refused(f"Invalid value for '{path}': '{label(value)}'.", param=path)


def _undeclared(name: str, path: str) -> Refused:
    return Refused(f"'{path}': tool '{label(name)}' is not among the tools.", param=path)
