"""The four ways in which Responses clients differ, each a record of choices.

A dialect is read by the writer and never asked what it is: no code branches on its
name.  `OPENAI` is what the official SDKs expect; the others exist because a client
or a published description needs something that the official SDKs refuse.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One column of choices."""

    name: str
    ping: bool
    """Heartbeats are `ping` events; otherwise an official event that says nothing new."""
    required_action: bool
    """A turn that called tools ends with `response.required_action` and then a
    `response.completed` whose status is ``incomplete``."""
    reasoning_summary: bool
    """Reasoning comes as the text of a summary part; otherwise as `response.reasoning.delta`."""
    tool_call_items: bool
    """Function calls are ``tool_call`` items with a ``function`` object in them, known by
    their call id; otherwise ``function_call`` items."""
    done_marker: bool
    """The stream ends with ``data: [DONE]``."""
    every_error_code: bool
    """The response's ``error.code`` may be one that only Codex knows; otherwise it is of the
    API's own list, against which OpenAI's types are checked."""


OPENAI = Dialect(
    "openai",
    ping=False,
    required_action=False,
    reasoning_summary=True,
    tool_call_items=False,
    done_marker=False,
    every_error_code=False,
)
CODEX = Dialect(
    "codex",
    ping=True,
    required_action=True,
    reasoning_summary=True,
    tool_call_items=False,
    done_marker=False,
    every_error_code=True,
)
OPENRESPONSES = Dialect(
    "openresponses",
    ping=False,
    required_action=False,
    reasoning_summary=False,
    tool_call_items=False,
    done_marker=True,
    every_error_code=False,
)
GUIDE = Dialect(
    "guide",
    ping=True,
    required_action=False,
    reasoning_summary=False,
    tool_call_items=True,
    done_marker=False,
    every_error_code=False,
)

DIALECTS = {dialect.name: dialect for dialect in (OPENAI, CODEX, OPENRESPONSES, GUIDE)}


def choose(option: str, *, originator: str, user_agent: str) -> Dialect:
    """The dialect of a client: `option` if it names one, else by its request headers.

    Codex names itself in both headers (``codex_exec``, ``codex_cli_rs``, ``codex-tui``).
    """
    if option in DIALECTS:
        return DIALECTS[option]
    headers = (originator.lower(), user_agent.lower())
    return CODEX if any(header.startswith("codex") for header in headers) else OPENAI
