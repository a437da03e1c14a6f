"""Each kind of input item as chat messages, and the items that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .converting import Json, answer, call, image, of_input, output, refusal, roles, user

# ---------------------------------------------------------------- items that are refused


@pytest.mark.parametrize(
    "item", [{"type": "item_reference", "id": "rs_1"}, {"id": "rs_1"}, {"type": None, "id": "x"}]
)
def test_a_reference_is_refused_in_openais_words(item: Json) -> None:
    refused = refusal({"model": "m", "input": [user("x"), item]}, status=404)
    assert (refused.param, refused.code) == ("input", None)
    assert refused.message.startswith(f"Item with id '{item['id']}' not found. Items are not ")
    assert "`store`" in refused.message


def test_a_reference_without_an_id_is_a_request_without_it() -> None:
    refused = refusal({"model": "m", "input": [{"type": "item_reference"}]})
    assert (refused.status, refused.param) == (400, "input[0].id")


@pytest.mark.parametrize(
    ("item", "param"),
    [
        (42, "input[0]"),
        ("text", "input[0]"),
        (None, "input[0]"),
        ({}, "input[0].type"),
        ({"type": 1}, "input[0].type"),
        ({"type": "message"}, "input[0].role"),
        ({"role": "narrator", "content": "x"}, "input[0].role"),
        ({"role": "user", "content": 42}, "input[0].content"),
        ({"role": "user", "content": {}}, "input[0].content"),
        ({"role": "user", "content": ["x"]}, "input[0].content[0]"),
        (call("c", arguments=42), "input[0].arguments"),
        (call("c") | {"name": None}, "input[0].name"),
        (call("c") | {"call_id": 1}, "input[0].call_id"),
        (call("c") | {"namespace": 1}, "input[0].namespace"),
        ({"type": "custom_tool_call", "name": "x", "input": {}}, "input[0].input"),
        ({"type": "tool_call", "id": "fc_1"}, "input[0].function"),
        ({"type": "tool_call", "function": {"name": 1}}, "input[0].function.name"),
        ({"type": "shell_call", "action": "ls"}, "input[0].action"),
        ({"type": "apply_patch_call", "operation": []}, "input[0].operation"),
        ({"type": "additional_tools", "tools": {}}, "input[0].tools"),
        ({"type": "tool_search_output", "tools": 1}, "input[0].tools"),
    ],
)
def test_a_malformed_item_is_refused_by_the_name_of_its_field(item: Any, param: str) -> None:
    assert refusal({"model": "m", "input": [item]}).param == param


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary", "context_compaction"])
def test_a_foreign_compaction_is_a_line_and_the_conversation_goes_on(kind: str) -> None:
    made = of_input({"type": kind, "encrypted_content": "gAAAA"}, user("go on"))
    assert roles(made.messages) == ["user", "user"]
    assert "compacted" in made.messages[0]["content"]
    assert "gAAAA" not in made.messages[0]["content"]
    assert made.notes == [f"lost context in item {kind}"]


@pytest.mark.parametrize("kind", ["web_search_call", "mcp_list_tools", "of_2030"])
def test_an_unknown_item_is_dropped_and_recorded(kind: str) -> None:
    made = of_input(user("x"), {"type": kind, "id": "i"})
    assert roles(made.messages) == ["user"]
    assert made.notes == [f"dropped item {kind}"]


# ---------------------------------------------------------------- calls of every kind


@pytest.mark.parametrize(
    ("item", "answered", "function", "content"),
    [
        (
            call("c", "f", '{"b": 1, "a":2}'),
            output("c", "out"),
            {"name": "f", "arguments": '{"b": 1, "a":2}'},
            "out",
        ),
        (
            call("c", "f", {"b": 1}),
            output("c", {"x": [1]}),
            {"name": "f", "arguments": '{"b":1}'},
            '{"x":[1]}',
        ),
        (call("c", "f", ""), output("c", None), {"name": "f", "arguments": "{}"}, ""),
        (
            {
                "type": "tool_call",
                "id": "fc_1",
                "call_id": "c",
                "function": {"name": "f", "arguments": '{"b":1}'},
            },
            output("fc_1", "out"),
            {"name": "f", "arguments": '{"b":1}'},
            "out",
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": 'a"\n'},
            output("c", "Done", "custom_tool_call_output"),
            {"name": "apply_patch", "arguments": '{"input":"a\\"\\n"}'},
            "Done",
        ),
        (
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c",
                "action": {"type": "exec", "command": ["ls"], "env": {}, "user": None},
            },
            {"type": "local_shell_call_output", "id": "lsh_1", "output": "a.txt"},
            {"name": "local_shell", "arguments": '{"command":["ls"],"env":{}}'},
            "a.txt",
        ),
        (
            {
                "type": "shell_call",
                "call_id": "c",
                "action": {"commands": ["ls"], "timeout_ms": 5, "max_output_length": None},
            },
            output(
                "c",
                [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
                "shell_call_output",
            ),
            {"name": "shell", "arguments": '{"commands":["ls"],"timeout_ms":5}'},
            '{"stdout":"a","stderr":"","outcome":{"type":"exit","exit_code":0}}',
        ),
        (
            {
                "type": "apply_patch_call",
                "call_id": "c",
                "status": "completed",
                "operation": {"type": "delete_file", "path": "a"},
            },
            {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no"},
            {"name": "apply_patch", "arguments": '{"type":"delete_file","path":"a"}'},
            '{"status":"failed","output":"no"}',
        ),
    ],
)
def test_a_call_of_every_kind_and_its_output(
    item: Json, answered: Json, function: Json, content: str
) -> None:
    made = of_input(user("x"), item, answered)
    assert made.messages[1]["tool_calls"] == [{"id": "c", "type": "function", "function": function}]
    assert made.messages[2:] == [answer("c", content)]


@pytest.mark.parametrize("arguments", ['{"path": "a', "[1]", '"x"', "null", "rm -rf"])
def test_arguments_that_are_no_object_are_wrapped_in_one(arguments: str) -> None:
    made = of_input(user("x"), call("c", "f", arguments), output("c", "failed"))
    sent = made.messages[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"invalid_arguments": arguments}
    assert "wrapped invalid arguments of f" in made.notes


def test_a_tool_search_of_the_provider_is_no_message() -> None:
    made = of_input(
        user("x"),
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
    )
    assert roles(made.messages) == ["user"]


def test_images_of_outputs_move_to_one_user_message_behind_them() -> None:
    parts = [{"type": "input_text", "text": "see"}, image("one")]
    made = of_input(
        user("x"),
        call("a", "shot"),
        call("b", "shot"),
        output("a", parts),
        output("b", [image("two")]),
        user("nice"),
    )
    assert made.messages[2:] == [
        answer("a", "see"),
        answer("b", "The output is in the next user message."),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[Returned by shot:]"},
                {"type": "image_url", "image_url": {"url": "one"}},
                {"type": "text", "text": "[Returned by shot:]"},
                {"type": "image_url", "image_url": {"url": "two"}},
            ],
        },
        {"role": "user", "content": "nice"},
    ]
    assert "moved to a user message media of tool outputs" in made.notes


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ([{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"n": 1}, {"type": "text", "text": "b"}], '{"n":1}\nb'),
        ([{"type": "resource", "uri": "x"}], '{"type":"resource","uri":"x"}'),
        ([{"no": "type"}], '{"no":"type"}'),
        ([1, "x"], '[1,"x"]'),
        ([], ""),
        (7, "7"),
        (False, "false"),
    ],
)
def test_an_output_of_any_shape_is_text(value: Any, content: str) -> None:
    assert of_input(user("x"), call("a"), output("a", value)).messages[2]["content"] == content
