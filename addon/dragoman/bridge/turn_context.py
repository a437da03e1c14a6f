"""What one turn's request leaves behind for its reply.

A frozen record: the request side fills it, the reply side reads it, and nothing
else passes between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

ToolKind = Literal["function", "custom", "local_shell", "shell", "apply_patch", "tool_search"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the client declared it, and so as a call of it must come back."""

    kind: ToolKind
    name: str
    namespace: str | None = None
    """Set for a function declared inside a namespace; returned beside `name`."""
    encrypted: bool = False
    """Whether the client expects encrypted arguments, and is to be told that they are not."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """One Responses request, seen from its reply."""

    request: Mapping[str, Any]
    """The client's body without its ``input``, which may be large and is done with; every
    response snapshot echoes its fields."""
    model: str
    stream: bool
    """Whether the client asked for a stream (the body's ``stream``, absent: no)."""
    tools: Mapping[str, Tool]
    """The tools by the function name they have upstream."""
    thinks: bool = False
    """Whether the client asked for reasoning."""
    estimate: int = 0
    """Tokens that the upstream is sent, for one that does not count them."""
    summary: bool = False
    """Whether the reply is a summary of the conversation, to be returned as one item."""
