"""What a request is refused for, by the name of the field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from .converting import Json, converted, refusal


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (None, None),
        ([], None),
        ("text", None),
        ({"input": "x"}, "model"),
        ({"model": None, "input": "x"}, "model"),
        ({"model": "", "input": "x"}, "model"),
        ({"model": 1, "input": "x"}, "model"),
        ({"model": "m"}, "input"),
        ({"model": "m", "input": 42}, "input"),
        ({"model": "m", "input": {}}, "input"),
        ({"model": "m", "input": True}, "input"),
        ({"model": "m", "input": []}, "input"),
        ({"model": "m", "input": ""}, "input"),
    ],
)
def test_a_request_without_model_or_input_is_refused(body: Any, param: str | None) -> None:
    assert refusal(body).param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
        ({"text": {"format": {}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ],
)
def test_what_silence_would_falsify_is_refused_by_name(fields: Json, param: str) -> None:
    refused = refusal({"model": "m", "input": "x", **fields})
    assert refused.param == param
    assert param in refused.message


def test_without_a_store_a_previous_response_is_one_that_is_not_found() -> None:
    refused = refusal({"model": "m", "input": "x", "previous_response_id": "resp_1"})
    assert (refused.status, refused.code) == (400, "previous_response_not_found")
    assert refused.message == "Previous response with id 'resp_1' not found."
    assert refused.param == "previous_response_id"


WRONG_TYPES: dict[str, list[Any]] = {
    "instructions": [1, [], {}],
    "tools": [1, "x", {}],
    "parallel_tool_calls": [1, "yes", {}],
    "text": [1, "x", []],
    "max_output_tokens": ["1", 1.5, True, {}],
    "temperature": ["1", True, [], math.inf, math.nan],
    "top_p": ["1", False, {}],
    "presence_penalty": ["1"],
    "frequency_penalty": [[]],
    "top_logprobs": ["1", 1.5, {}],
    "include": ["x", {}, 1],
    "reasoning": ["high", 1, []],
    "metadata": ["x", 1, []],
    "user": [1, {}, []],
    "safety_identifier": [1],
    "prompt_cache_key": [{}],
    "service_tier": [1, {}],
    "stream": ["true", 1, {}],
    "background": ["true", 1],
    "previous_response_id": [1, {}],
    "truncation": [1, {}, "automatic", ""],
    "store": ["yes", 1, []],
    "max_tool_calls": ["1", 1.5, True],
    "tool_choice": [1, True, []],
    "seed": ["x"],
    "logit_bias": [[]],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_TYPES.items() for value in values]
)
def test_a_field_of_a_wrong_type_is_refused_by_its_name(name: str, value: Any) -> None:
    refused = refusal({"model": "m", "input": "x", name: value})
    assert refused.param == name
    assert name in refused.message


METADATA: list[tuple[Any, str]] = [
    ({"a": 1}, "metadata.a"),
    ({"a": None}, "metadata.a"),
    ({"a": "x" * 513}, "metadata.a"),
    ({"k" * 65: "x"}, f"metadata.{'k' * 65}"),
    ({str(number): "x" for number in range(17)}, "metadata"),
]


@pytest.mark.parametrize(("metadata", "param"), METADATA)
def test_metadata_beyond_the_limits_of_the_api_is_refused(metadata: Any, param: str) -> None:
    refused = refusal({"model": "m", "input": "x", "metadata": metadata})
    assert refused.param == param
    assert refused.message.startswith("Invalid ")


def test_metadata_at_the_limits_of_the_api_is_sent() -> None:
    metadata = {f"{number:064}": "ü" * 512 for number in range(16)}
    assert converted({"model": "m", "input": "x", "metadata": metadata}).chat["metadata"] == (
        metadata
    )


@pytest.mark.parametrize("include", [[1], [None], ["x", {}]])
def test_an_include_that_names_nothing_is_refused_by_its_place(include: Any) -> None:
    refused = refusal({"model": "m", "input": "x", "include": include})
    assert refused.param == f"include[{len(include) - 1}]"


@pytest.mark.parametrize("path", ["text.format", "text.verbosity", "reasoning.effort"])
def test_a_nested_field_of_a_wrong_type_is_refused_by_its_path(path: str) -> None:
    outer, inner = path.split(".")
    assert refusal({"model": "m", "input": "x", outer: {inner: []}}).param == path
