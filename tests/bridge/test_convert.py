"""A whole Responses request as a chat request: every top-level field, every refusal."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.bridge.model_families import family_of
from dragoman.bridge.request.convert import convert
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.wire.errors import Refused
from dragoman.wire.json_codec import dumps

from .converting import Converted, Json, call, converted, function, output, refusal, thought, user

FIXTURES = Path(__file__).parents[2] / "fixtures"
PAIRS = sorted(folder for folder in FIXTURES.glob("bridge_*") if (folder / "chat.json").exists())
K2 = "accounts/fireworks/models/kimi-k2p6-turbo"


def with_fields(model: str = "some-model", **fields: Any) -> Converted:
    return converted({"model": model, "input": "hi", **fields})


# ---------------------------------------------------------------- whole requests


@pytest.mark.parametrize("folder", PAIRS, ids=lambda folder: folder.name)
def test_a_fixture_becomes_the_chat_request_beside_it(folder: Path) -> None:
    body = json.loads((folder / "request.json").read_text())
    wanted = json.loads((folder / "chat.json").read_text())
    assert dumps(converted(body).chat) == dumps(wanted)


def test_there_are_fixtures() -> None:
    assert len(PAIRS) >= 8


def test_the_client_body_is_not_changed_and_goes_to_the_reply_side_without_its_input() -> None:
    body = json.loads((FIXTURES / "bridge_codex_second_turn" / "request.json").read_text())
    before = copy.deepcopy(body)
    conversion = convert(body, unsupported="drop", evidence=Evidence())
    assert body == before
    del before["input"]
    assert conversion.turn.request == before
    assert (conversion.turn.model, conversion.turn.stream) == ("kimi-k2.5", True)


def test_the_tokens_that_the_upstream_is_sent_are_estimated() -> None:
    def estimate(content: Any, earlier: Any = ()) -> int:
        body = {"model": "kimi-k2", "input": [{"role": "user", "content": content}]}
        conversion = convert(body, unsupported="drop", evidence=Evidence(), earlier=earlier)
        return conversion.turn.estimate

    assert 900 < estimate("x " * 2000) < 1100
    assert 900 < estimate("x", [{"role": "user", "content": "x " * 2000}]) < 1100
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 4_000_000}
    assert 100 < estimate([image]) < 5000, "not by its base64"


def test_the_second_turn_of_codex_begins_with_the_bytes_of_the_first() -> None:
    first, second = (
        dumps(json.loads((FIXTURES / f"bridge_codex_{turn}_turn" / "chat.json").read_text()))
        for turn in ("first", "second")
    )
    assert second.startswith(first[: first.index(b'],"tools"')])


# ---------------------------------------------------------------- fields


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"max_output_tokens": 5}, {"max_tokens": 5}),
        ({"temperature": 0.5, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
        (
            {"presence_penalty": 0.1, "frequency_penalty": -1},
            {"presence_penalty": 0.1, "frequency_penalty": -1},
        ),
        ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
        ({"top_logprobs": 0}, {}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning_effort": "high"}),
        ({"reasoning": {"summary": "auto"}}, {}),
        ({"reasoning": None}, {}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"user": "u"}, {"user": "u"}),
        ({"safety_identifier": "s"}, {"safety_identifier": "s"}),
        ({"prompt_cache_key": "k"}, {"prompt_cache_key": "k"}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        (
            {"text": {"format": {"type": "json_object"}}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "n",
                        "schema": {"type": "object"},
                        "strict": True,
                        "description": "d",
                    }
                }
            },
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "description": "d",
                        "schema": {"type": "object"},
                        "strict": True,
                    },
                }
            },
        ),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        ({"stream": False}, {}),
        ({"stream": None}, {}),
        # Never upstream: they say nothing to a chat host.
        ({"store": False, "include": ["reasoning.encrypted_content"]}, {}),
        ({"client_metadata": {"a": "b"}}, {}),
        ({"background": False, "truncation": "disabled", "previous_response_id": None}, {}),
        # Not of the Responses API, but what chat engines are told.
        ({"seed": 1, "stop": ["x"], "top_k": 2}, {"seed": 1, "stop": ["x"], "top_k": 2}),
        ({"thinking": {"type": "disabled"}}, {"thinking": {"type": "disabled"}}),
    ],
)
def test_a_field_becomes_its_chat_field_and_leaves_no_note(fields: Json, sent: Json) -> None:
    made = with_fields(**fields)
    rest = {k: v for k, v in made.chat.items() if k not in ("model", "messages")}
    assert rest == sent
    assert made.notes == []


def test_parallel_tool_calls_go_with_tools() -> None:
    made = with_fields(tools=[function("f")], parallel_tool_calls=False)
    assert made.chat["parallel_tool_calls"] is False


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"truncation": "auto"}, "ignored truncation auto"),
        ({"max_tool_calls": 3}, "dropped field max_tool_calls"),
        ({"context_management": []}, "dropped field context_management"),
        ({"stream_options": {"include_obfuscation": False}}, "dropped field stream_options"),
        ({"n": 2}, "dropped field n"),
        ({"field_of_2030\n": 1}, "dropped field field_of_2030?"),
    ],
)
def test_what_has_no_place_upstream_is_recorded(fields: Json, note: str) -> None:
    made = with_fields(**fields)
    assert set(made.chat) == {"model", "messages"}
    assert made.notes == [note]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("kimi-k2.5", "max_tokens"),
        ("gpt-5.4", "max_completion_tokens"),
        ("openai/o4-mini", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("gpt-oss-120b", "max_tokens"),
    ],
)
def test_the_token_limit_has_the_name_the_family_knows(model: str, name: str) -> None:
    assert with_fields(model, max_output_tokens=7).chat[name] == 7


@pytest.mark.parametrize("model", [K2, "kimi-k3", "kimi-for-coding"])
def test_kimi_models_of_fixed_sampling_get_no_sampling_parameters(model: str) -> None:
    made = with_fields(
        model, temperature=0.7, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.2
    )
    assert set(made.chat) == {"model", "messages"}
    assert len([note for note in made.notes if note.startswith("dropped field")]) == 4


def test_other_kimi_models_keep_sampling_parameters() -> None:
    assert with_fields("kimi-k2-0905-preview", temperature=0.6).chat["temperature"] == 0.6


@pytest.mark.parametrize(("effort", "sent"), [("low", "low"), ("medium", "high"), ("xhigh", "max")])
def test_k3_gets_an_effort_it_knows(effort: str, sent: str) -> None:
    made = with_fields("kimi-k3", reasoning={"effort": effort})
    assert made.chat["reasoning_effort"] == sent
    assert bool(made.notes) == (effort != sent)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("kimi-k2-0905-preview", "kimi-k2"),
        ("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
        ("kimi-k2-turbo-preview", "kimi-k2"),
        ("moonshot-v1-128k", "kimi-k2"),
        ("kimi-k2-thinking-turbo", "kimi-k2-thinking"),
        ("moonshot.kimi-k2-thinking", "kimi-k2-thinking"),
        ("k2-thinking", "kimi-k2-thinking"),
        ("kimi-k2.5", "kimi-k2.5"),
        ("moonshotai/Kimi-K2.5-TEE", "kimi-k2.5"),
        ("moonshotai/kimi-k2.6:nitro", "kimi-k2.5"),
        ("k2.6", "kimi-k2.5"),
        (K2, "kimi-k2.5"),
        ("kimi-k2.7-code", "kimi-k2.7"),
        ("accounts/fireworks/models/kimi-k3", "kimi-k3"),
        ("moonshotai/K3", "kimi-k3"),
        ("kimi-for-coding", "kimi"),
        ("kimi-latest", "kimi"),
        ("LLM360/K2-Think", "other"),
        ("deepseek-chat", "deepseek"),
        ("deepseek/deepseek-v4-flash", "deepseek"),
        ("accounts/fireworks/models/deepseek-v3p2", "deepseek"),
        ("deepseek-ai/DeepSeek-R1", "other"),
        ("deepseek-v3-0324", "other"),
        ("DeepSeek-R1-Distill-Qwen-32B", "qwen"),
        ("openai/gpt-oss-120b", "gpt-oss"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax"),
        ("qwen3.6:27b", "qwen"),
        ("Qwen/QwQ-32B", "qwen"),
        ("gpt-5.4-mini", "openai"),
    ],
)
def test_a_model_name_has_its_family(model: str, family: str) -> None:
    assert family_of(model).name == family


# ---------------------------------------------------------------- refusals


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


# ---------------------------------------------------------------- fuzz

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(st.characters(codec=None), max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
RICH: Json = {
    "model": "kimi-k2.5",
    "instructions": "Help.",
    "input": [
        user([{"type": "input_image", "image_url": {"url": "u", "detail": "low"}}]),
        thought("hm"),
        call("a", "f", namespace="n"),
        output("a", [{"type": "input_image", "image_url": "u"}, {"type": "text", "text": "t"}]),
        {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "i"},
        {"type": "local_shell_call", "call_id": "c", "action": {"command": ["ls"]}},
        {"type": "shell_call", "call_id": "d", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "call_id": "e", "operation": {"type": "x", "path": "p"}},
        {"type": "apply_patch_call_output", "call_id": "e", "status": "completed"},
        {"type": "tool_search_call", "call_id": "s", "arguments": {"query": "q"}},
        {"type": "tool_search_output", "call_id": "s", "tools": [function("found")]},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "shell"}]},
        {"role": "user", "content": [{"type": "input_file", "filename": "f", "file_data": "d"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    ],
    "tools": [
        function("f", strict=True, description="d"),
        {"type": "custom", "name": "c", "format": {"type": "grammar", "definition": "g"}},
        {"type": "namespace", "name": "n", "description": "d", "tools": [function("g")]},
        {"type": "tool_search", "execution": "client"},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "shell"}]},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "low"},
    "metadata": {"a": "b"},
    "temperature": 1,
    "include": ["message.output_text.logprobs"],
    "stream": True,
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON value, in which something could be replaced."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


def converts_or_refuses(body: Any) -> None:
    for unsupported in ("drop", "error"):
        evidence = Evidence()
        try:
            conversion = convert(body, unsupported=unsupported, evidence=evidence)
        except Refused as refused:
            assert refused.status == 400
        else:
            dumps(conversion.chat)
            assert conversion.chat["messages"]
        assert all(line.isprintable() for line in evidence.lines())


@settings(deadline=None)
@given(JSON)
def test_any_json_is_converted_or_refused(body: Any) -> None:
    converts_or_refuses(body)


@settings(max_examples=100)
@given(st.data())
def test_a_rich_request_with_anything_in_any_place_is_converted_or_refused(
    data: st.DataObject,
) -> None:
    body = copy.deepcopy(RICH)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(body)))
        if data.draw(st.booleans()):
            container[key] = data.draw(JSON)
        elif isinstance(container, dict):
            del container[key]
        else:
            container.pop(key)
        if not body:
            break
    converts_or_refuses(body)


def test_the_rich_request_itself_is_converted() -> None:
    names = [tool.name for tool in converted(RICH).tools.values()]
    assert names == ["f", "c", "g", "tool_search", "found", "shell"]


def test_a_choice_of_no_tool_forbids_calls_where_there_are_none_to_send() -> None:
    """They would be made of text: see `repair.call_rule`."""
    body = {"model": "kimi-k2.5", "input": "x", "tools": [], "tool_choice": "none"}
    made = convert(body, unsupported="drop", evidence=Evidence())
    assert "tool_choice" not in made.chat
    assert DeclaredTools.of_request(made.declaring).forbidden
