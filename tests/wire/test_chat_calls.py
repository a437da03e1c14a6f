"""Which call an upstream delta belongs to, for every way hosts have of not saying it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.responses.dialects import DIALECTS
from dragoman.wire.chat_calls import Call
from dragoman.wire.sse import Frame

from ..bridge.replying import call, calls, chunk, ended, feed, new_reply, run, sse, text

A, B = '{"a":1}', '{"b":[2,{"c":"}"}]}'

# Every one of these streams is the two calls echo(A) and weather(B).
SHAPES: dict[str, list[Any]] = {
    "well behaved": [
        calls(call(0, "", name="echo", call_id="x")),
        calls(call(0, A[:3])),
        calls(call(0, A[3:])),
        calls(call(1, "", name="weather", call_id="y")),
        calls(call(1, B[:5])),
        calls(call(1, B[5:])),
    ],
    "each in one piece": [
        calls(call(0, A, name="echo", call_id="x")),
        calls(call(1, B, name="weather", call_id="y")),
    ],
    "both in one chunk": [
        calls(call(0, A, name="echo", call_id="x"), call(1, B, name="weather", call_id="y"))
    ],
    "both in one chunk, no index": [
        calls(call(None, A, name="echo", call_id="x"), call(None, B, name="weather", call_id="y"))
    ],
    "both in one chunk, no index and no id": [
        calls(call(None, A, name="echo"), call(None, B, name="weather"))
    ],
    "both in one chunk, the same index": [
        calls(call(0, A, name="echo", call_id="x"), call(0, B, name="weather", call_id="y"))
    ],
    "index missing": [
        calls(call(None, "", name="echo", call_id="x")),
        calls(call(None, A[:3])),
        calls(call(None, A[3:])),
        calls(call(None, "", name="weather", call_id="y")),
        calls(call(None, B)),
    ],
    "index of another type": [
        calls(call("0", "", name="echo", call_id="x")),
        calls(call("0", A)),
        calls(call(True, "", name="weather", call_id="y")),
        calls(call([], B)),
    ],
    "index only in the head missing": [
        calls(call(None, "", name="echo", call_id="x")),
        calls(call(0, A)),
        calls(call(None, "", name="weather", call_id="y")),
        calls(call(1, B)),
    ],
    "index always 0": [
        calls(call(0, "", name="echo", call_id="x")),
        calls(call(0, A)),
        calls(call(0, "", name="weather", call_id="y")),
        calls(call(0, B[:4])),
        calls(call(0, B[4:])),
    ],
    "index from 1": [
        calls(call(1, A, name="echo", call_id="x")),
        calls(call(2, B, name="weather", call_id="y")),
    ],
    "index wrong in the continuation": [
        calls(call(0, A[:3], name="echo", call_id="x")),
        calls(call(1, A[3:])),
        calls(call(1, B[:3], name="weather", call_id="y")),
        calls(call(2, B[3:])),
    ],
    "index wrong, id repeated": [
        calls(call(0, A[:3], name="echo", call_id="x")),
        calls(call(1, A[3:], call_id="x")),
        calls(call(1, B[:3], name="weather", call_id="y")),
        calls(call(0, B[3:], call_id="y")),
    ],
    "id and name in every delta": [
        calls(call(0, A[:3], name="echo", call_id="x")),
        calls(call(0, A[3:], name="echo", call_id="x")),
        calls(call(1, B[:3], name="weather", call_id="y")),
        calls(call(1, B[3:], name="weather", call_id="y")),
    ],
    "id and name in every delta, no index": [
        calls(call(None, A[:3], name="echo", call_id="x")),
        calls(call(None, A[3:], name="echo", call_id="x")),
        calls(call(None, B[:3], name="weather", call_id="y")),
        calls(call(None, B[3:], name="weather", call_id="y")),
    ],
    "another id in every delta": [
        calls(call(0, A[:3], name="echo", call_id="x")),
        calls(call(0, A[3:], call_id="x2")),
        calls(call(1, B[:3], name="weather", call_id="y")),
        calls(call(1, B[3:], call_id="y2")),
    ],
    "another id and another index in every delta": [
        calls(call(0, "", name="echo", call_id="x")),
        calls(call(1, A[:3], name="", call_id="x2")),
        calls(call(2, A[3:], name="", call_id="x3")),
        calls(call(3, B[:3], name="weather", call_id="y")),
        calls(call(4, B[3:], name="", call_id="y2")),
    ],
    "empty id and name later": [
        calls(call(0, A[:3], name="echo", call_id="x")),
        calls(call(0, A[3:], name="", call_id="")),
        calls(call(1, B[:3], name="weather", call_id="y")),
        calls(call(1, B[3:], name="", call_id="")),
    ],
    "id first, name later": [
        calls(call(0, None, call_id="x")),
        calls(call(0, None, name="echo")),
        calls(call(0, A)),
        calls(call(1, None, call_id="y")),
        calls(call(1, B, name="weather")),
    ],
    "name after the arguments": [
        calls(call(0, A, call_id="x")),
        calls(call(0, None, name="echo")),
        calls(call(1, B[:3], call_id="y")),
        calls(call(1, B[3:])),
        calls(call(1, None, name="weather")),
    ],
    "mixed": [
        calls(call(0, "", name="echo", call_id="x"), call(1, "", name="weather", call_id="y")),
        calls(call(1, B[:3])),
        calls(call(0, A[:3]), call(1, B[3:6])),
        calls(call(0, A[3:])),
        calls(call(1, B[6:])),
    ],
    "mixed, second whole first": [
        calls(call(0, A[:2], name="echo", call_id="x"), call(1, B, name="weather", call_id="y")),
        calls(call(0, A[2:])),
    ],
    "silent deltas between": [
        calls(call(0, A, name="echo", call_id="x")),
        calls(call(0, "")),
        calls({}, None, 3, {"index": 5, "function": {"name": "", "arguments": ""}}),
        calls(call(1, B, name="weather", call_id="y")),
        chunk({"tool_calls": {}}),
    ],
    "arguments that are an object": [
        calls(
            call(0, json.loads(A), name="echo", call_id="x"),
            call(1, json.loads(B), name="weather", call_id="y"),
        )
    ],
    "null where there is nothing": [
        calls(call(0, A, name="echo", call_id="x") | {"type": "function"}),
        calls({"index": 0, "id": None, "type": None, "function": None}),
        calls({"index": 1, "id": "y", "function": {"name": "weather", "arguments": None}}),
        calls({"index": 1, "id": None, "function": {"name": None, "arguments": B}}),
    ],
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_of_two_calls_is_the_same_two_calls(shape: str, dialect: Any) -> None:
    got = run([*SHAPES[shape], *ended("tool_calls")], dialect)
    functions = [item.get("function", item) for item in got.output]
    assert [function["name"] for function in functions] == ["echo", "weather"]
    assert [json.loads(f["arguments"]) for f in functions] == [json.loads(A), json.loads(B)]
    ids = [item["call_id"] for item in got.output]
    assert ids == ["x", "y"] if "no id" not in shape else len(set(ids)) == 2


@pytest.mark.parametrize("index", [0, None])
def test_the_same_function_twice_without_ids_is_two_calls(index: Any) -> None:
    one = calls(call(index, '{"n":1}', name="echo"))
    two = calls(call(index, '{"n":2}', name="echo"))
    got = run([one, two, *ended("tool_calls")])
    assert [item["arguments"] for item in got.output] == ['{"n":1}', '{"n":2}']


@pytest.mark.parametrize("rest", [["}"], ["2", "}"]])
def test_a_head_with_another_id_is_another_call_before_the_first_is_whole(rest: list[str]) -> None:
    one = calls(call(0, '{"n":1', name="echo", call_id="a"))
    two = calls(call(0, '{"n":2}', name="echo", call_id="b"))
    more = [calls(call(0, each, call_id="a")) for each in rest]
    got = run([one, two, *more, *ended("tool_calls")])
    first = '{"n":1' + "".join(rest)
    assert [item["arguments"] for item in got.output] == [first, '{"n":2}']


def test_of_two_heads_the_one_whose_arguments_stay_incomplete_is_not_completed() -> None:
    one = calls(call(0, '{"n":1', name="echo", call_id="a"))
    two = calls(call(0, '{"n":2}', name="echo", call_id="b"))
    got = run([one, two, *ended("tool_calls")])
    assert [item["arguments"] for item in got.output] == ['{"n":1', '{"n":2}']
    assert "invalid arguments of echo" in got.noted


@pytest.mark.parametrize("begun", ['{"n":', '{"n":[', '{"n":[1,', '{"n":"a'])
def test_an_object_that_may_be_a_value_of_the_call_before_is_no_call(begun: str) -> None:
    one = calls(call(0, begun, name="echo", call_id="a"))
    two = calls(call(0, '{"n":2}', name="echo", call_id="b"))
    (item,) = run([one, two, *ended("tool_calls")]).output
    assert item["arguments"] == begun + '{"n":2}'


def test_an_id_of_its_own_for_each_delta_is_no_other_call() -> None:
    pieces = ['{"n":"', "a", "{", "b", '"}']
    deltas = [call(0, each, name="echo", call_id=f"x{at}") for at, each in enumerate(pieces)]
    (item,) = run([*map(calls, deltas), *ended("tool_calls")]).output
    assert (item["call_id"], item["arguments"]) == ("x0", '{"n":"a{b"}')


def test_the_same_id_twice_is_two_calls_with_two_ids() -> None:
    one = calls(call(0, A, name="echo", call_id="echo:0"))
    two = calls(call(1, B, name="weather", call_id="echo:0"))
    ids = [item["call_id"] for item in run([one, two, *ended("tool_calls")]).output]
    assert ids[0] == "echo:0"
    assert ids[0] != ids[1]


def test_calls_of_one_function_that_share_an_id_and_have_no_index_are_two() -> None:
    values = []
    for command in ("ls", "pwd"):
        values.append(calls(call(None, "", name="echo", call_id="c")))
        values += [calls(call(None, piece)) for piece in ('{"command": "', command, '"}')]
    got = run([*values, *ended("tool_calls")])
    commands = [json.loads(item["arguments"])["command"] for item in got.output]
    assert commands == ["ls", "pwd"]


@pytest.mark.parametrize("name", [None, "", " ", "\n"])
@pytest.mark.parametrize("arguments", [A, "{", ""])
@pytest.mark.parametrize("end", [[], ended("tool_calls"), ended("stop")])
def test_a_call_whose_name_never_comes_fails_the_turn(
    name: Any, arguments: str, end: list[Any]
) -> None:
    values = [text("a"), calls(call(0, arguments, name=name, call_id="x")), *end]
    got = run([*values, calls(call(1, B, name="echo"))])
    assert got.response["error"]["code"] == "server_error"
    assert [item["type"] for item in got.output] == ["message"]


def test_a_call_whose_name_has_not_come_at_the_limit_is_dropped() -> None:
    got = run([text("a"), calls(call(0, "{", call_id="x")), *ended("length")])
    assert got.response["status"] == "incomplete"
    assert [item["type"] for item in got.output] == ["message"]
    assert "dropped call of no name that was cut" in got.noted


def test_the_old_function_call_field_is_a_call() -> None:
    values = [
        chunk({"function_call": {"name": "echo", "arguments": ""}}),
        chunk({"function_call": {"arguments": A}}),
    ]
    (item,) = run([*values, *ended("function_call")]).output
    assert (item["name"], item["arguments"]) == ("echo", A)


def test_a_call_is_live_while_another_one_waits_behind_it() -> None:
    values = [*SHAPES["mixed"], text("after"), *ended("tool_calls")]
    events = run(values).story.events
    deltas = [event["delta"] for event in events if "arguments.delta" in event["type"]]
    assert deltas == [A[:3], A[3:], B[:3], B[3:6], B[6:]]


def test_text_amid_a_call_waits_until_the_call_is_whole() -> None:
    values = [
        calls(call(0, A[:3], name="echo")),
        text("I am "),
        text("here."),
        calls(call(0, A[3:])),
    ]
    got = run([*values, text(" Still."), *ended("tool_calls")])
    assert [item["type"] for item in got.output] == ["function_call", "message"]
    assert got.output[0]["arguments"] == A
    assert got.output[1]["content"][0]["text"] == "I am here. Still."


def test_text_after_a_whole_call_does_not_wait() -> None:
    reply = new_reply(Evidence())
    feed(reply, Frame(sse([calls(call(0, A, name="echo"))], done=False)))
    frames = feed(reply, Frame(sse([text("now")], done=False)))
    assert b'"delta":"now"' in frames[-1].raw


def test_arguments_after_the_end_of_their_call_are_recorded() -> None:
    values = [calls(call(0, A, name="echo")), text("x"), calls(call(0, " ")), calls(call(0, "}"))]
    got = run([*values, *ended()])
    assert got.output[0]["arguments"] == A
    assert "dropped arguments after the end of their call" in got.noted


def test_many_mixed_calls_cost_no_more_than_their_length() -> None:
    count, rounds = 40, 60
    heads = [calls(call(i, '{"t":"', name="echo", call_id=f"c{i}")) for i in range(count)]
    body = [calls(*(call(i, "x") for i in range(count))) for _ in range(rounds)]
    tails = [calls(call(i, '"}')) for i in reversed(range(count))]
    got = run([*heads, *body, *tails, *ended("tool_calls")])
    assert [json.loads(item["arguments"]) for item in got.output] == [{"t": "x" * rounds}] * count
    assert [item["call_id"] for item in got.output] == [f"c{i}" for i in range(count)]


@pytest.mark.parametrize(("after", "alone"), [(" ", True), ("x", False)])
def test_what_follows_a_value_is_known(after: str, alone: bool) -> None:
    one = Call()
    for piece in (A, after):
        one.add(piece)
        assert one.whole
    assert one.only_value is alone
