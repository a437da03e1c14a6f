"""The four ways in which Responses clients differ, each a record of choices.

The writer reads the choices; no code branches on a dialect's name. `OPENAI` is what the official
SDKs expect; the others exist because a client or a published description needs something that the
official SDKs refuse.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One column of choices."""

    name: str
    ping: bool = False
    """Heartbeats are `ping` events; otherwise an official event without news."""
    required_action: bool = False
    """A turn that called tools ends with `response.required_action` and then a
    `response.completed` whose status is ``incomplete``."""
    reasoning_summary: bool = False
    """Reasoning comes as the text of a summary part; otherwise as `response.reasoning.delta`."""
    tool_call_items: bool = False
    """Function calls are ``tool_call`` items with a ``function`` object in them, known by
    their call id; otherwise ``function_call`` items."""
    done_marker: bool = False
    """The stream ends with ``data: [DONE]``."""
    every_error_code: bool = False
    """The response's ``error.code`` may be one that only Codex knows; otherwise it is of the
    API's own list, against which OpenAI's types are checked."""


OPENAI = Dialect("openai", reasoning_summary=True)
CODEX = Dialect(
    "codex", ping=True, required_action=True, reasoning_summary=True, every_error_code=True
)
OPENRESPONSES = Dialect("openresponses", done_marker=True)
GUIDE = Dialect("guide", ping=True, tool_call_items=True)

DIALECTS = {dialect.name: dialect for dialect in (OPENAI, CODEX, OPENRESPONSES, GUIDE)}


def choose(option: str, *, originator: str, user_agent: str) -> Dialect:
    """The dialect of a client: `option` if it names one, else by its request headers.

    Codex names itself in both headers (``codex_exec``, ``codex_cli_rs``, ``codex-tui``).
    """
    if option in DIALECTS:
        return DIALECTS[option]
    headers = (originator.lower(), user_agent.lower())
    return CODEX if any(header.startswith("codex") for header in headers) else OPENAI
