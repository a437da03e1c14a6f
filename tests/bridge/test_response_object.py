"""The response object: 31 fields of the right types, whatever the request held."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.responses.response_object import snapshot
from dragoman.wire.json_codec import dumps

from .grammar import FIELDS, NUMBERS
from .replying import ended, run, text, turn

names = st.sampled_from(sorted(FIELDS - {"tools", "tool_choice", "text", "reasoning"}))
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def taken(request: dict[str, Any]) -> dict[str, Any]:
    return snapshot(turn(request), "resp_1", 1)


@given(st.dictionaries(names, values, max_size=6))
def test_a_field_of_another_type_gives_the_default(request: dict[str, Any]) -> None:
    request.pop("instructions", None)
    responses = pytest.importorskip("openai.types.responses")
    told = taken(request)
    assert told.keys() == FIELDS
    assert all(isinstance(told[name], int | float) for name in NUMBERS)
    responses.Response.model_validate(json.loads(json.dumps(told, allow_nan=False)), strict=True)


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), values, max_size=6))
def test_any_request_gives_a_stream(request: dict[str, Any]) -> None:
    told = taken(request)
    assert told.keys() == FIELDS
    json.loads(dumps(told), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("asked", "echoed"),
    [("flex", "flex"), ("priority", "priority"), ("0", "default"), ("", "default")],
)
def test_only_a_known_service_tier_is_echoed(asked: str, echoed: str) -> None:
    assert taken({"service_tier": asked})["service_tier"] == echoed


def test_what_the_client_asked_for_is_echoed() -> None:
    request = {
        "instructions": "Be brief.",
        "temperature": 0,
        "top_p": 0.5,
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "store": False,
        "prompt_cache_key": "k",
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
    }
    told = run([text("a"), *ended()], turn_=turn(request)).response
    same = {name: value for name, value in request.items() if name not in ("reasoning", "text")}
    assert {name: told[name] for name in same} == same
    assert told["reasoning"] == {"effort": "low", "summary": None}
    assert told["text"] == {"format": {"type": "text"}, "verbosity": "low"}


@pytest.mark.parametrize(
    ("tool", "echoed"),
    [
        (
            {"type": "function", "name": "f"},
            {
                "type": "function",
                "name": "f",
                "description": None,
                "parameters": None,
                "strict": None,
            },
        ),
        ({"type": "custom", "name": "c"}, {"type": "custom", "name": "c"}),
    ],
)
def test_tools_are_echoed_with_null_where_the_client_said_nothing(
    tool: dict[str, Any], echoed: dict[str, Any]
) -> None:
    assert taken({"tools": [tool, 3]})["tools"] == [echoed]
