"""What a finish reason means, in whatever words a host says it."""

from __future__ import annotations

from typing import Literal

IncompleteReason = Literal["max_output_tokens", "content_filter"]
TurnEnd = Literal["completed"] | IncompleteReason
# Finish reasons of OpenAI and Anthropic, and the other words for them that hosts are known to use.
# An unknown one is the end of a whole turn, recorded.
FINISHES: dict[str, TurnEnd | Literal["failed"]] = {
    "stop": "completed",
    "tool_calls": "completed",
    "function_call": "completed",
    "eos": "completed",
    "end_turn": "completed",
    "tool_use": "completed",
    "stop_sequence": "completed",
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "model_length": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "content_filter",
    "error": "failed",
    "abort": "failed",
    "network_error": "failed",
    "insufficient_system_resource": "failed",
}


def meaning(finish: object) -> str:
    """What a finish reason means, by `FINISHES`; an unknown one ends a whole turn."""
    return FINISHES.get(finish, "completed") if isinstance(finish, str) else "completed"


def is_whole(finish: object) -> bool:
    """Whether a turn with this finish reason was complete: not cut by a limit, not failed."""
    return meaning(finish) == "completed"
