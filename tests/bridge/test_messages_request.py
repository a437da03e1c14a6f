"""What hosts of open models refuse in requests of the Messages API, and how these leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.cure.messages_request import as_chat, cure_messages
from dragoman.bridge.model_families import family_of
from dragoman.notes import Evidence
from dragoman.stored.turn_reasoning import History
from dragoman.wire.json_codec import dumps
from tests.counting import calls_of

from .converting import drained
from .messages_streams import REQUEST, Json

USER = {"role": "user", "content": "List the files."}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}}
SAID = {"type": "text", "text": "I look."}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
BLANK = {"type": "thinking", "thinking": " ", "signature": ""}
REMINDER = {"type": "text", "text": "<system-reminder>\nBe brief.\n</system-reminder>"}


def cured(model: str = "kimi-k2.5", **fields: Any) -> tuple[Json, list[str]]:
    request, evidence = {**REQUEST, "model": model, **fields}, Evidence()
    sent = drained(cure_messages(request, family_of(model), evidence))
    assert (sent is request) == (sent == request)
    return sent, [f"{what} {detail}" for what, detail in evidence.notes]


def cured_messages(*messages: Json, model: str = "kimi-k2.5") -> list[Json]:
    sent: list[Json] = cured(model, messages=list(messages))[0]["messages"]
    return sent


def history_of(*messages: Json) -> History:
    return drained(History.of(as_chat(messages)))


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def system(content: Any) -> Json:
    return {"role": "system", "content": content}


@pytest.mark.parametrize("model", ["kimi-k2.5", "kimi-k3", "deepseek-v4", "moonshotai/kimi-k2.7"])
def test_a_call_without_thoughts_gets_blank_ones(model: str) -> None:
    for given, sent in (
        (assistant(SAID, CALL), assistant(BLANK, SAID, CALL)),
        (assistant(THOUGHT, CALL), assistant(THOUGHT, CALL)),
        (assistant({"type": "redacted_thinking", "data": "x"}, CALL), None),
        (assistant({"type": "thinking", "thinking": ""}, CALL), assistant(BLANK, CALL)),
        (assistant(SAID), assistant(SAID)),
        ({"role": "assistant", "content": "Done."}, None),
    ):
        wanted = [USER, sent or given, user(RESULT)]
        assert cured_messages(USER, given, user(RESULT), model=model) == wanted


def test_where_nothing_is_refused_a_request_is_the_very_object() -> None:
    history = [USER, assistant(THOUGHT, SAID, CALL), user(RESULT), assistant(SAID)]
    assert cured(messages=history)[1] == []
    off: Json = {"type": "disabled"}
    assert (
        cured("deepseek-v4", messages=history, thinking=off, tool_choice={"type": "any"})[1] == []
    )
    for odd in (None, "x", [None, 1, {}], [{"role": "user", "content": None}, {"role": 7}]):
        assert cured(messages=odd)[1] == []


def test_remembered_thoughts_stand_before_their_call() -> None:
    message = assistant(SAID, CALL) | {"reasoning_content": "Let me see."}
    (_, sent, _) = cured_messages(USER, message, user(RESULT))
    assert sent == assistant({**BLANK, "thinking": "Let me see."}, SAID, CALL)


@pytest.mark.parametrize(
    ("model", "given", "sent"),
    [
        ("kimi-k2.7", "adaptive", "enabled"),
        ("kimi-k2.7", "disabled", "enabled"),
        ("kimi-k2.5", "adaptive", "enabled"),
        ("kimi-k2.5", "disabled", "disabled"),
        ("kimi-k2-0905", "adaptive", "adaptive"),
        ("deepseek-v4", "adaptive", "adaptive"),
    ],
)
def test_thinking_is_of_a_type_that_is_taken(model: str, given: str, sent: str) -> None:
    assert cured(model, thinking={"type": given, "x": 1})[0]["thinking"] == {"type": sent, "x": 1}


@pytest.mark.parametrize("kind", ["any", "tool"])
def test_a_model_that_thinks_is_not_forced_to_call(kind: str) -> None:
    choice = {"type": kind, "name": "bash", "disable_parallel_tool_use": True}
    sent, notes = cured("deepseek-v4", tool_choice=choice)
    assert sent["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert notes == [f"downgraded to auto tool_choice {kind} (deepseek)"]


def test_a_search_of_the_web_beside_functions_is_left_out_for_glm() -> None:
    search, bash = {"type": "web_search_20250305", "name": "web_search"}, REQUEST["tools"][0]
    sent, notes = cured("glm-5.2", tools=[search, bash])
    assert sent["tools"] == [bash] and notes == ["left out web_search beside functions"]
    for tools in ([search], [bash], [bash, 1], None, "x"):
        assert cured("glm-5.2", tools=tools) == ({**sent, "tools": tools}, [])
    assert cured("kimi-k2.5", tools=[search, bash])[1] == []


def test_a_system_message_is_a_reminder_in_its_place() -> None:
    whole = [{"type": "text", "text": "Be brief."}]
    for content in ("Be brief.", whole, [{**whole[0], "cache_control": {"type": "ephemeral"}}]):
        assert cured_messages(USER, system(content)) == [USER, user(REMINDER)]
        (_, _, joined) = cured_messages(
            USER, assistant(THOUGHT, CALL), user(RESULT), system(content)
        )
        text = {"type": "text", "text": "a.txt"}
        assert joined == user({**RESULT, "content": [text, REMINDER]})


def test_each_of_many_system_messages_after_an_output_costs_the_same() -> None:
    def calls(count: int) -> int:
        return calls_of(lambda: cured_messages(user(RESULT), *[system("Be brief.")] * count))

    (joined,) = cured_messages(user(RESULT), *[system("Be brief.")] * 3)
    assert joined["content"][0]["content"][1:] == [REMINDER] * 3
    assert calls(300) - calls(200) <= calls(200) - calls(100)


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"type": "document", "title": "A.pdf", "source": {}}, "[document: A.pdf]"),
        ({"type": "tool_reference", "tool_name": "Grep"}, "Loaded: Grep"),
        (
            {"type": "server_tool_use", "name": "web_search", "id": "s", "input": {"query": "x y"}},
            "[server_tool_use: web_search, x y]",
        ),
        (
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "T"}]},
            "[web_search_tool_result: T]",
        ),
        ({"type": 7}, "[: ]"),
    ],
)
def test_a_block_of_anthropics_servers_is_a_line(block: Json, line: str) -> None:
    text = {"type": "text", "text": line}
    assert cured_messages(user(block, SAID)) == [user(text, SAID)]
    within = {**RESULT, "content": [block]}
    assert cured_messages(user(within)) == [user({**RESULT, "content": [text]})]


def test_each_request_of_a_conversation_begins_with_the_one_before() -> None:
    turns = [
        [USER, system([{"type": "text", "text": "Be brief."}])],
        [assistant(SAID, CALL), user(RESULT), system([{"type": "text", "text": "Now."}])],
        [assistant(CALL), user(RESULT, {"type": "document", "title": "B"})],
        [assistant(SAID), system("Be brief."), user(SAID)],
        [assistant(THOUGHT, CALL), user(RESULT)],
    ]
    before, messages = b"[", list[Json]()
    for turn in turns:
        # What was sent as blocks while it was the last is a text later.
        messages = [
            each | {"content": each["content"][0]["text"]}
            if each["role"] == "system" and isinstance(each["content"], list)
            else each
            for each in messages
        ] + turn
        sent = dumps(cured_messages(*json.loads(json.dumps(messages))))
        assert sent.startswith(before)
        before = sent[:-1]


def test_a_turn_is_known_again_by_what_was_said_and_called() -> None:
    first, second = [USER], [USER, assistant(SAID, CALL), user(RESULT)]
    (lacking,) = history_of(*second).lacking
    (call,) = as_chat([assistant(THOUGHT, CALL)])[0]["tool_calls"]
    assert lacking.place == 1
    turn = history_of(*first, assistant(CALL), user(RESULT)).lacking[0]
    assert turn.names == lacking.names and call["function"]["name"] == "bash"
    other = history_of(user({"type": "text", "text": "x"}), *second[1:]).lacking[0]
    assert other.names != lacking.names
    assert not history_of(USER, assistant(THOUGHT, CALL), user(RESULT)).lacking
