"""A chat host's reply as a client of the Messages API reads it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.messages_reply import SIGNATURE
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.notes import Evidence
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.stage import at_once
from dragoman.wire.json_codec import loads
from fixtures.regenerate import chat_fixtures, request
from tests.repair.streams import read as read_chat
from tests.responses.test_native_formats import leaking, said_in

from . import replying
from .messaging import ESTIMATE, Run, new_message, repair_for, run, run_body, run_bytes, turn
from .replying import USAGE, call, calls, chunk, ended, sse, text
from .test_reply_generated import Called, Meant, said, unambiguous

THOUGHT = chunk({"reasoning_content": "Hm."})
ECHO = calls(call(0, '{"a": 1}', name="echo", call_id="functions.echo:0"))
WEATHER = calls(call(1, '{"b": 2}', name="weather", call_id="c2"))
HALF = calls(call(0, '{"a": ', name="echo", call_id="c1"))
TABLE: dict[str, tuple[list[Any], str, str]] = {
    "text": ([text("Hello"), text(" you."), *ended()], "Hello you.", "end_turn"),
    "thoughts, then text": ([THOUGHT, text("Hello."), *ended()], "/Hm./ Hello.", "end_turn"),
    "thoughts alone": ([THOUGHT, *ended()], "/Hm./", "end_turn"),
    "thoughts in tags": ([text("<think>Hm.</think>Hi."), *ended()], "/Hm./ Hi.", "end_turn"),
    "blank thoughts": ([chunk({"reasoning": "\n"}), text("Hi."), *ended()], "Hi.", "end_turn"),
    "a blank before a call": ([text("\n"), ECHO, *ended()], '[echo {"a": 1}]', "tool_use"),
    "a call that ends with stop": ([ECHO, *ended("stop")], '[echo {"a": 1}]', "tool_use"),
    "tool_calls without a call": ([text("Hi."), *ended("tool_calls")], "Hi.", "end_turn"),
    "no arguments": (
        [calls(call(0, "", name="echo")), *ended("tool_calls")],
        "[echo {}]",
        "tool_use",
    ),
    "two calls, mixed": (
        [
            calls(call(0, '{"a":', name="echo", call_id="1"), call(1, '{"b":', name="weather")),
            calls(call(1, "2}"), call(0, "1}")),
            *ended("tool_calls"),
        ],
        '[echo {"a":1}] [weather {"b":2}]',
        "tool_use",
    ),
    "text between calls": (
        [ECHO, text("So."), WEATHER, *ended("tool_calls")],
        '[echo {"a": 1}] So. [weather {"b": 2}]',
        "tool_use",
    ),
    "a refusal": ([chunk({"refusal": "I cannot."}), *ended()], "I cannot.", "end_turn"),
    "a name in another spelling": (
        [calls(call(0, "{}", name="functions.Echo")), *ended()],
        "[echo {}]",
        "tool_use",
    ),
    "a name nobody declared": (
        [calls(call(0, "{}", name="paint")), *ended()],
        "[paint {}]",
        "tool_use",
    ),
    "cut in the text": ([text("Hel"), *ended("length")], "Hel", "max_tokens"),
    "cut in a call": ([text("So."), HALF, *ended("length")], 'So. [echo {"a": ]', "max_tokens"),
    "cut after a call": ([ECHO, *ended("length")], '[echo {"a": 1}]', "max_tokens"),
    "filtered": ([text("Hello"), *ended("content_filter")], "Hello", "end_turn"),
    "filtered after a call": ([ECHO, *ended("content_filter")], '[echo {"a": 1}]', "tool_use"),
    "broken arguments": ([HALF, *ended("tool_calls")], '[echo {"a": ]', "tool_use"),
    "another word for the end": ([text("Hi."), *ended("eos")], "Hi.", "end_turn"),
    "an unknown word for the end": ([text("Hi."), *ended("banana")], "Hi.", "end_turn"),
    "nothing": ([*ended()], "", "end_turn"),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_a_client_reads(case: str) -> None:
    values, gist, stop_reason = TABLE[case]
    got = run(values)
    assert (got.read.gist, got.read.stop_reason) == (gist, stop_reason)
    assert not got.broken


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("functions.Echo", "inferred spelling of tool functions.Echo"),
        ("paint", "called undeclared tool paint"),
        ("echo", ""),
    ],
)
def test_a_name_that_is_not_the_tools_own_is_on_record(name: str, noted: str) -> None:
    assert run([calls(call(0, "{}", name=name)), *ended()]).noted == noted


@pytest.mark.parametrize("case", TABLE)
def test_what_is_cut_is_not_stopped_and_all_else_is(case: str) -> None:
    got = run(TABLE[case][0])
    begun = sum(event["type"] == "content_block_start" for event in got.events)
    stopped = sum(event["type"] == "content_block_stop" for event in got.events)
    assert begun - stopped == (case == "cut in a call")
    assert ("call of echo that was cut" in got.noted) == (case == "cut in a call")


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop"])
def test_the_sequence_at_which_it_stopped_is_said_where_the_host_says_it(field: str) -> None:
    asked = turn(request={"stop_sequences": ["END"]})
    for said_, ends in (("END", ("stop_sequence", "END")), (128001, ("end_turn", None))):
        got = run([text("Hi."), chunk(choice={"finish_reason": "stop", field: said_})], turn_=asked)
        delta = got.events[-2]["delta"]
        assert (delta["stop_reason"], delta["stop_sequence"]) == ends


def test_thoughts_are_signed() -> None:
    got = run([THOUGHT, text("Hello."), *ended()])
    (block, _) = got.read.blocks
    assert block == {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}


def test_ids_are_new_and_fit_anthropics_own_api() -> None:
    got = run([ECHO, WEATHER, *ended()])
    assert got.events[0]["message"]["id"] == "msg_abc"
    assert [block["id"] for block in got.read.blocks] == ["toolu_abc_1", "toolu_abc_2"]


def test_the_model_has_the_clients_name() -> None:
    assert run([text("Hi."), *ended()]).events[0]["message"]["model"] == "claude-sonnet-5"


# Usage

CACHED = {"prompt_tokens": 1000, "completion_tokens": 7, "prompt_tokens_details": {}}


def usages(got: Run) -> tuple[dict[str, int], dict[str, int]]:
    start, *_, end, _ = got.events
    return start["message"]["usage"], end["usage"]


def test_usage_is_at_both_ends_and_what_was_cached_counts_apart() -> None:
    counted = CACHED | {"prompt_tokens_details": {"cached_tokens": 960}}
    first, last = usages(run([text("Hi."), *ended(usage=counted)]))
    assert (first["input_tokens"], first["output_tokens"]) == (ESTIMATE, 1)
    assert last == {
        "input_tokens": 40,
        "cache_read_input_tokens": 960,
        "cache_creation_input_tokens": 0,
        "output_tokens": 7,
    }


@pytest.mark.parametrize("counted", [None, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_usage_that_is_missing_is_estimated_and_never_zero(counted: Any) -> None:
    values = [text("Hi there, you."), chunk(finish="stop", usage=counted)]
    got = run(values)
    _, last = usages(got)
    assert last["input_tokens"] == ESTIMATE
    assert last["output_tokens"] > 0
    assert "estimated usage" in got.noted


# Failures

ERRORS: dict[str, tuple[Any, str]] = {
    "overloaded": ({"message": "Overloaded", "code": 503}, "overloaded_error"),
    "529": ({"message": "x", "status": 529}, "overloaded_error"),
    "a busy engine": ({"message": "The engine is currently overloaded"}, "overloaded_error"),
    "a limit": ({"message": "Rate limit reached", "code": 429}, "rate_limit_error"),
    "a limit by its code": ({"message": "x", "code": "rate_limit_exceeded"}, "rate_limit_error"),
    "a bad request": ({"message": "x", "code": 400}, "invalid_request_error"),
    "no balance": ({"message": "x", "code": "insufficient_quota"}, "billing_error"),
    "anything": ({"message": "Something broke"}, "api_error"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_of_the_host_is_the_last_event(case: str) -> None:
    error, kind = ERRORS[case]
    got = run([text("Hel"), {"error": error}, text("lo")])
    *_, last = got.events
    assert (last["type"], last["error"]["type"]) == ("error", kind)
    assert got.read.stop_reason is None
    assert not got.broken


def test_an_overflow_in_a_stream_is_said_in_the_words_that_clients_know() -> None:
    message = "This model's maximum context length is 8192 tokens, however you requested 9000"
    *_, last = run([{"error": {"message": message}}]).events
    assert last["error"]["type"] == "invalid_request_error"
    assert last["error"]["message"].startswith("prompt is too long: 9000 tokens > 8192 maximum")


def test_a_filter_that_leaves_nothing_is_an_error() -> None:
    for values in ([], [THOUGHT]):
        *_, last = run([*values, *ended("content_filter")]).events
        assert (last["type"], last["error"]["type"]) == ("error", "invalid_request_error")


@pytest.mark.parametrize("values", [[], [text("Hel")], [THOUGHT], [HALF], [ECHO]])
def test_an_early_end_breaks_the_reply_off(values: list[Any]) -> None:
    got = run(values, done=False)
    assert got.broken
    assert got.read.stop_reason is None
    stopped = [event for event in got.events if event["type"] == "content_block_stop"]
    assert stopped == []


# The way of the bytes


def test_the_message_begins_with_the_first_byte_of_its_upstream() -> None:
    reply = new_message(Evidence())
    pipeline = BridgePipeline(reply, None)
    assert reply.open() == []
    assert pipeline.feed(b'data: {"cho') == []
    begun = pipeline.feed(b": a comment\n\n" + sse([text("Hi.")], done=False))
    assert b"message_start" in begun[0].raw


def test_a_heartbeat_is_a_ping_after_the_message_has_begun() -> None:
    reply = new_message(Evidence())
    pipeline = BridgePipeline(reply, None)
    frames = [*reply.heartbeat(), *reply.heartbeat()]
    frames += pipeline.feed(sse([text("Hi."), *ended()]))
    assert reply.heartbeat() == []
    kinds = [frame.json["type"] for frame in frames]
    assert kinds[:4] == ["message_start", "ping", "ping", "content_block_start"]
    assert kinds.count("message_start") == 1


@pytest.mark.parametrize("case", TABLE)
def test_a_whole_message_says_what_the_stream_does(case: str) -> None:
    values, _, stop_reason = TABLE[case]
    got, whole = run(values), run_body(sse(values)).response
    assert whole == got.reply.response
    assert whole["stop_reason"] == stop_reason
    streamed = got.read.blocks[: -1 if case == "cut in a call" else None]
    assert whole["content"] == [_as_whole(block) for block in streamed]
    assert whole["usage"] == usages(got)[1]


def _as_whole(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] != "tool_use":
        return block
    try:
        return {**block, "input": json.loads(block["input"])}
    except ValueError:
        return block


def test_a_chat_completion_becomes_a_message() -> None:
    function = {"name": "echo", "arguments": '{"a": 1}'}
    message = {
        **{"reasoning_content": "Hm.", "content": "Hello."},
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    got = run_body({"choices": [choice], "usage": USAGE}).response
    assert [block["type"] for block in got["content"]] == ["thinking", "text", "tool_use"]
    assert (got["type"], got["role"], got["stop_reason"]) == ("message", "assistant", "tool_use")
    assert got["usage"]["input_tokens"] == USAGE["prompt_tokens"]


# Generated turns


@given(said())
def test_a_generated_turn_is_read_as_it_was_meant(turn_: tuple[Meant, list[Any], bool]) -> None:
    meant, values, done = turn_
    answered = bool(meant.text or meant.called)
    if not unambiguous(meant, values) or (meant.finish == "content_filter" and not answered):
        return
    got = run(values, done=done)
    blocks = got.read.blocks
    thoughts = "".join(block.get("thinking", "") for block in blocks)
    assert thoughts.strip() == meant.reasoning.strip()
    assert "".join(block.get("text", "") for block in blocks).strip() == meant.text.strip()
    made = [Called(b["name"], loads(b["input"])) for b in blocks if b["type"] == "tool_use"]
    assert made == list(meant.called)
    ends = "tool_use" if made else "end_turn"
    assert got.read.stop_reason == ("max_tokens" if meant.finish == "length" else ends)


@given(said(), st.lists(st.integers(0, 5000), max_size=8))
def test_the_cut_of_the_bytes_changes_no_byte(
    turn_: tuple[Meant, list[Any], bool], places: list[int]
) -> None:
    _, values, done = turn_
    data = sse(values, done=done)
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    assert run_bytes(pieces).body == run_bytes([data]).body


@given(said(), st.integers(0, 5000))
def test_a_break_anywhere_leaves_no_half_call_and_no_end(
    turn_: tuple[Meant, list[Any], bool], place: int
) -> None:
    meant, values, _ = turn_
    data = sse(values, done=False)
    data = data[: place % (len(data) + 1)]
    got = run_bytes([data])
    finished = b'"finish_reason": "' in data and not got.broken
    assert finished == (got.read.stop_reason is not None or got.reply.turn_end.error is not None)
    for event, after in pairwise(got.events):
        if after["type"] == "content_block_stop" and event["delta"]["type"] == "input_json_delta":
            block = got.read.blocks[event["index"]]
            assert Called(block["name"], loads(block["input"])) in meant.called


# The same reply for clients of both APIs


def of_message(got: Run) -> list[tuple[str, str]]:
    """What the blocks say; blanks around a text say nothing."""
    kinds = {"thinking": "reasoning", "text": "text"}
    return _joined(
        ("call", f"{block['name']} {block['input']}")
        if block["type"] == "tool_use"
        else (kinds[block["type"]], block[block["type"]])
        for block in got.read.blocks
    )


def of_response(got: replying.Run) -> list[tuple[str, str]]:
    found = []
    for item in got.output:
        if item["type"] == "function_call":
            found.append(("call", f"{item['name']} {item['arguments']}"))
        elif item["type"] == "reasoning":
            found.append(("reasoning", "".join(part["text"] for part in item["summary"])))
        else:
            parts = [part.get("text", part.get("refusal")) for part in item["content"]]
            found.append(("text", "".join(parts)))
    return _joined(found)


def _joined(said_: Any) -> list[tuple[str, str]]:
    found = [(kind, words.strip()) for kind, words in said_]
    return [(kind, words) for kind, words in found if words]


REASONS = {"tool_use": "completed", "end_turn": "completed", "max_tokens": "incomplete"}


@pytest.mark.parametrize("folder", chat_fixtures(), ids=lambda folder: folder.name)
def test_the_same_reply_says_the_same_to_a_client_of_responses(folder: Path) -> None:
    asked: Any = request(folder)
    body = next(folder.glob("upstream.*")).read_bytes()
    names = [tool["function"]["name"] for tool in asked.get("tools", [])]
    context = turn(names)
    got = run_bytes([body], turn_=context, asked=asked)
    evidence = Evidence()
    reply = replying.new_reply(evidence, turn_=context)
    pipeline = BridgePipeline(reply, repair_for(asked, evidence))
    frames = [*reply.open(), *pipeline.feed(body)]
    if not reply.writer.ended:
        frames += pipeline.close()
    story = replying.Run(replying.checked(frames, reply, replying.OPENAI), evidence, frames)
    assert got.broken == bool(pipeline.broken)
    if not got.broken:  # what is open is not in a response yet
        assert of_message(got) == of_response(story)
    if got.read.stop_reason:
        assert REASONS[got.read.stop_reason] == story.response["status"]
    assert evidence.calls == got.evidence.calls


# Leaks


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize("folder", leaking(), ids=lambda folder: folder.name)
def test_a_leak_becomes_the_call_that_chat_clients_get(folder: Path, field: str) -> None:
    asked: Any = request(folder)
    said_ = said_in((folder / "upstream.sse").read_bytes())
    head = {"model": asked["model"]}
    values = [chunk({field: piece}, **head) for _, pieces in said_ for piece in pieces]
    body = sse([*values, chunk(finish="stop", **head)])
    evidence = Evidence()
    chat = read_chat(at_once(RepairPipeline(repair_for(asked, evidence), evidence).whole(body)))
    names = [tool["function"]["name"] for tool in asked.get("tools", [])]
    got = run_bytes([body], turn_=turn(names), asked=asked)
    blocks = [block for block in got.read.blocks if block["type"] == "tool_use"]
    assert [(block["name"], block["input"]) for block in blocks] == [
        (call_["name"], call_["arguments"] or "{}") for call_ in chat.calls
    ]
    ends = {"tool_calls": "tool_use", "stop": "end_turn", "length": "max_tokens"}
    assert [got.read.stop_reason] == [ends[reason] for reason in chat.finish]


def test_there_are_enough_spellings_of_leaks() -> None:
    assert len(leaking()) >= 24
