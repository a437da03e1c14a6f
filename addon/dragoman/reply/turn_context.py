"""What one turn's reply needs of its request. Nothing else passes between the two sides."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ToolKind = Literal["function", "custom", "local_shell", "shell", "apply_patch", "tool_search"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the client declared it, and so as a call of it must come back."""

    kind: ToolKind
    name: str
    namespace: str | None = None
    """Of a function declared inside a namespace; returned beside `name`."""
    encrypted: bool = False
    """Whether the client expects encrypted arguments, and has to learn that they are not."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """One Responses request, seen from its reply."""

    request: Mapping[str, Any]
    """The client's body without its ``input``, echoed in each snapshot."""
    model: str
    stream: bool
    """Whether the client asked for a stream (the body's ``stream``, absent: no)."""
    tools: Mapping[str, Tool]
    """The tools by the function name they have upstream."""
    thinks: bool = False
    """Whether the client asked for reasoning."""
    estimate: int = 0
    """Estimated tokens of the request, for upstreams that do not count."""
    summary: bool = False
    """Whether the reply is a summary, to be returned as one item."""
    called: Container[str] = ()
    """The ids of the calls in the conversation, the client's and those that were sent."""
