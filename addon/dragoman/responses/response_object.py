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

from ..reply.turn_context import TurnContext
from ..wire.json_codec import Json, objects

_SERVICE_TIERS = ("auto", "default", "flex", "scale", "priority")
"""The tiers of the API reference; clients validate the field against them."""


def snapshot(turn: TurnContext, response_id: str, created_at: int) -> Json:
    """The response object before anything has come from upstream."""
    request = turn.request
    text, metadata = _typed(request, "text", dict, {}), _typed(request, "metadata", dict, {})
    instructions, tier = request.get("instructions"), request.get("service_tier")
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "incomplete_details": None,
        "model": turn.model,
        "previous_response_id": _typed(request, "previous_response_id", str, None),
        "instructions": instructions if isinstance(instructions, str | list) else None,
        "output": [],
        "error": None,
        "tools": _tools(request),
        "tool_choice": _tool_choice(request),
        "truncation": "auto" if request.get("truncation") == "auto" else "disabled",
        "parallel_tool_calls": _typed(request, "parallel_tool_calls", bool, True),
        "text": {"format": {"type": "text"}} | _present(text),
        "top_p": _number(request, "top_p", 1.0),
        "presence_penalty": _number(request, "presence_penalty", 0.0),
        "frequency_penalty": _number(request, "frequency_penalty", 0.0),
        "top_logprobs": _typed(request, "top_logprobs", int, 0),
        "temperature": _number(request, "temperature", 1.0),
        "reasoning": _reasoning(request),
        "usage": None,
        "max_output_tokens": _typed(request, "max_output_tokens", int, None),
        "max_tool_calls": _typed(request, "max_tool_calls", int, None),
        "store": _typed(request, "store", bool, True),
        "background": False,
        "service_tier": tier if tier in _SERVICE_TIERS else "default",
        "metadata": {name: value for name, value in metadata.items() if isinstance(value, str)},
        "safety_identifier": _typed(request, "safety_identifier", str, None),
        "prompt_cache_key": _typed(request, "prompt_cache_key", str, None),
    }


def _typed(request: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A field that has this type exactly (a bool is no int), else the default."""
    value = request.get(name)
    return value if type(value) is kind else default


def _number(request: Mapping[str, Any], name: str, default: float) -> float:
    value: float = _typed(request, name, int, _typed(request, name, float, default))
    return value if isinstance(value, int) or math.isfinite(value) else default


def _tools(request: Mapping[str, Any]) -> list[Json]:
    """The declared tools; of a function all four fields, null where the client had none."""
    function = {"type": "function", "description": None, "parameters": None, "strict": None}
    return [
        function | tool if tool.get("type") == "function" else tool
        for tool in objects(request.get("tools"))
    ]


def _tool_choice(request: Mapping[str, Any]) -> str | Json:
    value = request.get("tool_choice")
    return value if isinstance(value, str | dict) and value else "auto"


def _reasoning(request: Mapping[str, Any]) -> Json:
    """Always both keys, even null: clients of the published descriptions look for them. They know
    no effort that is a number, as Codex has it."""
    reasoning: Json = _typed(request, "reasoning", dict, {})
    if not isinstance(reasoning.get("effort"), str):
        reasoning = reasoning | {"effort": None}
    return {"effort": None, "summary": None} | _present(reasoning)


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
