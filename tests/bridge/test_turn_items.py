"""Sub-agents, compaction and changed settings: what Codex of today puts into the input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.bridge.request.convert import SUMMARY_PROMPT
from dragoman.reply.turn_context import Tool
from dragoman.responses.dialects import DIALECTS
from dragoman.responses.envelope import open_sealed, seal
from dragoman.wire.json_codec import dumps

from .converting import call, converted, function, of_input, output, said, user
from .replying import call as chat_call
from .replying import calls, chunk, ended, run, run_body, text, turn

Json = dict[str, Any]
TRIGGER = {"type": "compaction_trigger"}
CIPHERTEXT = "gAAAAABo" + "x3Zk_-" * 40
EFFORT = {"type": "configuration_update", "reasoning": {"effort": "high"}}


def agent_message(*content: Json) -> Json:
    head = {"type": "agent_message", "author": "/root", "recipient": "/root/list"}
    return head | {"content": list(content)}


def encrypted(value: Any) -> Json:
    return {"type": "encrypted_content", "encrypted_content": value}


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ([{"type": "input_text", "text": "List it."}], "List it."),
        ([{"type": "input_text", "text": "Payload:"}, encrypted("List it.")], "Payload:\nList it."),
        ([encrypted("List")], "List"),
    ],
)
def test_an_agent_reads_what_another_says(content: list[Json], sent: str) -> None:
    made = of_input(agent_message(*content), call("a"), output("a", "A"))
    wanted = f"[Message from /root to /root/list:]\n{sent}"
    assert made.messages[0] == {"role": "user", "content": wanted}


@pytest.mark.parametrize("value", [CIPHERTEXT, "QUJD" * 100, None, 3])
def test_what_is_encrypted_for_another_provider_is_a_line(value: Any) -> None:
    made = of_input(agent_message(encrypted(value)), call("a"), output("a", [encrypted(value)]))
    for message in (made.messages[0], made.messages[2]):
        assert "is encrypted for another provider" in message["content"]
    assert "left out part encrypted_content ×2" in made.notes
    assert str(value) not in dumps(made.chat).decode()


def test_arguments_are_not_asked_for_encrypted_and_are_returned_as_plain_text() -> None:
    message = {"type": "string", "description": "Task.", "encrypted": True}
    named = {"encrypted": {"type": "boolean", "default": {"encrypted": True}}, "message": message}
    schema = {"type": "object", "properties": named, "required": ["message"]}
    tool = {"type": "function", "name": "spawn_agent", "parameters": schema}
    made = of_input(
        user("x"), tools=[{"type": "namespace", "name": "collaboration", "tools": [tool]}]
    )
    sent = made.functions["collaboration__spawn_agent"]["parameters"]["properties"]
    assert sent == {
        "encrypted": named["encrypted"],
        "message": {"type": "string", "description": "Task."},
    }
    assert "left out encrypted in the schema of spawn_agent" in made.notes
    declared = made.tools["collaboration__spawn_agent"]
    assert declared == Tool("function", "spawn_agent", "collaboration", encrypted=True)
    named_so = chat_call(0, "{}", name="collaboration__spawn_agent", call_id="c")
    got = run([calls(named_so), *ended("tool_calls")], turn_=replace(turn(), tools=made.tools))
    assert got.output[0]["encrypted_function_args"] == []
    assert (got.output[0]["namespace"], got.output[0]["name"]) == ("collaboration", "spawn_agent")


# ---------------------------------------------------------------- compaction


def test_a_trigger_asks_for_a_summary_without_tools() -> None:
    thread = [user("x"), call("a"), output("a", "A"), said("ok")]
    fields: Json = {"tools": [function("run")], "tool_choice": "auto"}
    before = of_input(*thread, **fields)
    made = of_input(*thread, TRIGGER, text={"format": {"type": "json_object"}}, **fields)
    assert made.messages == [*before.messages, {"role": "user", "content": SUMMARY_PROMPT}]
    assert made.chat.keys() == {"model", "messages"}


def test_a_trigger_that_is_past_asks_for_nothing() -> None:
    made = of_input(user("x"), TRIGGER, {"type": "compaction", "encrypted_content": seal("S")})
    assert made.messages[1:] == [
        {"role": "user", "content": "[Summary of the conversation so far:]\nS"}
    ]


SUMMARY = replace(turn(), summary=True)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS.keys())
def test_a_summary_comes_back_as_one_item_that_the_next_turn_opens(dialect: Any) -> None:
    chunks = [
        text("<think>so</think>\nThe user "),
        calls(chat_call(0, "{}", name="echo", call_id="c")),
        text("wants tea."),
        *ended(),
    ]
    got = run(chunks, dialect, turn_=SUMMARY)
    (item,) = got.output
    assert item["type"] == "compaction"
    assert open_sealed(item["encrypted_content"]) == "The user wants tea."
    assert got.response["status"] == "completed"
    assert "dropped a call beside a summary" in got.noted
    (message,) = of_input(item).messages
    assert message["content"].endswith("\nThe user wants tea.")
    whole = {"choices": [{"message": {"content": "The user wants tea."}, "finish_reason": "stop"}]}
    assert run_body(whole, dialect, turn_=SUMMARY).output == got.output


@pytest.mark.parametrize(
    ("chunks", "status"),
    [
        ([chunk({"reasoning_content": "hm"}), *ended()], "failed"),
        ([text(" \n"), *ended()], "failed"),
        ([text("The us")], "in_progress"),
        ([text("The us"), *ended("length")], "incomplete"),
    ],
)
def test_a_summary_that_is_none(chunks: list[Json], status: str) -> None:
    got = run(chunks, turn_=SUMMARY, done=len(chunks) > 1)
    assert got.response["status"] == status
    assert len(got.output) == (status == "incomplete")


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("model", "items", "effort", "sent"),
    [
        ("m", [EFFORT], None, "high"),
        ("m", [{**EFFORT, "reasoning": {"effort": "low"}}, EFFORT], "minimal", "high"),
        ("m", [EFFORT, {"type": "configuration_update"}], "low", "high"),
        ("m", [], 3, "3"),
        ("kimi-k3", [], 3, "high"),
        ("kimi-k3", [], 0.5, "low"),
        ("kimi-k3", [], 100, "max"),
        ("kimi-k2.6", [{**EFFORT, "reasoning": {"effort": 1e400}}], None, None),
    ],
)
def test_the_effort_that_was_asked_for_last_counts(
    model: str, items: list[Json], effort: Any, sent: Any
) -> None:
    fields = {} if effort is None else {"reasoning": {"effort": effort}}
    made = of_input(user("x"), *items, user("y"), model=model, **fields)
    assert made.chat.get("reasoning_effort", None if sent is None else "") == sent or sent is None
    assert made.messages == [{"role": "user", "content": each} for each in "xy"]


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (
            {"type": "input_audio", "audio_url": "data:audio/wav;base64,UklGRg=="},
            "Audio was left out",
        ),
        (encrypted(CIPHERTEXT), "encrypted for another provider"),
    ],
)
def test_parts_that_cannot_be_sent_are_a_line(part: Json, line: str) -> None:
    for role in ("user", "developer", "assistant"):
        made = of_input({"role": role, "content": [part]}, user("x"))
        assert line in made.messages[0]["content"]
    made = of_input(user("x"), call("a"), output("a", [part]))
    assert line in made.messages[2]["content"]
    assert any(note.startswith("left out part") for note in made.notes)


def test_the_text_of_unknown_parts_and_items_is_sent_and_no_data() -> None:
    odd = {"type": "new_part", "text": f"seen {CIPHERTEXT}", "blob": "QUJD" * 200}
    made = converted({"model": "m", "input": [user([odd]), {"type": "new_item", "content": [odd]}]})
    assert [m["content"] for m in made.messages] == ["seen (data left out)"] * 2
    assert "sent as text part new_part" in made.notes
    spoken = {"type": "output_audio", "data": "QUJD" * 200, "transcript": "seen"}
    for role in ("developer", "assistant"):
        made = of_input({"role": role, "content": [spoken]}, user("x"))
        assert made.messages[0]["content"] == "seen"
        assert "sent as text part output_audio" in made.notes
