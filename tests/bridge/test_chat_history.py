"""The history that a chat host wants: the order of input items as messages, reasoning, call ids."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.cure.chat_history import NO_OUTPUT
from dragoman.responses.envelope import seal

from .converting import (
    Json,
    answer,
    call,
    chat_call,
    converted,
    of_input,
    output,
    refusal,
    roles,
    said,
    thought,
    user,
)

K2 = "moonshotai/Kimi-K2.5-TEE"
K3 = "kimi-k3"


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


@pytest.mark.slow
@pytest.mark.parametrize("doubled", [False, True])
def test_many_calls_of_one_id_cost_no_more_than_their_number(doubled: bool) -> None:
    count = 5_000
    made = [call("c", "f", json.dumps({"n": n})) for n in range(count)]
    told = [output("c", f"out {n}") for n in range(count)]
    messages = of_input(user("x"), *made, *told, *(told if doubled else ())).messages
    outputs = [message["content"] for message in messages if message["role"] == "tool"]
    assert outputs == [f"out {n}" for n in range(count)]
    assert len(messages) == 2 + count


def test_more_calls_of_a_turn_than_are_laid_out_at_once_are_refused() -> None:
    made = [call(f"c{n}", "f") for n in range(5_001)]
    refused = refusal({"model": "some-model", "input": [user("x"), *made]}, status=413)
    assert "5,000 calls in a turn" in refused.message


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


def test_equal_outputs_without_an_id_are_all_sent() -> None:
    bare = {"type": "function_call_output", "output": "ok"}
    made = of_input(user("x"), said("a"), bare, said("b"), bare)
    assert roles(made.messages) == ["user", "assistant", "user", "assistant", "user"]
    made = of_input(user("x"), call("c1", "build"), call("c2", "test"), bare, bare)
    assert roles(made.messages) == ["user", "assistant", "tool", "tool", "user", "user"]
    assert "dropped a tool output sent twice" not in made.notes


def test_an_output_is_sent_again_if_another_one_came_between() -> None:
    made = of_input(
        *(user("x"), call("a"), said("."), user("y"), said(".")),
        *(output("a", "A"), output("a", "B"), said("."), output("a", "A")),
    )
    told = [message["content"] for message in made.messages if message["role"] == "user"]
    heading = "[Output of an earlier call of run:]\n"
    assert told == ["x", "y", heading + "A", heading + "B", heading + "A"]
    assert made.messages[-1]["role"] == "user"


def test_two_calls_with_one_id_may_have_equal_outputs() -> None:
    calls = [call("a", "f"), call("a", "g")]
    made = of_input(user("x"), *calls, output("a", "A"), said("."), output("a", "A"))
    assert made.messages[-1]["role"] == "user"


@pytest.mark.parametrize(
    "first", [[call("b")], [{"type": "web_search_call", "action": {"query": "q"}}]]
)
def test_a_turn_begins_as_the_one_before_that_ended_with_an_output_sent_twice(
    first: list[Json],
) -> None:
    asked = [user("x"), call("a"), output("a", "A"), *first, output("a", "A")]
    before = of_input(*asked)
    assert "dropped a tool output sent twice" in before.notes
    after = of_input(*asked, call("c"), output("c", "C"))
    assert after.messages[: len(before.messages)] == before.messages
    assert roles(after.messages[len(before.messages) :]) == ["assistant", "tool"]


def test_an_output_that_names_its_calls_item_is_sent_on_once() -> None:
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "a", "action": {}}
    late = output("lsh_1", "A", "local_shell_call_output")
    made = of_input(user("x"), shell, user("y"), said("."), late, said("."), late, user("z"))
    assert [message["content"] for message in made.messages[3:]] == [
        *("y", ".", "[Output of an earlier call of local_shell:]\nA", ".", "z")
    ]
    assert "dropped a tool output sent twice" in made.notes


def test_an_id_names_the_latest_call_that_has_it() -> None:
    shell = {"type": "local_shell_call", "id": "b", "call_id": "a", "action": {}}
    made = of_input(user("x"), shell, output("a", "A"), call("b"), output("b", "B"))
    assert made.messages[-1] == answer("b", "B")


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
