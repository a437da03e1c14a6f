"""Replies in several choices, which are one turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.responses.dialects import Dialect

from .dialects import EVERY_DIALECT
from .replying import USAGE, call, chunk, ended, run, run_body, text, texts


def test_further_choices_are_dropped_and_recorded() -> None:
    got = run([text("a"), chunk({"content": "b"}, choice={"index": 1}), *ended()])
    assert texts(got) == ["a"]
    assert "dropped further choice" in got.noted


@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
def test_texts_of_two_choices_that_a_stream_mixes_are_not_joined(kind: str) -> None:
    said = [(1, "b"), (0, "a"), (1, "B"), (0, "A")]
    values = [of_choice(index, {kind: words}) for index, words in said]
    got = run([*values, of_choice(1, {"content": "."}), *ended()])
    assert texts(got)[-1] == ("bB." if kind == "content" else ".")
    assert got.evidence.notes["dropped", "further choice"] == 2


def of_choice(index: int, delta: Any, finish: Any = None) -> dict[str, Any]:
    return chunk(delta, finish, choice={"index": index})


def called(arguments: str, name: str = "echo", call_id: str = "c") -> dict[str, Any]:
    return {"tool_calls": [call(0, arguments, name=name, call_id=call_id)]}


TWO_CHOICES: dict[str, list[Any]] = {
    "one after the other": [
        of_choice(0, {"content": "Let me"}, "stop"),
        of_choice(1, called('{"a":')),
        of_choice(1, called("1}")),
        of_choice(1, {}, "tool_calls"),
    ],
    "mixed": [
        of_choice(0, {"content": "Let"}),
        of_choice(1, {"role": "assistant"}),
        of_choice(0, {"content": " me"}),
        of_choice(1, called('{"a":')),
        of_choice(0, {}, "stop"),
        of_choice(1, called("1}")),
        of_choice(1, {}, "tool_calls"),
    ],
    "one finish reason": [
        of_choice(0, {"content": "Let me"}),
        of_choice(1, called('{"a":1}')),
        of_choice(0, {}, "tool_calls"),
    ],
    "in one chunk": [
        chunk()
        | {
            "choices": [
                {"index": 0, "delta": {"content": "Let me"}, "finish_reason": "tool_calls"},
                {"index": 1, "delta": called('{"a":1}'), "finish_reason": "tool_calls"},
            ]
        }
    ],
    "text in the second": [
        of_choice(1, {"content": "Let me"}),
        of_choice(0, called('{"a":1}'), "tool_calls"),
    ],
}


@EVERY_DIALECT
@pytest.mark.parametrize("values", TWO_CHOICES.values(), ids=TWO_CHOICES)
def test_text_in_one_choice_and_a_call_in_another_are_one_turn(
    values: list[Any], dialect: Dialect
) -> None:
    got = run(values, dialect)
    message, made = sorted(got.output, key=lambda item: item["type"] != "message")
    assert (texts(got), message["status"]) == (["Let me"], "completed")
    assert json.loads(made.get("function", made)["arguments"]) == {"a": 1}


def test_text_and_a_call_in_two_choices_of_a_message_are_one_turn() -> None:
    choices = [
        {"index": 0, "message": {"content": "Let me"}, "finish_reason": "tool_calls"},
        {"index": 1, "message": called('{"a":1}'), "finish_reason": "tool_calls"},
        {"index": 2, "message": called('{"a":2}', call_id="d"), "finish_reason": "tool_calls"},
    ]
    got = run_body({"choices": choices, "usage": USAGE})
    assert [item["type"] for item in got.output] == ["message", *["function_call"] * 2]
    assert got.evidence.empty


@pytest.mark.parametrize("cut", ["", "{", '{"a":'])
def test_a_call_that_is_cut_in_another_choice_is_not_whole(cut: str) -> None:
    values = [of_choice(0, {"content": "Let me"}, "stop"), of_choice(1, called(cut))]
    assert run(values, done=False).broken
    got = run([*values, of_choice(1, {}, "length")])
    assert got.response["status"] == "incomplete"
    assert got.output[1]["status"] == "incomplete"


def test_calls_of_two_choices_are_numbered_by_each() -> None:
    values = [
        of_choice(0, called('{"a":')),
        of_choice(1, called('{"b":', "weather", "d")),
        of_choice(0, {"tool_calls": [call(0, "1}")]}),
        of_choice(1, {"tool_calls": [call(0, "2}")]}),
    ]
    got = run([*values, of_choice(0, {}, "tool_calls"), of_choice(1, {}, "tool_calls")])
    assert [item["arguments"] for item in got.output] == ['{"a":1}', '{"b":2}']
