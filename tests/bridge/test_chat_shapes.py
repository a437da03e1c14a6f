"""Requests in the shapes of Chat Completions are taken as what they mean."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dragoman.bridge.request import chat_shapes
from dragoman.notes import Evidence
from dragoman.reply.turn_context import Tool

from .converting import (
    Json,
    call,
    converted,
    function,
    of_input,
    output,
    refusal,
    user,
)
from .test_convert_hostile import REQUESTS, near_requests

PARAMETERS = function("f")["parameters"]
CHAT_TOOL = {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}}


def formed(body: Any) -> Any:
    return chat_shapes.formed(body, Evidence())


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
    ],
)
def test_a_chat_choice_is_the_choice_it_means(choice: Json, meant: Json) -> None:
    tools = [function("f"), {"type": "custom", "name": "p"}, function("g")]
    made = converted({"model": "m", "input": "x", "tools": tools, "tool_choice": choice})
    plain = converted({"model": "m", "input": "x", "tools": tools, "tool_choice": meant})
    assert made.chat == plain.chat
    assert "taken from its chat form: tool_choice" in "".join(made.notes)


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"messages": [user("x")]}, "messages", "it is 'input'"),
        ({"messages": "x", "input": None}, "messages", "it is 'input'"),
        ({"max_tokens": 7}, "max_tokens", "it is 'max_output_tokens'"),
        ({"max_completion_tokens": 7}, "max_completion_tokens", "'max_output_tokens'"),
        ({"reasoning_effort": "low"}, "reasoning_effort", "it is 'reasoning.effort'"),
        ({"response_format": {"type": "json_object"}}, "response_format", "it is 'text.format'"),
        ({"input": [{"role": "tool", "content": "A"}]}, "input[0].role", "function_call_output"),
        (
            {"input": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}]},
            "input[0].tool_calls",
            "'function_call'",
        ),
    ],
)
def test_what_belongs_to_chat_is_refused_with_its_name_here(
    fields: Json, param: str, said: str
) -> None:
    refused = refusal({"model": "m", **({} if "messages" in fields else {"input": "x"}), **fields})
    assert refused.param == param and said in refused.message


@pytest.mark.parametrize(
    ("own", "chat"),
    [({"max_output_tokens": 8}, "max_tokens"), ({"input": "x"}, "messages")],
)
def test_a_chat_field_beside_its_own_is_dropped(own: Json, chat: str) -> None:
    made = converted({"model": "m", "input": "x", **own, chat: 9})
    assert f"dropped field {chat}" in made.notes


@pytest.mark.parametrize(
    "item",
    [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"call_id": "a", "type": "function", "function": {"name": "f", "arguments": {}}},
        call("a", "f", "{}"),
    ],
)
def test_a_call_among_the_parts_of_a_message_is_a_call(item: Json) -> None:
    where = {"role": "assistant", "content": [item]}
    made = of_input(user("x"), where, output("a", "A"))
    (made_call,) = made.messages[1]["tool_calls"]
    assert made_call["function"] == {"name": "f", "arguments": "{}"}
    assert [message["role"] for message in made.messages] == ["user", "assistant", "tool"]


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
    assert "taken from its chat form: input" in made.notes


def test_an_output_among_the_parts_of_a_user_message_answers() -> None:
    parts = [output("a", "A"), {"type": "input_text", "text": "and now?"}]
    made = of_input(user("x"), call("a"), user(parts))
    assert [message["content"] for message in made.messages[2:]] == ["A", "and now?"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": "x", "tools": [{"type": "function", "function": {}}]}, "tools[0].name"),
        (
            {"input": "x", "tool_choice": {"type": "function", "function": {}}},
            "tool_choice.name",
        ),
        ({"input": "x", "tools": [{"type": "custom", "custom": {"name": "p"}}]}, "tools[0].name"),
        (
            {"input": "x", "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
            "tool_choice.tools",
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
    body = REQUESTS["chat"]
    before = json.dumps(body)
    made = formed(body)
    assert json.dumps(body) == before
    assert made is not body and formed(made) is made


def test_the_echo_has_the_form_of_responses() -> None:
    body = {"model": "m", "input": "x", "tools": [CHAT_TOOL]}
    assert converted(body).tools == {"f": Tool("function", "f")}
    assert formed(body)["tools"] == [function("f")]


@given(near_requests)
def test_any_value_is_read_once(value: Any) -> None:
    made = formed(value)
    assert formed(made) == made
