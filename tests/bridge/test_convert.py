"""A whole Responses request as a chat request: its top-level fields."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.request.convert import convert_request
from dragoman.notes import Evidence
from dragoman.wire.json_codec import dumps

from .converting import Json, convert, converted, function, with_fields

FIXTURES = Path(__file__).parents[2] / "fixtures"
PAIRS = sorted(folder for folder in FIXTURES.glob("bridge_*") if (folder / "chat.json").exists())


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


def test_a_choice_of_no_tool_forbids_calls_where_there_are_none_to_send() -> None:
    """They would be made of text: see `repair.call_rule`."""
    body = {"model": "kimi-k2.5", "input": "x", "tools": [], "tool_choice": "none"}
    made = convert(body, unsupported="drop", evidence=Evidence())
    assert "tool_choice" not in made.chat
    assert made.declared().forbidden


def test_others_have_their_turn_after_each_item_and_tool() -> None:
    tools = [function(f"f{number}") for number in range(30)]
    body = {"model": "m", "input": [{"role": "user", "content": "x"}] * 20, "tools": tools}
    steps = convert_request(body, unsupported="drop", evidence=Evidence())
    assert sum(1 for _ in steps) >= 50
