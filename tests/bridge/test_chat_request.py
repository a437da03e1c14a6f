"""A chat request leaves in the form that its model's hosts take, and else as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.bridge.cure import chat_request
from dragoman.bridge.cure.chat_history import NO_OUTPUT
from dragoman.bridge.cure.chat_request import cure_request
from dragoman.bridge.cure.moonshot_schema import TooLarge, moonshot_schema
from dragoman.bridge.host_requirements import family_of
from dragoman.notes import Evidence
from dragoman.wire.json_codec import dumps, loads
from dragoman.wire.request_bounds import MAX_VALUES

from .converting import Cured, cured
from .json_schemas import refusals

Json = dict[str, Any]
KIMI, K2, DEEPSEEK, QWEN = "kimi-k3", "kimi-k2.6", "deepseek-v4-pro", "qwen3.5-plus"
PARTS = [{"type": "text", "text": "p"}]
USER = {"role": "user", "content": "x"}


def cure(*messages: Any, model: str = KIMI, **fields: Any) -> Cured:
    request = {"model": model, "messages": list(messages), **fields}
    before = dumps(request)
    made = cured(request, family_of(model))
    assert dumps(request) == before, "the client's request is as it was"
    assert cured(made.request, family_of(model)).request is made.request
    assert (made.request is request) == (not made.notes)
    return made


def call(call_id: Any, name: str = "run", arguments: Any = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calling(*calls: Any, **fields: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def output(call_id: str, content: Any = "done") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


WHOLE = [
    {"role": "system", "content": "s"},
    {**USER, "name": "me"},
    calling(call("functions.run:0"), call("functions.read:7", "read"), reasoning_content="hm"),
    output("functions.run:0"),
    output("functions.read:7", [{"type": "text", "text": "B"}]),
    {"role": "assistant", "content": "ok", "reasoning_content": ""},
]


@pytest.mark.parametrize("model", [KIMI, K2, DEEPSEEK, "qwen3-coder", "some-model", "gpt-5.4"])
def test_what_is_taken_is_left_alone(model: str) -> None:
    assert cure(*WHOLE, model=model, stream=True, n=1).notes == ()


@pytest.mark.parametrize("model", ["qwen3-coder", "glm-4.7", "gpt-oss-120b", "some-model", KIMI])
@pytest.mark.parametrize(
    "cut", ['{"command": "git pu', "{", "[1]", '"ls"', '{"a": {"b": 1}', "\ufeff{}"]
)
def test_arguments_that_a_limit_cut_are_wrapped_for_every_family(model: str, cut: str) -> None:
    id_ = "functions.run:0"
    before = calling(call(id_), call("functions.run:1", arguments=cut), reasoning_content="hm")
    made = cure(USER, before, output(id_), output("functions.run:1"), model=model)
    first, second = made.request["messages"][1]["tool_calls"]
    assert first == call(id_)
    assert loads(second["function"]["arguments"].encode()) == {"invalid_arguments": cut}
    assert made.request["messages"][2:] == [output(id_), output("functions.run:1")]
    assert made.notes == (("wrapped", "invalid arguments of run"),)


@pytest.mark.parametrize("given", ["", " ", None, {"command": "ls"}, "{}", '{"a": 1} '])
def test_arguments_that_hosts_take_are_left_alone(given: Any) -> None:
    made = cure(USER, calling(call("x", arguments=given)), output("x"), model="some-model")
    assert not made.notes


@pytest.mark.parametrize("given", ["", None, {"command": "ls"}])
def test_arguments_that_are_no_text_are_written_as_json_for_kimi(given: Any) -> None:
    id_ = "functions.run:0"
    before = calling(call(id_, arguments=given), reasoning_content="hm")
    made = cure(USER, before, output(id_), model=KIMI)
    (sent,) = made.request["messages"][1]["tool_calls"]
    assert loads(sent["function"]["arguments"].encode()) == (given or {})
    assert made.notes == (("written as JSON", "the arguments of run"),)


def test_what_only_others_refuse_is_left_alone() -> None:
    broken = [{"role": "developer", "content": ""}, calling(call("")), output("c"), calling()]
    fields = {"temperature": 0.3, "tool_choice": "required", "tools": [{"function": SCHEMA}]}
    assert cure(*broken, model="some-model", **fields).notes == ()


SCHEMA = {"name": "run", "parameters": {"properties": {"a": {"$ref": "#/definitions/A"}}}}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, {"reasoning_content": " "}),
        ({"reasoning_content": ""}, {"reasoning_content": " "}),
        ({"reasoning_content": None}, {"reasoning_content": " "}),
        ({"reasoning": "hm"}, {"reasoning": "hm", "reasoning_content": "hm"}),
        ({"reasoning_content": "hm"}, {"reasoning_content": "hm"}),
    ],
)
def test_reasoning_is_never_missing_at_kimis_hosts(given: Json, sent: Json) -> None:
    made = cure(USER, calling(call("a"), **given), output("a")).request
    assert made["messages"][1] == calling(call("a"), **sent)


def test_deepseek_gets_all_reasoning_or_none() -> None:
    said = {"role": "assistant", "content": "ok"}
    assert cure(USER, said, USER, model=DEEPSEEK).notes == ()
    made = cure(USER, said, USER, calling(call("a")), output("a"), said, model=DEEPSEEK).request
    reasons = [m.get("reasoning_content") for m in made["messages"] if m["role"] == "assistant"]
    assert reasons == [None, "", ""]


@pytest.mark.parametrize("model", [KIMI, DEEPSEEK])
@pytest.mark.parametrize(
    ("messages", "meant"),
    [
        ([calling(call("a"))], [calling(call("a")), output("a", NO_OUTPUT)]),
        (
            [calling(call("a"), call("b")), output("b"), USER, output("a")],
            [calling(call("a"), call("b")), output("a"), output("b"), USER],
        ),
        (
            [USER, output("a", "A")],
            [USER, {"role": "user", "content": "[Output of an earlier tool call:]\nA"}],
        ),
        (
            [calling(call(""), call("")), output("", "1"), output("", "2")],
            [calling(call("call_0"), call("call_1")), output("call_0", "1"), output("call_1", "2")],
        ),
        (
            [calling(call("a", arguments='{"x":')), output("a")],
            [calling(call("a", arguments='{"invalid_arguments":"{\\"x\\":"}')), output("a")],
        ),
        (
            [calling(call("a", arguments="\ufeff{}"), call("b", arguments="{\0}\0"))],
            [
                calling(
                    call("a", arguments='{"invalid_arguments":"\ufeff{}"}'),
                    call("b", arguments='{"invalid_arguments":"{\\u0000}\\u0000"}'),
                ),
                output("a", NO_OUTPUT),
                output("b", NO_OUTPUT),
            ],
        ),
        (
            [calling(call("a", arguments={"x": 1})), output("a")],
            [calling(call("a", arguments='{"x":1}')), output("a")],
        ),
        ([{"role": "developer", "content": "s"}], [{"role": "system", "content": "s"}]),
    ],
)
def test_a_history_is_made_whole(messages: list[Json], meant: list[Json], model: str) -> None:
    made = cure(USER, *messages, USER, model=model).request["messages"]
    for message in made:
        message.pop("reasoning_content", None)
    assert made == [USER, *meant, USER]


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ({"role": "assistant", "content": ""}, []),
        ({"role": "assistant", "content": None, "reasoning_content": "hm"}, []),
        ({"role": "assistant", "content": [{"type": "text", "text": ""}]}, []),
        ({"role": "user", "content": []}, []),
        (
            {"role": "user", "content": [{"type": "text", "text": t} for t in ("", "a")]},
            [{"role": "user", "content": [{"type": "text", "text": "a"}]}],
        ),
    ],
)
def test_what_says_nothing_is_left_out(message: Json, meant: list[Json]) -> None:
    assert cure(USER, message, USER).request["messages"] == [USER, *meant, USER]
    at_deepseek = [] if message["content"] is None else [message]
    made = cure(USER, message, USER, model=DEEPSEEK).request["messages"]
    assert made == [USER, *at_deepseek, USER]


@pytest.mark.parametrize(
    ("model", "fields", "sent"),
    [
        (KIMI, {"tool_choice": "required"}, {"tool_choice": "auto"}),
        (DEEPSEEK, {"tool_choice": {"type": "function"}}, {"tool_choice": "auto"}),
        (KIMI, {"tool_choice": "none"}, {"tool_choice": "none"}),
        (KIMI, {"temperature": 0.3, "top_p": 1, "seed": 1}, {"seed": 1}),
        (KIMI, fields := {"temperature": 1, "top_p": 0.95, "frequency_penalty": 0.0}, fields),
        (KIMI, {"temperature": True, "top_p": "0.95"}, {}),
        (KIMI, {"temperature": None}, {"temperature": None}),
        *(
            (
                K2,
                {"thinking": {"type": "disabled"}, **given},
                {"thinking": {"type": "disabled"}, **sent},
            )
            for given, sent in (({"temperature": 0.6},) * 2, ({"temperature": 1}, {}))
        ),
        (DEEPSEEK, {"temperature": 0.3}, {"temperature": 0.3}),
        *(
            (model, fields := {"tool_choice": "required", "thinking": off}, fields)
            for model in (K2, DEEPSEEK)
            for off in ({"type": "disabled"}, {"type": "disabled", "budget_tokens": 0})
        ),
    ],
)
def test_fields_that_thinking_models_refuse(model: str, fields: Json, sent: Json) -> None:
    assert cure(USER, model=model, **fields).request == {"model": model, "messages": [USER], **sent}


def test_schemas_of_tools_and_of_answers_are_rewritten_for_moonshot() -> None:
    tools = [{"type": "function", "function": {**SCHEMA, "strict": True}}, {"type": "web"}]
    answer = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA["parameters"]}}
    made = cure(USER, tools=tools, response_format=answer).request
    function = made["tools"][0]["function"]
    assert refusals(function["parameters"]) == []
    assert made["response_format"]["json_schema"]["schema"] == function["parameters"]
    assert (function["strict"], made["tools"][1]) == (True, {"type": "web"})
    assert cure(USER, model=DEEPSEEK, tools=tools).notes == ()


@pytest.mark.parametrize(("fault", "what"), [(KeyError, "odd"), (TooLarge, "large")])
def test_a_fault_in_one_schema_leaves_it_alone(
    fault: type[Exception], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(schema: Json) -> Any:
        if "faulty" in schema:
            raise fault
        return moonshot_schema(schema)

    monkeypatch.setattr(chat_request, "moonshot_schema", faulty)
    tool = {"function": {"name": "run", "parameters": {"faulty": 1}}}
    made = cured({"messages": [USER], "tools": [tool, {"function": SCHEMA}]}, family_of(KIMI))
    assert made.request["tools"][0] is tool
    assert refusals(made.request["tools"][1]["function"]["parameters"]) == []
    assert ("left as it is", f"the {what} schema of tool run") in made.notes


def test_calls_of_kimi_k2_have_ids_that_hold_their_names() -> None:
    """Its template prints the id, and the name nowhere else."""
    history = [
        calling(call("call_1"), call("functions.run:1"), call("gw-x", "read")),
        *(output(given) for given in ("call_1", "functions.run:1", "gw-x")),
        calling(call("functions.read:0"), call("", "read"), call("functions.read:0x", "read")),
    ]
    made = cure(USER, *history, model=K2).request["messages"]
    ids = [c["id"] for message in made for c in message.get("tool_calls", ())]
    assert ids[:3] == ["functions.run:0", "functions.run:1", "functions.read:2"]
    assert ids[3:] == ["functions.run:3", "functions.read:4", "functions.read:5"]
    assert [message.get("tool_call_id") for message in made if message["role"] == "tool"] == ids
    assert cure(USER, *history).request["messages"][1]["tool_calls"] == history[0]["tool_calls"]


def test_an_id_that_was_made_is_that_of_one_call() -> None:
    """A model counts otherwise, and may come to the number later."""
    own = [calling(call("functions.run:1")), output("functions.run:1")]
    foreign = [calling(call("call_1")), output("call_1")]
    for model in (K2, KIMI):
        nameless = [calling(call("")), output("")]
        made = cure(USER, *own, *(foreign if model == K2 else nameless), *own, *own, model=model)
        ids = [c["id"] for m in made.request["messages"] for c in m.get("tool_calls", ())]
        outputs = [m["tool_call_id"] for m in made.request["messages"] if m["role"] == "tool"]
        assert ids == outputs
        assert ids.count(ids[1]) == 1
        assert (ids[0], ids[2] == ids[0]) == ("functions.run:1", True)
    ahead = [calling(*(call(f"functions.run:{number}") for number in (2, 3)), call("x"), call("y"))]
    after = calling(call("functions.run:5"))
    made = cure(USER, *ahead, after, model=K2).request["messages"]
    ids = [c["id"] for m in made for c in m.get("tool_calls", ())]
    assert ids == [f"functions.run:{number}" for number in (2, 3, 4, 5, 6)]


def test_invalid_arguments_after_very_many_values_stay_as_they_are() -> None:
    many = call("functions.run:0", arguments=json.dumps({"a": [0] * MAX_VALUES}))
    cut = call("functions.run:1", arguments="{")
    made = cure(USER, calling(many, cut), output("functions.run:0"), output("functions.run:1"))
    assert made.request["messages"][1]["tool_calls"] == [many, cut]


def test_others_have_their_turn_after_each_message_and_tool() -> None:
    tool = {"type": "function", "function": {"name": "run"}}
    request = {"model": K2, "messages": [USER] * 20, "tools": [tool] * 30}
    assert sum(1 for _ in cure_request(request, family_of(K2), Evidence())) >= 50


@pytest.mark.parametrize("model", [K2, DEEPSEEK])
def test_a_tool_has_another_name_where_its_own_is_refused(model: str) -> None:
    def conversation(name: str, given: str) -> list[Json]:
        calls = calling(call(f"functions.{given}:0", name), reasoning_content="hm")
        return [USER, calls, {**output(f"functions.{given}:0"), "name": name}]

    tools = [{"type": "function", "function": {"name": name}} for name in ("a.b", "read")]
    fields = {"thinking": {"type": "disabled"}}
    choice = {"type": "function", "function": {"name": "a.b"}}
    sent = family_of(model).sent_tool_name("a.b")
    messages = conversation("a.b", sent)
    made = cure(*messages, model=model, tools=tools, tool_choice=choice, **fields)
    request = dumps(made.request)
    assert request == dumps(
        {
            "model": model,
            "messages": conversation(sent, sent),
            "tools": [{"type": "function", "function": {"name": n}} for n in (sent, "read")],
            "tool_choice": {"type": "function", "function": {"name": sent}},
            **fields,
        }
    )
    assert made.notes == (("renamed", f"tool a.b to {sent}"),)
    said = {"content": f'"name":"{sent}"', "tool_calls": [call("x", sent), call("y", "read")]}
    reply = made.tool_names.restored(dumps({"choices": [{"delta": said}]}))
    meant = {**said, "tool_calls": [call("x", "a.b"), call("y", "read")]}
    assert loads(reply) == {"choices": [{"delta": meant}]}


@pytest.mark.parametrize(
    ("messages", "meant"),
    [
        (
            [("system", "a"), ("developer", "b"), ("user", "x"), ("system", "c")],
            [("system", "a\n\nb"), ("user", "x"), ("user", "[Message of the system:]\nc")],
        ),
        (
            [("system", "a"), ("system", PARTS), ("assistant", "x"), ("developer", PARTS)],
            [
                ("system", [{"type": "text", "text": "a"}, *PARTS]),
                ("assistant", "x"),
                ("user", [{"type": "text", "text": "[Message of the developer:]"}, *PARTS]),
            ],
        ),
    ],
)
def test_qwen_has_one_system_message_at_the_start(messages: Any, meant: Any) -> None:
    given, sent = ([{"role": r, "content": c} for r, c in each] for each in (messages, meant))
    assert cure(*given, model="qwen3.5-plus").request["messages"] == sent
    assert cure({"role": "system", "content": ""}, USER, model="MiniMax-M2").notes == ()


CONTENTS = st.sampled_from(["", "a", None, [], [{"type": "text", "text": ""}]])
IDS = st.sampled_from(["a", "b", "", "functions.run:1", "call_0"])
ROLES = st.sampled_from(["developer", "system"])
CALLS = st.builds(call, IDS, arguments=st.sampled_from(["{}", "", "{", "[]"]))
MESSAGES = st.one_of(
    st.builds(lambda c: {"role": "user", "content": c}, CONTENTS),
    st.builds(lambda role, c: {"role": role, "content": c}, ROLES, CONTENTS),
    st.builds(output, IDS, CONTENTS),
    st.builds(lambda c: {"role": "assistant", "content": c}, CONTENTS),
    st.builds(lambda c: calling(*c), st.lists(CALLS, min_size=1, max_size=3)),
    st.sampled_from([None, 1, {"role": 3}, {"role": "assistant", "tool_calls": [1, {}]}]),
)


@given(
    st.lists(MESSAGES, max_size=8),
    st.lists(MESSAGES, max_size=4),
    st.sampled_from([KIMI, K2, DEEPSEEK, QWEN]),
    st.sampled_from(["x", ""]),
    st.sampled_from(["next", "", None]),
)
@example([calling(call("a"))], [output("a")], KIMI, "x", "")
@example([calling(call("a"))], [output("a")], DEEPSEEK, "x", None)
@example([calling(call("a"))], [output("a")], KIMI, "", "next")
def test_any_history_is_whole_and_a_turn_begins_with_the_one_before(
    messages: list[Any], more: list[Any], model: str, asked: str, next_text: str | None
) -> None:
    messages = [USER, *messages, {"role": "user", "content": asked}]
    made = cure(*messages, model=model).request["messages"]
    waiting: list[Any] = []
    for message in made if model != QWEN else ():
        if not isinstance(message, dict):
            continue
        if message.get("role") == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        assert message.get("role") != "developer"
        known = [c for c in message.get("tool_calls", ()) if isinstance(c, dict) and c]
        waiting = [c["id"] for c in known]
        assert all(waiting) and len({*waiting}) == len(waiting)
        assert all(isinstance(loads(c["function"]["arguments"]), dict) for c in known)
        assert not known or message["reasoning_content"] == ("" if model == DEEPSEEK else " ")
        assert (
            model == DEEPSEEK
            or message.get("role") not in ("user", "assistant")
            or (message.get("content") or message.get("tool_calls"))
        )
    if model == QWEN:
        roles = [m.get("role") for m in made if isinstance(m, dict)]
        assert not {"system", "developer"} & {*roles[1:]}
    spoke = {"role": "assistant", "content": next_text}
    later = cure(*messages, spoke, *more, model=model).request["messages"]
    assert dumps(later).startswith(dumps(made)[:-1])


MISTRAL = "mistral-large-latest"


def test_turns_alternate_for_mistral() -> None:
    begin = [USER, calling(call("a")), output("a")]
    made = cure(*begin, {**USER, "content": "stop"}, {**USER, "content": PARTS}, model=MISTRAL)
    parts = [{"type": "text", "text": "stop"}, *PARTS]
    said = {"role": "assistant", "content": "Understood."}
    assert made.request["messages"] == [*begin, said, {"role": "user", "content": parts}]


def test_turns_that_alternate_stay_as_they_are_for_mistral() -> None:
    said = {"role": "assistant", "content": "ok"}
    messages = [
        {"role": "system", "content": "s"},
        USER,
        calling(call("a")),
        output("a"),
        said,
        USER,
    ]
    assert cure(*messages, model=MISTRAL).notes == ()
