"""One item after the other: what waits for an open call, and what a cut leaves of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.reply.parts_in_order import PartsInOrder
from dragoman.reply.turn_context import Tool
from dragoman.reply.words import Arguments, CallBegin, Part, PartEnd, Text
from dragoman.responses.dialects import OPENAI, Dialect
from dragoman.wire.reply_bounds import Budget
from dragoman.wire.sse import Frame
from tests.bridge.dialects import EVERY_DIALECT
from tests.bridge.grammar import check
from tests.bridge.replying import (
    TOOLS,
    Run,
    call,
    calls,
    chunk,
    ended,
    feed,
    new_reply,
    one_call,
    run,
    sse,
    text,
    texts,
    thoughts,
    turn,
)


def told(words_in: list[Any], *, cut: bool = False) -> list[str]:
    """What leaves of these words, a `|` after what leaves with each of them."""
    order, parts = PartsInOrder({"echo", "weather"}, Evidence(), Budget()), dict[str, Part]()
    said: list[str] = []
    for what, *values in [*words_in, ("end",)]:
        if what == "end":
            left = order.settle(cut=cut)
        elif what in ("text", "reasoning", "refusal"):
            left = order.take(Text(parts.setdefault(what, Part(what)), values[0]))
        else:
            part = parts.setdefault(what, Part("call"))
            left = order.take(values[0](part, *values[1:]))
        said += [_phrase(delta, parts) for delta in left]
        said.append("|")
    return " ".join(said).split()


def _phrase(delta: Any, parts: dict[str, Part]) -> str:
    if isinstance(delta, Text):
        return f"{delta.part.kind}:{delta.text!r}"
    name = next(name for name, part in parts.items() if part is delta.part)
    match delta:
        case CallBegin():
            return f"{name}({delta.name}{delta.text}"
        case PartEnd(cut=cut):
            return f"{name}!" if cut else f"{name})"
        case _:
            return f"{name}+{delta.text}"


BEGIN_A, BEGIN_B = ("a", CallBegin, "1", "echo"), ("b", CallBegin, "2", "weather")
ORDERS: dict[str, tuple[list[Any], str]] = {
    "text passes": (
        [("reasoning", "hm"), ("text", "So"), ("text", "so")],
        "reasoning:'hm' | text:'So' | text:'so' | |",
    ),
    "text within a call waits for its end": (
        [BEGIN_A, ("a", Arguments, "{"), ("text", "So"), ("a", Arguments, "}"), ("a", PartEnd)],
        "a(echo | a+{ | | a+} | a) text:'So' | |",
    ),
    "deltas of two calls are put apart": (
        [BEGIN_A, BEGIN_B, ("b", Arguments, "{}"), ("a", Arguments, "{}"), ("a", PartEnd)],
        "a(echo | | | a+{} | a) b(weather b+{} | b) |",
    ),
    "a call without a name waits for it": (
        [("a", CallBegin, "1", ""), ("a", Arguments, "{}"), ("a", CallBegin, "1", "echo")],
        "| | a(echo a+{} | a) |",
    ),
    "a name that may go on waits for arguments": (
        [("a", CallBegin, "1", "ech"), ("a", CallBegin, "1", "echo")],
        "| a(echo | a) |",
    ),
    "a blank before a call is none": (
        [("text", " "), BEGIN_A, ("a", Arguments, "{}")],
        "| a(echo | a+{} | a) |",
    ),
    "a blank before a call is not before the text after it": (
        [("text", "\n"), BEGIN_A, ("a", Arguments, "{}"), ("a", PartEnd), ("text", "So")],
        "| a(echo | a+{} | | a) text:'So' | |",
    ),
    "a blank alone is all there is": ([("text", "_")], "text:'_' | |"),
}


@pytest.mark.parametrize("order", ORDERS)
def test_one_part_leaves_after_the_other(order: str) -> None:
    words_in, wanted = ORDERS[order]
    assert told(words_in) == wanted.split()


def test_what_a_limit_cuts_is_not_whole() -> None:
    words_in = [BEGIN_A, ("a", Arguments, "{"), BEGIN_B, ("b", Arguments, "{")]
    wanted = "a(echo | a+{ | | | a! b(weather b+{ b! |"
    assert told(words_in, cut=True) == wanted.split()


def test_a_line_end_before_a_call_is_no_message() -> None:
    got = run([text("\n\n"), calls(call(0, "{}", name="echo")), text("\n"), *ended("tool_calls")])
    assert [item["type"] for item in got.output] == ["function_call"]
    assert "dropped blank text beside a call" in got.noted


def test_blank_text_is_kept_where_there_is_other_text_or_nothing_else() -> None:
    assert texts(run([text("\n"), text("a"), text("\n"), *ended()])) == ["\na\n"]
    assert texts(run([text("\n"), *ended()])) == ["\n"]


CUT_ENDS: dict[str, list[Any]] = {
    "length": ended("length"),
    "content filter": ended("content_filter"),
    "error": [{"error": {"message": "boom"}}],
    "failure": ended("network_error"),
    "nothing": [],
}


AT_A_LIMIT = ("length", "content filter")
DONE_EVENTS = (
    *("response.output_text.done", "response.refusal.done", "response.content_part.done"),
    *("response.reasoning_summary_text.done", "response.reasoning.done"),
    *("response.reasoning_summary_part.done", "response.function_call_arguments.done"),
    *("response.custom_tool_call_input.done", "response.output_item.done"),
)
CUT_ARGUMENTS = ("", " ", "{", '{"inp', '{"input":"a', '{"input":"a\\', '{"a":1,"input":"x"')


def cut_off(values: list[Any], end: str, dialect: Dialect = OPENAI) -> Run:
    return run([*values, *CUT_ENDS[end]], dialect, done=end != "nothing")


@EVERY_DIALECT
@pytest.mark.parametrize("end", CUT_ENDS)
@pytest.mark.parametrize("name", ["echo", "mcp__files__read", "exec"])
def test_a_call_that_is_cut_is_left_open_and_listed(name: str, end: str, dialect: Dialect) -> None:
    for arguments in CUT_ARGUMENTS:
        got = cut_off([calls(call(0, arguments, name=name, call_id="c1"))], end, dialect)
        if end == "nothing":
            assert got.broken and set(got.types).isdisjoint(DONE_EVENTS)
            continue
        (item,) = got.output
        assert (item["status"], item["call_id"]) == ("incomplete", "c1")
        assert set(got.types).isdisjoint(DONE_EVENTS)
        assert got.types[-1] == ("response.incomplete" if end in AT_A_LIMIT else "response.failed")
        text = item.get("function", item).get("arguments", item.get("input"))
        assert text == got.story.deltas[0]


@pytest.mark.parametrize("end", CUT_ENDS)
@pytest.mark.parametrize("name", ["local_shell", "shell", "apply_patch", "tool_search"])
@pytest.mark.parametrize("arguments", ["", " ", '{"command":["rm"', '{"commands":["rm"'])
def test_a_structured_call_that_is_cut_was_never_told_and_is_dropped(
    name: str, end: str, arguments: str
) -> None:
    got = cut_off([calls(call(0, arguments, name=name))], end)
    assert got.output == []
    assert "dropped" in got.noted


@EVERY_DIALECT
@pytest.mark.parametrize("end", ["error", "failure", "nothing"])
@pytest.mark.parametrize(
    "value",
    [
        text("half an ans"),
        chunk({"refusal": "I can"}),
        chunk({"reasoning_content": "The user"}),
        calls(call(0, '{"a":1}', name="echo")),
        calls(call(0, '{"input":"rm -rf"}', name="apply")),
    ],
    ids=["text", "refusal", "reasoning", "call", "custom call"],
)
def test_a_failure_ends_nothing_that_is_open(value: Any, end: str, dialect: Dialect) -> None:
    got = cut_off([value], end, dialect)
    assert set(got.types).isdisjoint(DONE_EVENTS)
    assert got.broken == (end == "nothing")
    if not got.broken:
        assert got.types[-2:] == ["error", "response.failed"]
        assert [item["status"] for item in got.output] == ["incomplete"]


def test_what_was_whole_before_a_failure_stays_so() -> None:
    values = [chunk({"reasoning_content": "why"}), text("so"), calls(call(0, "{", name="echo"))]
    got = cut_off(values, "error")
    assert [item["status"] for item in got.output] == ["completed", "completed", "incomplete"]


@EVERY_DIALECT
@pytest.mark.parametrize("end", AT_A_LIMIT)
def test_a_limit_ends_text_and_reasoning_and_calls_that_are_whole(
    end: str, dialect: Dialect
) -> None:
    whole = calls(call(0, '{"a":1}', name="echo"))
    for value in (text("half"), chunk({"reasoning_content": "half"}), whole):
        got = cut_off([value], end, dialect)
        assert got.types[-2:] == ["response.output_item.done", "response.incomplete"]
        assert [item["status"] for item in got.output] == [
            "completed" if value is whole else "incomplete"
        ]


@EVERY_DIALECT
def test_what_waits_behind_a_call_that_a_limit_cuts_is_told(dialect: Dialect) -> None:
    values = [
        calls(call(0, '{"a', name="echo")),
        chunk({"reasoning": "Hm"}),
        text("later"),
        calls(call(1, "{}", name="weather"), call(2, '{"b', name="apply")),
        calls(call(3, '{"commands":["ls"]}', name="shell"), call(4, "{", name="shell")),
    ]
    got = run([*values, *ended("length")], dialect)
    assert [item["status"] for item in got.output] == [
        *("incomplete", "completed", "completed", "completed", "incomplete", "completed")
    ]
    assert (thoughts(got), texts(got)) == (["Hm"], ["later"])
    assert "left open call of echo that was cut" in got.noted
    assert "left open call of apply that was cut" in got.noted
    assert "dropped call of shell that was cut" in got.noted


@EVERY_DIALECT
def test_a_heartbeat_after_a_call_was_left_knows_of_it(dialect: Dialect) -> None:
    reply = new_reply(Evidence(), dialect)
    frames = reply.open()
    for value in [calls(call(0, '{"a', name="echo")), chunk(finish="length")]:
        frames += feed(reply, Frame(sse([value], done=False))) + reply.heartbeat()
    story = check(frames + reply.heartbeat() + reply.close(), dialect)
    assert story.response["status"] == "incomplete"


def test_done_alone_does_not_end_a_call_that_has_no_arguments() -> None:
    got = run([calls(call(0, "", name="echo"))])
    assert got.types[-1] == "response.failed"
    assert [item["status"] for item in got.output] == ["incomplete"]


def head_told(name: str, *, tools: Mapping[str, Tool] = TOOLS) -> tuple[bool, bool]:
    """Whether a call was told with its name, and whether it was with its first argument."""
    reply = new_reply(Evidence(), OPENAI, replace(turn(), tools=tools))
    reply.open()
    told = []
    for value in (calls(call(0, "", name=name)), calls(call(0, "{"))):
        frames = feed(reply, Frame(sse([value], done=False)))
        told.append(b"output_item.added" in b"".join(frame.raw for frame in frames))
    return told[0], told[1]


def test_a_call_is_told_as_soon_as_its_name_is_certain() -> None:
    assert head_told("echo") == (True, False)
    assert head_told("exec") == (True, False)
    assert head_told("read") == (True, False)
    more = {name: Tool("function", name) for name in ("read", "read_file", "find")}
    assert head_told("read_file", tools=more) == (True, False)
    assert head_told("read", tools=more) == (False, True)
    assert head_told("fin", tools=more) == (False, True)
    assert head_told("invented", tools=more) == (False, True)


@EVERY_DIALECT
@pytest.mark.parametrize("name", ["echo", "exec"])
@pytest.mark.parametrize("arguments", ["", " ", '{"input":"x"}'])
def test_heartbeats_before_the_arguments_are_no_arguments(
    name: str, arguments: str, dialect: Dialect
) -> None:
    values = [calls(call(0, "", name=name)), calls(call(0, arguments)), *ended("tool_calls")]
    reply = new_reply(Evidence(), dialect)
    frames = reply.open()
    for value in values:
        frames += feed(reply, Frame(sse([value], done=False))) + reply.heartbeat()
    frames += reply.close()
    (item,) = check(frames, dialect).items
    if name == "exec":
        assert item["input"] == ("x" if arguments.strip() else "")
    else:
        assert json.loads(item.get("function", item)["arguments"]) == (
            {"input": "x"} if arguments.strip() else {}
        )


def test_a_namespaced_function_called_by_its_bare_name_keeps_its_namespace() -> None:
    got = one_call("read", "{}")
    assert (got.output[0]["name"], got.output[0]["namespace"]) == ("read", "mcp__files")
    assert "inferred namespace of tool read" in got.noted


@pytest.mark.parametrize(
    "spelled", ["functions.mcp__files__read", "mcp__files.read", "MCP/Files/Read"]
)
def test_a_name_spelled_otherwise_is_the_tool_it_means(spelled: str) -> None:
    got = one_call(spelled, "{}")
    assert (got.output[0]["name"], got.output[0]["namespace"]) == ("read", "mcp__files")
    assert f"inferred spelling of tool {spelled}" in got.noted


def test_a_bare_name_of_two_namespaces_is_not_guessed_at() -> None:
    tools = {f"{space}__read": Tool("function", "read", space) for space in ("a", "b")}
    made = replace(turn(), tools=tools)
    got = run([calls(call(0, "{}", name="read")), *ended()], turn_=made)
    assert "namespace" not in got.output[0]
    assert "called undeclared tool read" in got.noted


def test_an_undeclared_tool_is_a_function_call_under_its_name_and_recorded() -> None:
    got = one_call("invented", "{}")
    assert got.output[0]["name"] == "invented"
    assert "called undeclared tool invented" in got.noted


def test_a_call_item_is_closed_with_the_finish_reason_not_with_the_usage() -> None:
    reply = new_reply(Evidence())
    reply.open()
    feed(reply, Frame(sse([calls(call(0, "{}", name="echo"))], done=False)))
    frames = feed(reply, Frame(sse([chunk(finish="tool_calls")], done=False)))
    assert b"response.output_item.done" in frames[-1].raw
    assert not reply.writer.ended


def test_what_waits_behind_a_call_is_dropped_and_recorded_when_the_turn_fails() -> None:
    values = [calls(call(0, '{"a', name="echo")), text("later"), calls(call(1, "{}", name="echo"))]
    got = run([*values, {"error": {"message": "boom"}}])
    assert [item["status"] for item in got.output] == ["incomplete"]
    assert "dropped what waited in line ×2" in got.noted
