"""Input items as chat messages: each kind of item, and the order a chat upstream wants."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from dragoman.bridge.cure.chat_history import NO_OUTPUT
from dragoman.bridge.envelope import seal

from .converting import Json, call, converted, image, of_input, output, refusal, said, thought, user

K2 = "moonshotai/Kimi-K2.5-TEE"
K3 = "kimi-k3"


def roles(messages: list[Json]) -> list[str]:
    return [message["role"] for message in messages]


def chat_call(call_id: str, name: str = "run", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def answer(call_id: str, content: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


# ---------------------------------------------------------------- messages


def test_a_string_is_a_user_message_after_the_instructions() -> None:
    made = converted({"model": "m", "instructions": "Be brief.", "input": "hi"})
    assert made.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize(
    ("role", "sent"),
    [("user", "user"), ("system", "system"), ("developer", "system"), ("assistant", "assistant")],
)
@pytest.mark.parametrize("typed", [True, False])
def test_every_role_with_and_without_type(role: str, sent: str, typed: bool) -> None:
    item = {"role": role, "content": "text", "id": "msg_1", "phase": "commentary"}
    made = of_input(item | ({"type": "message"} if typed else {}))
    assert made.messages == [{"role": sent, "content": "text"}]


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
@pytest.mark.parametrize("role", ["user", "developer", "assistant"])
def test_text_parts_of_every_name_become_a_string(kind: str, role: str) -> None:
    item = {"role": role, "content": [{"type": kind, "text": "one"}]}
    assert of_input(item).messages[0]["content"] == "one"


def test_several_text_parts_of_the_user_are_lines_of_one_string() -> None:
    parts = [{"type": "input_text", "text": "one"}, {"type": "input_text", "text": "two"}]
    assert of_input(user(parts)).messages[0]["content"] == "one\ntwo"


def test_a_refusal_is_kept_as_text() -> None:
    item = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert of_input(user("x"), item).messages[1]["content"] == "No."


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        (image("u"), {"type": "image_url", "image_url": {"url": "u"}}),
        (image("u", detail="auto"), {"type": "image_url", "image_url": {"url": "u"}}),
        (
            image("u", detail="low"),
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
        ),
        (
            image("u", detail="original"),
            {"type": "image_url", "image_url": {"url": "u", "detail": "high"}},
        ),
        (
            {"type": "input_image", "image_url": {"url": "u", "detail": "high"}},
            {"type": "image_url", "image_url": {"url": "u", "detail": "high"}},
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:,x"},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:,x"}},
        ),
        (
            {"type": "input_file", "file_id": "file-1"},
            {"type": "file", "file": {"file_id": "file-1"}},
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ),
    ],
)
def test_media_between_texts_keep_their_place(part: Json, sent: Json) -> None:
    parts = [{"type": "input_text", "text": "a"}, part, {"type": "input_text", "text": "b"}]
    assert of_input(user(parts)).messages[0]["content"] == [
        {"type": "text", "text": "a"},
        sent,
        {"type": "text", "text": "b"},
    ]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "input_image", "file_id": "file-1"}, "file_id"),
        ({"type": "input_file", "file_url": "https://example.invalid/a.pdf"}, "file_url"),
        ({"type": "input_image"}, "image_url"),
        ({"type": "input_file"}, "file_data"),
        ({"type": "input_audio"}, "input_audio"),
        ({"type": "input_audio", "input_audio": {"data": "x"}}, "input_audio.format"),
        ({"type": "input_text"}, "text"),
        ({"type": "input_text", "text": 1}, "text"),
        ({}, "type"),
    ],
)
def test_a_part_that_cannot_be_sent_is_refused_by_name(part: Json, field: str) -> None:
    body = {"model": "m", "input": [user([part])]}
    assert refusal(body).param == f"input[0].content[0].{field}"


def test_an_unknown_part_is_dropped_and_recorded() -> None:
    made = of_input(user([{"type": "input_smell"}, {"type": "input_text", "text": "x"}]))
    assert made.messages[0]["content"] == "x"
    assert "dropped part input_smell" in made.notes


@pytest.mark.parametrize("content", ["", [], None, [{"type": "input_text", "text": ""}]])
def test_an_empty_message_is_dropped_and_recorded(content: Any) -> None:
    made = of_input(user("x"), user(content), {"role": "assistant", "content": content})
    assert made.messages == [{"role": "user", "content": "x"}]
    assert "dropped an empty user message" in made.notes


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


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({"summary": 42}, ""),
        ({"summary": [{"type": "summary_text"}]}, ""),
        ({"summary": [], "content": {}}, ""),
        ({"content": [None]}, ""),
        ({"content": [{"type": "reasoning_text", "text": None}]}, ""),
        ({"content": [{"type": 1}], "summary": [{"type": "summary_text", "text": "s"}]}, "s"),
        ({"content": [3, {"type": "reasoning_text", "text": "c"}]}, "c"),
        ({"encrypted_content": 3, "content": "whole"}, "whole"),
    ],
)
def test_reasoning_of_any_form_never_ends_a_conversation(fields: Json, read: str) -> None:
    item = {"type": "reasoning", "encrypted_content": "gAAAA-foreign", **fields}
    made = of_input(user("x"), item, call("c", "f"), output("c", "o"))
    assert made.messages[1].get("reasoning_content", "") == read


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text"},
        {"type": "text", "text": {}},
        {"type": "input_image"},
        {"type": "input_image", "image_url": 3},
        {"type": "input_image", "file_id": "file-1"},
        {"type": "input_file", "file_url": "https://example.invalid/a.pdf"},
        {"type": "input_audio", "input_audio": []},
    ],
)
def test_a_part_of_an_output_that_cannot_be_read_is_kept_as_json(part: Json) -> None:
    value = [{"type": "input_text", "text": "a"}, part]
    made = of_input(user("x"), call("c", "f"), output("c", value))
    assert made.messages[2]["content"] == "a\n" + json.dumps(part, separators=(",", ":"))
    assert len(made.messages) == 3


@pytest.mark.parametrize("doubled", [False, True])
def test_many_calls_of_one_id_cost_no_more_than_their_number(doubled: bool) -> None:
    count = 20_000
    made = [call("c", "f", json.dumps({"n": n})) for n in range(count)]
    told = [output("c", f"out {n}") for n in range(count)]
    began = time.process_time()
    messages = of_input(user("x"), *made, *told, *(told if doubled else ())).messages
    assert time.process_time() - began < 10
    outputs = [message["content"] for message in messages if message["role"] == "tool"]
    assert outputs == [f"out {n}" for n in range(count)]
    assert len(messages) == 2 + count


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


# ---------------------------------------------------------------- order


def test_reasoning_text_and_calls_are_one_message_and_outputs_follow_in_call_order() -> None:
    made = of_input(
        user("x"),
        thought("hm"),
        said("Looking."),
        call("a"),
        call("b"),
        output("b", "B"),
        output("a", "A"),
        model=K2,
    )
    assert made.messages[1:] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "hm",
            "tool_calls": [chat_call("functions.run:0"), chat_call("functions.run:1")],
        },
        answer("functions.run:0", "A"),
        answer("functions.run:1", "B"),
    ]


def test_text_after_a_call_stays_in_its_message() -> None:
    made = of_input(user("x"), said("one"), call("a"), said("two"), output("a", "A"))
    assert made.messages[1]["content"] == "onetwo"
    assert roles(made.messages) == ["user", "assistant", "tool"]


@pytest.mark.parametrize("role", ["user", "developer"])
def test_a_message_between_call_and_output_moves_behind_the_outputs(role: str) -> None:
    between = {"role": role, "content": "between"}
    made = of_input(user("x"), call("a"), call("b"), output("a", "A"), between, output("b", "B"))
    assert [message["content"] for message in made.messages[2:]] == ["A", "B", "between"]
    assert "moved behind the tool outputs a message" in made.notes


def test_an_assistant_message_does_not_reach_across_the_user() -> None:
    made = of_input(user("x"), said("one"), user("y"), said("two"), call("a"), output("a", "A"))
    assert [message["content"] for message in made.messages[:4]] == ["x", "one", "y", "two"]
    assert "tool_calls" not in made.messages[1]
    assert made.messages[3]["tool_calls"] == [chat_call("a")]


def test_two_messages_of_the_assistant_stay_two() -> None:
    made = of_input(user("x"), said("one"), said("two"))
    assert [message["content"] for message in made.messages] == ["x", "one", "two"]


def test_calls_in_turn_are_messages_in_turn() -> None:
    made = of_input(user("x"), call("a"), output("a", "A"), call("b"), output("b", "B"))
    assert roles(made.messages) == ["user", "assistant", "tool", "assistant", "tool"]


def test_an_unanswered_call_is_answered_with_a_stand_in() -> None:
    made = of_input(user("x"), call("a"), call("b"), output("b", "B"), user("go on"))
    assert made.messages[2:] == [
        answer("a", NO_OUTPUT),
        answer("b", "B"),
        {"role": "user", "content": "go on"},
    ]
    assert "answered with a stand-in a call of run" in made.notes


def test_an_output_that_comes_too_late_is_told_by_the_user() -> None:
    made = of_input(user("x"), call("a", "slow"), user("well?"), said("Wait."), output("a", "A"))
    assert [message["content"] for message in made.messages] == [
        "x",
        "",
        NO_OUTPUT,
        "well?",
        "Wait.",
        "[Output of an earlier call of slow:]\nA",
    ]
    assert made.messages[-1]["role"] == "user"


def test_an_output_without_a_call_is_told_by_the_user_and_the_client_id_is_not_shown() -> None:
    made = of_input(user("x"), output("call_unknown", "A"), model=K2)
    assert made.messages[1] == {"role": "user", "content": "[Output of an earlier tool call:]\nA"}
    assert "told by the user a tool output without its call" in made.notes


def test_an_output_and_a_call_sent_twice_are_sent_on_once() -> None:
    made = of_input(
        user("x"), call("a"), call("a"), output("a", "A"), output("a", "A"), said("."), user("y")
    )
    assert made.messages[1]["tool_calls"] == [chat_call("a")]
    assert [message["content"] for message in made.messages[2:]] == ["A", ".", "y"]
    assert {"dropped a call sent twice", "dropped a tool output sent twice"} <= set(made.notes)


def test_an_output_sent_again_after_the_assistant_spoke_is_sent_on_once() -> None:
    made = of_input(user("x"), call("a"), output("a", "A"), said("."), output("a", "A"), user("y"))
    assert [message["content"] for message in made.messages] == ["x", "", "A", ".", "y"]
    assert "dropped a tool output sent twice" in made.notes


def test_a_second_different_output_is_not_lost() -> None:
    made = of_input(user("x"), call("a"), output("a", "A"), output("a", "B"))
    assert made.messages[2:] == [
        answer("a", "A"),
        {"role": "user", "content": "[Output of an earlier call of run:]\nB"},
    ]


def test_two_calls_with_one_id_are_told_apart() -> None:
    made = of_input(user("x"), call("a", "f"), call("a", "g"), output("a", "F"), output("a", "G"))
    ids = [tool_call["id"] for tool_call in made.messages[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert made.messages[2:] == [answer(ids[0], "F"), answer(ids[1], "G")]


def test_an_id_that_comes_again_in_a_later_turn_is_a_new_call() -> None:
    made = of_input(
        user("x"), call("run:0"), output("run:0", "A"), call("run:0"), output("run:0", "A")
    )
    assert roles(made.messages) == ["user", "assistant", "tool", "assistant", "tool"]


def test_calls_and_outputs_without_ids_are_paired_in_order() -> None:
    bare = {"type": "function_call", "name": "f", "arguments": "{}"}
    made = of_input(
        user("x"),
        bare,
        bare,
        {"type": "function_call_output", "output": "A"},
        {"type": "function_call_output", "call_id": None, "output": "B"},
    )
    assert [call["id"] for call in made.messages[1]["tool_calls"]] == ["call_0", "call_1"]
    assert made.messages[2:] == [answer("call_0", "A"), answer("call_1", "B")]


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


# ---------------------------------------------------------------- reasoning


def reasoning(**fields: Any) -> Json:
    return {"type": "reasoning", "id": "rs", "summary": [], **fields}


SUMMARY = [{"type": "summary_text", "text": "short"}, {"type": "summary_text", "text": "er"}]
CONTENT = [{"type": "reasoning_text", "text": "plain"}]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (
            reasoning(encrypted_content=seal("sealed"), content=CONTENT, summary=SUMMARY),
            "sealed",
        ),
        (reasoning(encrypted_content="gAAAAfoo", content=CONTENT, summary=SUMMARY), "plain"),
        (reasoning(encrypted_content=seal("sealed")[:-2], content=CONTENT), "plain"),
        (reasoning(encrypted_content=42, content=None, summary=SUMMARY), "short\n\ner"),
        (reasoning(encrypted_content=None, content=None), " "),
    ],
)
def test_reasoning_is_taken_from_the_envelope_then_content_then_summary(
    item: Json, text: str
) -> None:
    made = of_input(user("x"), item, call("a"), output("a", "A"), model=K2)
    assert made.messages[1]["reasoning_content"] == text


@pytest.mark.parametrize("model", [K2, K3, "kimi-k2-thinking", "kimi-k2-0905-preview"])
def test_every_kimi_message_with_calls_has_reasoning_content(model: str) -> None:
    made = of_input(user("x"), call("a"), output("a", "A"), model=model)
    assert made.messages[1]["reasoning_content"] == " "


def test_once_a_deepseek_message_has_reasoning_all_later_ones_do() -> None:
    turns = [said("a"), user("y"), thought("hm"), said("b"), user("z"), said("c"), call("d")]
    made = of_input(user("x"), *turns, output("d", "D"), user("!"), model="deepseek-v4-pro")
    spoken = [m.get("reasoning_content") for m in made.messages if m["role"] == "assistant"]
    assert spoken == [None, "hm", ""]


def test_kimi_keeps_the_reasoning_of_answers_too() -> None:
    made = of_input(user("x"), thought("hm"), said("a"), user("y"), model=K3)
    assert made.messages[1] == {"role": "assistant", "content": "a", "reasoning_content": "hm"}


def test_other_models_get_known_reasoning_with_calls_only() -> None:
    made = of_input(
        user("x"), thought("one"), call("a"), output("a", "A"), thought("two"), said("b"), user("y")
    )
    assert made.messages[1]["reasoning_content"] == "one"
    assert made.messages[3] == {"role": "assistant", "content": "b"}
    assert "left out reasoning" in made.notes
    silent = of_input(user("x"), call("a"), output("a", "A"))
    assert "reasoning_content" not in silent.messages[1]


def test_openai_models_get_no_reasoning_content() -> None:
    made = of_input(user("x"), thought("one"), call("a"), output("a", "A"), model="gpt-5.4")
    assert "reasoning_content" not in made.messages[1]


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>hm</think>It is.", "hm", "It is."),
        ("<think>\nhm\nso\n</think>\n\nIt is.", "hm\nso", "It is."),
        (" \n<think>hm</think> a </think> b", "hm", "a </think> b"),
        ("<think>\n hm\n\n</think>It is.", " hm\n", "It is."),
        ("<think></think>It is.", None, "It is."),
        ("<think>hm", None, "<think>hm"),
        ("So: <think>hm</think>", None, "So: <think>hm</think>"),
        ("<thinking>hm</thinking>x", None, "<thinking>hm</thinking>x"),
        ("`<think>hm</think>` is a tag", None, "`<think>hm</think>` is a tag"),
    ],
)
def test_an_assistants_text_that_begins_with_reasoning(
    text: str, reasoning: str | None, content: str
) -> None:
    made = of_input(user("x"), said(text), user("y"), model="kimi-k2-thinking")
    message = {"role": "assistant", "content": content}
    assert made.messages[1] == message | ({"reasoning_content": reasoning} if reasoning else {})
    taken = "taken as reasoning <think> in an assistant's text"
    assert (taken in made.notes) == (content != text)


def test_reasoning_that_is_a_message_of_its_own_belongs_to_what_follows() -> None:
    """So pydantic-ai sends it."""
    made = of_input(
        user("x"), said("<think>\nhm\n</think>"), said("Looking."), call("a"), output("a", "A")
    )
    assert made.messages[1]["reasoning_content"] == "hm"
    assert made.messages[1]["content"] == "Looking."
    assert roles(made.messages) == ["user", "assistant", "tool"]


def test_reasoning_that_led_to_nothing_is_dropped_and_recorded() -> None:
    made = of_input(user("x"), thought("hm"), user("y"), model=K2)
    assert roles(made.messages) == ["user", "user"]
    assert "dropped reasoning that led to nothing" in made.notes


# ---------------------------------------------------------------- call ids

TWO_TURNS = (
    user("x"),
    call("c1", "run"),
    call("c2", "read"),
    output("c1", "1"),
    output("c2", "2"),
    call("c3", "run"),
    output("c3", "3"),
)


@pytest.mark.parametrize(
    ("model", "ids"),
    [
        (K2, ["functions.run:0", "functions.read:1", "functions.run:2"]),
        ("kimi-k2-thinking", ["functions.run:0", "functions.read:1", "functions.run:2"]),
        (K3, ["run:0", "read:1", "run:0"]),
        ("some-model", ["c1", "c2", "c3"]),
    ],
)
def test_call_ids_are_those_the_family_knows(model: str, ids: list[str]) -> None:
    messages = of_input(*TWO_TURNS, model=model).messages
    calls = [call for message in messages for call in message.get("tool_calls", [])]
    answers = [message for message in messages if message["role"] == "tool"]
    assert [call["id"] for call in calls] == ids
    assert [message["tool_call_id"] for message in answers] == ids
