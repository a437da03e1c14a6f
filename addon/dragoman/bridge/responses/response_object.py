"""The response object: 31 fields, in every snapshot of every stream.

The Open Responses schema requires all of them in each `response.*` event; the AI SDK refuses an
object without ``id``, ``created_at`` and ``model``.  A field of the request is echoed if it has
the right type, else it has the API's default; the writer changes only the six fields that a turn
changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...wire.json_codec import Json
from ..turn_context import TurnContext

_SERVICE_TIERS = ("auto", "default", "flex", "scale", "priority")
"""The tiers of the API reference; clients validate the field against them."""


def snapshot(turn: TurnContext, response_id: str, created_at: int) -> Json:
    """The response object before anything has come from upstream."""
    ask = turn.request
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "incomplete_details": None,
        "model": turn.model,
        "previous_response_id": _string(ask, "previous_response_id"),
        "instructions": ask.get("instructions")
        if isinstance(ask.get("instructions"), str | list)
        else None,
        "output": [],
        "error": None,
        "tools": _tools(ask),
        "tool_choice": _tool_choice(ask),
        "truncation": "auto" if ask.get("truncation") == "auto" else "disabled",
        "parallel_tool_calls": _flag(ask, "parallel_tool_calls", default=True),
        "text": {"format": {"type": "text"}} | _present(_object(ask, "text")),
        "top_p": _number(ask, "top_p", 1.0),
        "presence_penalty": _number(ask, "presence_penalty", 0.0),
        "frequency_penalty": _number(ask, "frequency_penalty", 0.0),
        "top_logprobs": _integer(ask, "top_logprobs") or 0,
        "temperature": _number(ask, "temperature", 1.0),
        "reasoning": _reasoning(ask),
        "usage": None,
        "max_output_tokens": _integer(ask, "max_output_tokens"),
        "max_tool_calls": _integer(ask, "max_tool_calls"),
        "store": _flag(ask, "store", default=True),
        "background": False,
        "service_tier": tier if (tier := ask.get("service_tier")) in _SERVICE_TIERS else "default",
        "metadata": {k: v for k, v in _object(ask, "metadata").items() if isinstance(v, str)},
        "safety_identifier": _string(ask, "safety_identifier"),
        "prompt_cache_key": _string(ask, "prompt_cache_key"),
    }


def _string(ask: Mapping[str, Any], name: str) -> str | None:
    value = ask.get(name)
    return value if isinstance(value, str) else None


def _integer(ask: Mapping[str, Any], name: str) -> int | None:
    value = ask.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(ask: Mapping[str, Any], name: str, default: float) -> float:
    value = ask.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return value if isinstance(value, int) or math.isfinite(value) else default


def _flag(ask: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = ask.get(name)
    return value if isinstance(value, bool) else default


def _object(ask: Mapping[str, Any], name: str) -> Json:
    value = ask.get(name)
    return value if isinstance(value, dict) else {}


def _tools(ask: Mapping[str, Any]) -> list[Json]:
    """The declared tools; of a function all four fields, null where the client had none."""
    tools = ask.get("tools")
    if not isinstance(tools, list):
        return []
    function = {"type": "function", "description": None, "parameters": None, "strict": None}
    return [
        function | tool if tool.get("type") == "function" else tool
        for tool in tools
        if isinstance(tool, dict)
    ]


def _tool_choice(ask: Mapping[str, Any]) -> str | Json:
    value = ask.get("tool_choice")
    return value if isinstance(value, str | dict) and value else "auto"


def _reasoning(ask: Mapping[str, Any]) -> Json:
    """Always both keys, even null: clients of the published descriptions look for them. They know
    no effort that is a number, as Codex has it."""
    reasoning = _object(ask, "reasoning")
    if not isinstance(reasoning.get("effort"), str):
        reasoning = reasoning | {"effort": None}
    return {"effort": None, "summary": None} | _present(reasoning)


def _present(value: Json) -> Json:
    return {name: field for name, field in value.items() if field is not None}
