"""``tool_choice``: which tools the model may or must call.

The invariant: what leaves names only functions that are sent along.  A choice that
cannot be kept (a hosted tool) becomes ``auto`` and is recorded; one that names nothing
declared is refused, as at OpenAI.
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
    """The chat ``tool_choice`` and the tools it leaves."""

    value: str | dict[str, Any] | None
    """None: the client chose nothing."""
    allowed: frozenset[str] | None = None
    """The upstream names of the only tools to be sent; None for all."""


def read_choice(request: RequestObject, toolbox: Toolbox, evidence: Evidence) -> ToolChoice:
    """The choice of a Responses request.

    Raises `Refused` for a malformed choice and for a tool that is not declared.
    """
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
    names = [
        name
        for path, value in choice.array("tools")
        for name in _named(RequestObject.of(value, path), toolbox)
    ]
    return ToolChoice(mode, frozenset(names))


def _named(choice: RequestObject, toolbox: Toolbox) -> list[str]:
    """The upstream names of the tool a choice means; none for one that was dropped."""
    kind = choice.required_string("type")
    if kind == "namespace":
        namespace = choice.required_string("name")
        if names := toolbox.members(namespace):
            return names
        raise _undeclared(namespace, choice.path)
    known = KINDS.get(kind)
    if known is None:
        toolbox.cannot_serve(kind, choice.at("type"))
        return []
    if known in NAMED:
        name = choice.required_string("name")
        found = toolbox.find(known, name, choice.string("namespace"))
    else:
        name = kind
        found = toolbox.find(known, name, None)
    if found is None:
        raise _undeclared(name, choice.path)
    return [found]


def _invalid(value: str, path: str) -> Refused:
    return Refused(f"Invalid value for '{path}': '{label(value)}'.", param=path)


def _undeclared(name: str, path: str) -> Refused:
    return Refused(f"'{path}': tool '{label(name)}' is not among the tools.", param=path)
