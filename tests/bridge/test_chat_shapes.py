"""Requests in the shapes of Chat Completions are taken as what they mean."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings

from dragoman.bridge.request.chat_shapes import formed
from dragoman.bridge.turn_context import Tool

from .converting import (
    Json,
    call,
    converted,
    function,
    image,
    of_input,
    output,
    refusal,
    said,
    thought,
    user,
)
from .test_convert_hostile import REQUESTS, near_requests

PARAMETERS = function("f")["parameters"]
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}
MESSAGES: list[Json] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "x"}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":"1"}'}},
            {"id": "b", "type": "custom", "custom": {"name": "patch", "input": "p"}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "B"}]},
    {"role": "tool", "tool_call_id": "a", "content": "A"},
    {"role": "assistant", "content": "Done.", "refusal": None},
    {"role": "user", "content": "y"},
]
ITEMS: list[Json] = [
    {"role": "system", "content": "Be brief."},
    user("x"),
    thought("hm"),
    call("a", "f", '{"x":"1"}'),
    {"type": "custom_tool_call", "call_id": "b", "name": "patch", "input": "p"},
    output("b", "B", "custom_tool_call_output"),
    output("a", "A"),
    said("Done."),
    user("y"),
]


@pytest.mark.parametrize("model", ["some-model", "kimi-k2.5", "kimi-k3", "qwen3"])
@pytest.mark.parametrize("field", ["messages", "input"])
def test_a_chat_conversation_is_the_conversation_it_means(model: str, field: str) -> None:
    made = converted({"model": model, field: copy.deepcopy(MESSAGES), "tools": [CHAT_TOOL]})
    meant = of_input(*ITEMS, model=model, tools=[function("f")])
    assert made.chat == meant.chat
    assert list(made.chat) == list(meant.chat)
    assert ("taken from its chat form: messages" in made.notes) == (field == "messages")
    for what in ("a tool's message ×2", "tool_calls", "reasoning of a message", "tools"):
        assert f"taken from its chat form: {what}" in made.notes


def test_every_turn_of_a_chat_conversation_begins_with_the_one_before() -> None:
    before: list[Json] = []
    for end in (2, 5, 7):
        now = converted({"model": "kimi-k2.5", "messages": MESSAGES[:end]}).messages
        assert now[: len(before)] == before and len(now) > len(before)
        before = now


def test_messages_as_a_string_and_beside_an_input() -> None:
    assert converted({"model": "m", "messages": "hi"}).messages == [user_message("hi")]
    both = converted({"model": "m", "messages": MESSAGES, "input": "hi"})
    assert both.messages == [user_message("hi")]
    assert "dropped field messages" in both.notes


def user_message(text: str) -> Json:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("tool", "meant"),
    [
        (CHAT_TOOL, function("f")),
        (
            {"type": "function", "function": {**function("f", strict=True), "description": "d"}},
            function("f", strict=True, description="d"),
        ),
        (
            {
                "type": "custom",
                "custom": {
                    "name": "p",
                    "format": {"type": "grammar", "grammar": {"syntax": "re", "definition": "x"}},
                },
            },
            {
                "type": "custom",
                "name": "p",
                "format": {"type": "grammar", "syntax": "re", "definition": "x"},
            },
        ),
    ],
)
def test_a_chat_tool_is_the_tool_it_means(tool: Json, meant: Json) -> None:
    made = converted({"model": "m", "input": "x", "tools": [tool, function("g")]})
    plain = converted({"model": "m", "input": "x", "tools": [meant, function("g")]})
    assert made.chat == plain.chat
    assert made.tools == plain.tools


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ({"type": "custom", "custom": {"name": "p"}}, {"type": "custom", "name": "p"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
        ),
    ],
)
def test_a_chat_choice_is_the_choice_it_means(choice: Json, meant: Json) -> None:
    tools = [function("f"), {"type": "custom", "name": "p"}, function("g")]
    made = converted({"model": "m", "input": "x", "tools": tools, "tool_choice": choice})
    plain = converted({"model": "m", "input": "x", "tools": tools, "tool_choice": meant})
    assert made.chat == plain.chat
    assert "taken from its chat form: tool_choice" in "".join(made.notes)


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_completion_tokens": 7}, {"max_tokens": 7}),
        ({"max_completion_tokens": 7, "max_output_tokens": 8}, {"max_tokens": 8}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        (
            {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
            {"reasoning_effort": "low"},
        ),
        (
            {"reasoning_effort": "low", "reasoning": {"effort": "high"}},
            {"reasoning_effort": "high"},
        ),
        (
            {"response_format": {"type": "json_object"}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "s", "schema": PARAMETERS, "strict": True},
                },
                "text": {"verbosity": "low"},
            },
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "s", "schema": PARAMETERS, "strict": True},
                },
                "verbosity": "low",
            },
        ),
    ],
)
def test_a_chat_field_counts_where_its_own_is_absent(fields: Json, sent: Json) -> None:
    made = converted({"model": "m", "input": "x", **fields})
    assert made.chat == {"model": "m", "messages": [user_message("x")], **sent}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "tool_call_output", "call_id": "a", "output": "A"},
        {"type": "tool_call_output", "tool_call_id": "a", "content": "A"},
        {"type": "tool_call_output", "id": "a", "output": [{"type": "text", "text": "A"}]},
        {"type": "function_call_output", "tool_call_id": "a", "output": "A"},
        {"type": "message", "role": "tool", "tool_call_id": "a", "content": "A"},
        {"role": "tool", "call_id": "a", "output": "A"},
        {"role": "tool", "tool_call_id": "a", "content": "A", "name": "run"},
        {"type": "function_call_output", "call_id": "a", "content": "A"},
    ],
)
def test_an_output_of_any_name_answers_its_call(item: Json) -> None:
    made = of_input(user("x"), call("a"), item)
    assert made.messages[2:] == [{"role": "tool", "tool_call_id": "a", "content": "A"}]


@pytest.mark.parametrize(
    "item",
    [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"call_id": "a", "type": "function_call", "function": {"name": "f", "arguments": {}}},
        {"id": "a", "type": "tool_call", "name": "f", "arguments": {}},
        {"id": "a", "type": "tool_call", "function": {"name": "f", "arguments": "{}"}},
    ],
)
@pytest.mark.parametrize("among_parts", [False, True])
def test_a_call_of_any_shape_is_a_call(item: Json, among_parts: bool) -> None:
    where = {"role": "assistant", "content": [item]} if among_parts else item
    made = of_input(user("x"), where, output("a", "A"))
    (made_call,) = made.messages[1]["tool_calls"]
    assert made_call["function"] == {"name": "f", "arguments": "{}"}
    assert [message["role"] for message in made.messages] == ["user", "assistant", "tool"]


def test_a_legacy_function_call_and_its_output() -> None:
    made = of_input(
        user("x"),
        {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "A"},
    )
    assert made.messages[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert made.messages[2]["content"] == "A"


def test_calls_among_the_parts_of_a_message_keep_their_place() -> None:
    parts = [
        {"type": "output_text", "text": "one"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "output_text", "text": "two"},
        call("a", "f"),
    ]
    made = of_input(user("x"), {"type": "message", "role": "assistant", "content": parts})
    assert made.messages[1] == {"role": "assistant", "content": "one"}
    assert made.messages[2]["content"] == "two"
    assert made.messages[2]["reasoning_content"] == "hm"
    assert made.messages[2]["tool_calls"][0]["id"] == "a"
    assert {"taken as an item part function_call", "taken as an item part reasoning"} <= set(
        made.notes
    )


def test_an_output_among_the_parts_of_a_user_message_answers() -> None:
    parts = [output("a", "A"), {"type": "input_text", "text": "and now?"}]
    made = of_input(user("x"), call("a"), user(parts))
    assert [message["content"] for message in made.messages[2:]] == ["A", "and now?"]


@pytest.mark.parametrize(
    ("part", "role", "content"),
    [
        ({"type": "input_text", "text": "t"}, "user", "t"),
        ({"type": "text", "text": "t"}, "user", "t"),
        ({"type": "output_text", "text": "t"}, "assistant", "t"),
        ({"type": "refusal", "refusal": "t"}, "assistant", "t"),
        (image("u"), "user", [{"type": "image_url", "image_url": {"url": "u"}}]),
        (
            {"type": "image_url", "image_url": {"url": "u"}},
            "user",
            [{"type": "image_url", "image_url": {"url": "u"}}],
        ),
        (
            {"type": "file", "file": {"file_id": "f"}},
            "user",
            [{"type": "file", "file": {"file_id": "f"}}],
        ),
    ],
)
def test_a_part_as_an_item_is_a_message(part: Json, role: str, content: Any) -> None:
    made = of_input(part)
    assert made.messages == [{"role": role, "content": content}]
    assert made.notes == [f"taken as a message part {part['type']}"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": 42}, "input"),
        ({"messages": [42]}, "input[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [42]}]}, "input[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": 42}]}, "input[0]"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "input[0].name"),
        ({"input": "x", "tools": [{"type": "function", "function": {}}]}, "tools[0].name"),
        (
            {"input": "x", "tool_choice": {"type": "function", "function": {}}},
            "tool_choice.name",
        ),
    ],
)
def test_what_means_nothing_is_refused(body: Json, param: str) -> None:
    assert refusal({"model": "m", **body}).param == param


@pytest.mark.parametrize("name", [name for name in REQUESTS if name != "chat"])
def test_a_request_in_the_form_of_responses_is_left_as_it_is(name: str) -> None:
    body = REQUESTS[name]
    assert formed(body) is body


def test_nothing_of_the_clients_body_is_changed_in_place() -> None:
    body = {"model": "m", "messages": MESSAGES, "tools": [CHAT_TOOL], "max_tokens": 1}
    before = json.dumps(body)
    made = formed(body)
    assert json.dumps(body) == before
    assert formed(made) is made


def test_the_echo_has_the_form_of_responses() -> None:
    body = {"model": "m", "messages": MESSAGES, "tools": [CHAT_TOOL], "max_tokens": 9}
    made = converted(body)
    assert made.tools == {"f": Tool("function", "f")}
    echoed = formed(body)
    assert "messages" not in echoed and echoed["max_output_tokens"] == 9
    assert echoed["tools"] == [function("f")]


@settings(max_examples=60)
@given(near_requests)
def test_any_value_is_read_once(value: Any) -> None:
    made = formed(value)
    assert formed(made) == made
