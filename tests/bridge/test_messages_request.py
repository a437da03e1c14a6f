"""What hosts of open models refuse in requests of the Messages API, and how these leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.cure.chat_request import cure_request
from dragoman.bridge.cure.messages_request import as_chat, cure_messages
from dragoman.bridge.cure.tool_names import ToolNames
from dragoman.bridge.host_requirements import family_of
from dragoman.bridge.reader_writer_pairs import declared, repair_whole, tools_of
from dragoman.messages.tools import MessagesTools
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.stored.turn_reasoning import History
from dragoman.wire.json_codec import dumps
from tests.counting import calls_of

from .converting import drained
from .messages_streams import K2, REQUEST, Json, document, stream

USER = {"role": "user", "content": "List the files."}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}}
SAID = {"type": "text", "text": "I look."}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
BLANK = {"type": "thinking", "thinking": " ", "signature": ""}
REDACTED = {"type": "redacted_thinking", "data": "x"}
REMINDER = {"type": "text", "text": "<system-reminder>\nBe brief.\n</system-reminder>"}


def cured_with_names(request: Json) -> tuple[Json, ToolNames, list[str]]:
    evidence = Evidence()
    made = drained(cure_messages(request, family_of(request["model"]), evidence))
    assert (made.request is request) == (made.request == request)
    return made.request, made.tool_names, [f"{what} {detail}" for what, detail in evidence.notes]


def cured(model: str = "kimi-k2.5", **fields: Any) -> tuple[Json, list[str]]:
    sent, _, notes = cured_with_names({**REQUEST, "model": model, **fields})
    return sent, notes


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
        (assistant(REDACTED, SAID, CALL), assistant(BLANK, SAID, CALL)),
        (assistant(REDACTED, THOUGHT, CALL), None),
        (assistant(REDACTED, SAID), None),
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


ONE, TWO = system("One."), system([{"type": "text", "text": "Two."}])


def results(*said: str) -> Json:
    return user(*({**RESULT, "content": each} for each in said))


def reminded(*said: str) -> list[Json]:
    return [
        {"type": "text", "text": f"<system-reminder>\n{each}\n</system-reminder>"} for each in said
    ]


def joined(result: str, *said: str) -> Json:
    return user({**RESULT, "content": [{"type": "text", "text": result}, *reminded(*said)]})


ASKED = assistant(THOUGHT, CALL)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([ASKED, ONE, results("a")], [ASKED, joined("a", "One.")]),
        ([ASKED, ONE, TWO, results("a")], [ASKED, joined("a", "One.", "Two.")]),
        ([ASKED, ONE, results("a"), TWO], [ASKED, joined("a", "One.", "Two.")]),
        (
            [ASKED, ONE, results("a"), results("b"), USER],
            [ASKED, results("a"), joined("b", "One."), USER],
        ),
        (
            [ASKED, ONE, results("a"), TWO, results("b")],
            [ASKED, results("a"), joined("b", "One.", "Two.")],
        ),
        (
            [ASKED, ONE, user(RESULT, SAID)],
            [ASKED, user(RESULT, SAID), user(*reminded("One."))],
        ),
        # No result follows.
        ([ASKED, ONE, USER], [ASKED, user(*reminded("One.")), USER]),
        ([ASKED, ONE], [ASKED, user(*reminded("One."))]),
        ([assistant(SAID), ONE, USER], [assistant(SAID), user(*reminded("One.")), USER]),
        # It stands after results already.
        ([results("a"), ONE, results("b")], [joined("a", "One."), results("b")]),
    ],
)
def test_a_system_message_between_calls_and_their_results_comes_after_these(
    given: list[Json], sent: list[Json]
) -> None:
    assert cured_messages(*given) == sent


BILLING = "x-anthropic-billing-header: cc_version=2.1.153.a1b; cc_entrypoint=cli; cch=9f3e2;"


@pytest.mark.parametrize("model", ["kimi-k2.5", "qwen3-coder", "some-model", "claude-sonnet-5"])
def test_the_billing_header_is_left_out_for_every_model(model: str) -> None:
    rest = [{"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "x"}}]
    given = [{"type": "text", "text": BILLING}, *rest]
    sent, notes = cured(model, system=given)
    assert sent["system"] == rest and notes == ["left out the billing header"]
    sent, _ = cured(model, system=given[:1])
    assert "system" not in sent
    assert cured(model, system=rest)[1] == []


def test_a_model_of_no_known_family_takes_all_else() -> None:
    history = [USER, system("One."), user({"type": "document", "title": "A"}), assistant(CALL)]
    search = {"type": "web_search_20250305", "name": "web_search"}
    for model in ("some-model", "claude-sonnet-5"):
        more: Json = {
            "messages": history,
            "tools": [search, NULLABLE],
            "tool_choice": {"type": "any"},
        }
        assert cured(model, **more)[1] == []


NULLABLE = {
    "name": "read",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": ["string", "null"], "minLength": 1}},
        "required": ["path", "missing"],
    },
    "cache_control": {"type": "ephemeral"},
}


def test_moonshots_rules_for_schemas_hold_as_in_chat() -> None:
    tools = [REQUEST["tools"][0], NULLABLE, {"type": "bash_20250124", "name": "bash"}, 7]
    form = {"type": "json_schema", "schema": NULLABLE["input_schema"]}
    sent, notes = cured(tools=tools, output_config={"effort": "high", "format": form})
    chat = drained(
        cure_request(
            {
                "messages": [],
                "tools": [{"function": {"name": "read", "parameters": NULLABLE["input_schema"]}}],
            },
            family_of("kimi-k2.5"),
            Evidence(),
        )
    ).request
    schema = chat["tools"][0]["function"]["parameters"]
    assert schema != NULLABLE["input_schema"]
    assert sent["tools"] == [tools[0], {**NULLABLE, "input_schema": schema}, *tools[2:]]
    assert sent["tools"][0] is tools[0]
    assert sent["output_config"] == {"effort": "high", "format": {**form, "schema": schema}}
    assert "rewritten for Moonshot the schema of tool read" in notes
    assert "rewritten for Moonshot the schema of output_config" in notes
    for model in ("deepseek-v4", "glm-5.2"):
        assert cured(model, tools=tools, output_config={"format": form})[1] == []


def test_a_tool_that_a_message_adds_is_declared_as_that_becomes_the_users() -> None:
    late = {"name": "late", "input_schema": {"type": "object"}}
    definition = {"type": "tool_definition", "definition": late}
    told = system([{"type": "tool_addition", "tool": definition}])
    sent, notes = cured("deepseek-v4", messages=[USER, told])
    assert sent["tools"] == [*REQUEST["tools"], late]
    assert "Loaded: late" in json.dumps(sent["messages"][1])
    assert "declared a tool that a message adds" in notes
    again = {**REQUEST["tools"][0], "description": "New."}
    told = system([{"type": "tool_addition", "tool": {**definition, "definition": again}}])
    assert cured("deepseek-v4", messages=[USER, told])[0]["tools"] == [again]


def test_a_tool_whose_name_is_no_text_is_sent_as_it_came() -> None:
    odd = {"name": ["x"], "input_schema": {"type": "object"}}
    late = {"name": "late", "input_schema": {"type": "object"}}
    definition = {"type": "tool_definition", "definition": late}
    told = system([{"type": "tool_addition", "tool": definition}])
    sent, _ = cured("deepseek-v4", messages=[USER, told], tools=[odd])
    assert sent["tools"] == [odd, late]


def test_names_that_moonshot_refuses_are_sent_as_in_chat() -> None:
    tool = {**REQUEST["tools"][0], "name": "ls"}
    name = family_of("kimi-k2.5").sent_tool_name("ls")
    loaded = {**RESULT, "content": [{"type": "tool_reference", "tool_name": "ls"}]}
    request: Json = {
        "messages": [USER, assistant(THOUGHT, {**CALL, "name": "ls"}), user(loaded)],
        "tools": [tool],
        "tool_choice": {"type": "tool", "name": "ls"},
        "thinking": {"type": "disabled"},
    }
    request = {**REQUEST, "model": "kimi-k2.5", **request}
    sent, names, _ = cured_with_names(request)
    assert name != "ls"
    assert [tool["name"] for tool in sent["tools"]] == [name]
    assert sent["tool_choice"] == {"type": "tool", "name": name}
    (_, call, result) = sent["messages"]
    assert call["content"][1] == {**CALL, "name": name}
    assert result["content"][0]["content"] == [{"type": "text", "text": f"Loaded: {name}"}]
    # The reply has the client's: of native calls, and of leaked ones by either name.
    tools = MessagesTools(names.with_aliases(declared(tools_of(sent, "messages", request))))
    leaks = [K2.replace("bash", each) for each in (name, "ls")]
    for block in (("tool_use", (name, ["{}"])), *(("text", [leak]) for leak in leaks)):
        for body in (stream([block]), json.dumps(document([block])).encode()):
            reply = names.restored(repair_whole(body, tools, RepairOptions(), Evidence(), 7))
            assert b'"name":"ls"' in reply.replace(b": ", b":") and name.encode() not in reply


def test_each_of_many_system_messages_after_an_output_costs_the_same() -> None:
    def calls(count: int) -> int:
        return calls_of(lambda: cured_messages(user(RESULT), *[system("Be brief.")] * count))

    (joined,) = cured_messages(user(RESULT), *[system("Be brief.")] * 3)
    assert joined["content"][0]["content"][1:] == [REMINDER] * 3
    assert calls(300) - calls(200) <= calls(200) - calls(100)


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            {"type": "document", "title": "A", "source": {"type": "text", "data": "One."}},
            '<document title="A">\nOne.\n</document>',
        ),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}},
            "[document: no title. It was left out: this host takes no PDF. To read it, use a tool "
            "that gives its text.]",
        ),
        ({"type": "tool_reference", "tool_name": "Grep"}, "Loaded: Grep"),
        (
            {"type": "server_tool_use", "name": "web_search", "id": "s", "input": {"query": "x y"}},
            "[server_tool_use: web_search, x y]",
        ),
        (
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "T"}]},
            "<web_search_tool_result>\nT\n</web_search_tool_result>",
        ),
        ({"type": 7}, "[: ]"),
    ],
)
def test_a_block_of_anthropics_servers_is_a_text(block: Json, line: str) -> None:
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
