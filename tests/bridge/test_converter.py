"""Chat streams written by hand, and what becomes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman.notes import Evidence
from dragoman.responses.dialects import OPENAI, Dialect
from dragoman.wire.chat_end import EARLY
from dragoman.wire.sse import Frame, FrameSplitter

from .dialects import EVERY_DIALECT
from .grammar import check_prefix
from .replying import (
    DONE,
    USAGE,
    call,
    calls,
    chunk,
    ended,
    feed,
    new_reply,
    run,
    run_bytes,
    sse,
    text,
    texts,
    thoughts,
    turn,
)

RICH = [
    chunk({"role": "assistant", "content": "", "reasoning_content": None}),
    chunk({"reasoning_content": "The user wants "}),
    chunk({"reasoning_content": "an é and a 😀."}),
    text("Let me "),
    text("look."),
    calls(call(0, "", name="weather", call_id="functions.weather:0")),
    calls(call(0, '{"city":')),
    calls(call(0, '"Zürich"}')),
    calls(call(1, '{"input":"*** Begin', name="apply", call_id="functions.apply:1")),
    calls(call(1, ' Patch\\n\\u00e9"}')),
    *ended("tool_calls"),
]


# The order of a whole turn.


@EVERY_DIALECT
def test_a_turn_with_reasoning_text_and_calls_is_whole_in_every_dialect(dialect: Dialect) -> None:
    got = run(RICH, dialect)
    assert thoughts(got) == ["The user wants an é and a 😀."]
    assert texts(got) == ["Let me look."]
    function, custom = got.output[2:]
    arguments = function.get("function", function)["arguments"]
    assert json.loads(arguments) == {"city": "Zürich"}
    assert custom["input"] == "*** Begin Patch\né"
    assert [item["call_id"] for item in got.output[2:]] == [
        "functions.weather:0",
        "functions.apply:1",
    ]
    assert got.evidence.empty


@pytest.mark.slow
def test_the_cut_of_the_bytes_changes_nothing() -> None:
    """In one dialect: what reads is the same for all."""
    data = sse(RICH)
    whole = run_bytes([data])
    for cut in range(1, len(data), 3):
        frames = b"".join(frame.raw for frame in run_bytes_unchecked([data[:cut], data[cut:]]))
        assert frames == b"".join(frame.raw for frame in whole.frames)
    single = run_bytes([data[at : at + 1] for at in range(len(data))])
    assert single.frames == whole.frames


def run_bytes_unchecked(pieces: list[bytes]) -> list[Frame]:
    reply = new_reply(Evidence())
    splitter = FrameSplitter()
    frames = reply.open()
    for piece in pieces:
        for frame in splitter.feed(piece):
            frames += feed(reply, frame)
    return frames + reply.close()


def test_a_delta_leaves_in_the_call_that_brought_it() -> None:
    reply = new_reply(Evidence())
    reply.open()
    wanted = ["The user wants ", "an é and a 😀.", "Let me ", "look."]
    wanted += ['{"city":', '"Zürich"}', "*** Begin", " Patch\né"]
    got = []
    for value in RICH:
        for frame in feed(reply, Frame(sse([value], done=False))):
            event = json.loads(frame.data or b"")
            if event.get("delta"):
                got.append(event["delta"])
    assert got == wanted


def test_the_start_leaves_with_the_headers_and_only_once() -> None:
    reply = new_reply(Evidence())
    first = reply.open()
    assert [event["type"] for event in check_prefix(first, OPENAI).events] == [
        "response.created",
        "response.in_progress",
    ]
    assert reply.open() == []
    later = new_reply(Evidence())
    assert [frame.raw for frame in feed(later, Frame(b": hello\n\n"))] == [f.raw for f in first]


def test_heartbeats_come_only_between_the_start_and_the_terminal() -> None:
    reply = new_reply(Evidence())
    assert reply.heartbeat() == []
    frames = reply.open() + reply.heartbeat()
    frames += feed(reply, Frame(sse([text("x")], done=False))) + reply.heartbeat()
    check_prefix(frames, OPENAI)
    assert b'"delta":""' in frames[-1].raw
    feed(reply, Frame(DONE))
    assert reply.writer.ended
    assert reply.heartbeat() == []
    assert feed(reply, Frame(sse([text("late")], done=False))) == []
    assert reply.close() == []
    assert reply.fail("server_error", "late") == []


# Ends.


@pytest.mark.parametrize("done", [True, False])
def test_a_finish_reason_is_enough_with_or_without_done(done: bool) -> None:
    got = run([text("a"), chunk(finish="stop")], done=done)
    assert got.response["status"] == "completed"
    assert got.response["completed_at"] == 1_700_000_042


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("length", "max_output_tokens"),
        ("max_tokens", "max_output_tokens"),
        ("content_filter", "content_filter"),
    ],
)
@EVERY_DIALECT
def test_a_turn_cut_short_is_incomplete(dialect: Dialect, finish: str, reason: str) -> None:
    got = run([text("a"), *ended(finish)], dialect)
    assert got.types[-1] == "response.incomplete"
    assert got.response["incomplete_details"] == {"reason": reason}
    assert got.output[0]["status"] == "incomplete"


def test_a_call_cut_by_length_is_incomplete_and_a_whole_one_is_not() -> None:
    values = [calls(call(0, '{"a":1}', name="echo")), calls(call(1, '{"a', name="echo"))]
    got = run([*values, *ended("length")])
    assert [item["status"] for item in got.output] == ["completed", "incomplete"]
    assert got.output[1]["arguments"] == '{"a'


def test_an_early_end_ends_nothing() -> None:
    got = run([text("half an ans")], done=False)
    assert got.broken
    assert got.types[-1] == "response.output_text.delta"
    assert got.output == []


def test_done_without_a_finish_reason_is_a_whole_turn_and_recorded() -> None:
    got = run([text("a"), calls(call(0, "{}", name="echo"))])
    assert got.response["status"] == "completed"
    assert "inferred finish reason" in got.noted


def test_done_inside_the_arguments_of_a_call_is_a_failure() -> None:
    got = run([calls(call(0, '{"a":', name="echo"))])
    assert got.types[-1] == "response.failed"
    assert got.output[0]["status"] == "incomplete"


@EVERY_DIALECT
@pytest.mark.parametrize(
    "values",
    [
        [chunk({"reasoning_content": "The user"})],
        [chunk({"reasoning": "The user"}), text("\n\n")],
        [text("<think>The user")],
        [text("<think>The user</think>\n")],
        [chunk({"role": "assistant", "content": ""})],
    ],
)
def test_reasoning_alone_and_done_is_a_turn_that_was_cut(
    values: list[Any], dialect: Dialect
) -> None:
    got = run(values, dialect)
    assert got.response["error"] == {"code": "server_error", "message": EARLY}
    assert [item["status"] for item in got.output] == ["incomplete"] * len(got.output)
    assert run([*values, *ended()], dialect).types[-1] == "response.completed"


@pytest.mark.parametrize("data", [b"", b": only a comment\n\n", b"data: 1\n\n"])
def test_a_stream_without_a_turn_that_says_its_end_is_a_failure(data: bytes) -> None:
    got = run_bytes([data + DONE])
    assert got.types[-1] == "response.failed"
    assert got.output == []
    assert run_bytes([data]).types == ["response.created", "response.in_progress"]


def test_an_empty_turn_is_completed_and_empty() -> None:
    got = run([chunk({"role": "assistant", "content": ""}), *ended()])
    assert (got.response["status"], got.output) == ("completed", [])
    assert "empty turn" in got.noted


def test_tool_calls_as_finish_reason_without_a_call_is_a_whole_turn() -> None:
    got = run([text("a"), chunk({"tool_calls": []}), *ended("tool_calls")])
    assert got.response["status"] == "completed"


@pytest.mark.parametrize("finish", [None, "", 0, 7, [], {}, True])
def test_a_finish_reason_of_another_type_is_none(finish: Any) -> None:
    got = run([text("a"), chunk(finish=finish), text("b"), *ended()])
    assert texts(got) == ["ab"]


def test_an_unknown_finish_reason_is_the_end_of_a_whole_turn() -> None:
    got = run([text("a"), *ended("because")])
    assert got.response["status"] == "completed"
    assert "unknown finish reason because" in got.noted


def test_what_comes_after_the_finish_reason_is_still_told() -> None:
    got = run([text("a"), chunk(finish="stop"), text("b"), *ended()])
    assert texts(got) == ["a", "b"]


def test_a_fault_fails_the_turn_and_ends_nothing_that_is_open() -> None:
    reply = new_reply(Evidence())
    frames = reply.open() + feed(reply, Frame(sse([text("a")], done=False)))
    frames += reply.fail("server_error", "a fault")
    story = check_prefix(frames, OPENAI)
    assert story.events[-2]["message"] == "a fault"
    assert story.response["output"][0]["status"] == "incomplete"


def test_an_upstream_that_dies_after_the_finish_reason_has_lost_only_its_usage() -> None:
    reply = new_reply(Evidence())
    frames = reply.open()
    frames += feed(reply, Frame(sse([text("a"), chunk(finish="stop")][:1], done=False)))
    frames += feed(reply, Frame(sse([chunk(finish="stop")], done=False)))
    frames += reply.close()
    assert check_prefix(frames, OPENAI).response["status"] == "completed"


# Frames that are none.


def test_comments_other_fields_and_broken_events_are_passed_over() -> None:
    data = b": ping\n\nevent: keepalive\n\nid: 1\n\ndata: {broken\n\ndata: 7\n\ndata: null\n\n"
    data += b"event: message\ndata: " + json.dumps(text("a")).encode() + b"\r\n\r\n"
    got = run_bytes([data + sse(ended())])
    assert texts(got) == ["a"]
    assert "skipped event that is not JSON" in got.noted
    assert "skipped event that is no chunk ×2" in got.noted


def test_a_piece_of_an_oversized_event_is_skipped_and_recorded() -> None:
    evidence = Evidence()
    reply = new_reply(evidence)
    feed(reply, Frame(b"data: {", whole=False))
    assert not evidence.empty


# Usage.


def test_usage_has_every_field_wherever_the_upstream_counts() -> None:
    whole = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    got = run([text("a"), *ended(usage=whole)])
    assert got.response["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120,
    }
    assert got.evidence.empty


@pytest.mark.parametrize(
    "cached",
    [
        {"cached_tokens": 64},
        {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36},
        {"prompt_tokens_details": {"cached_tokens": 64}},
        {"cache_read_input_tokens": 64},
    ],
)
def test_cached_tokens_are_found_where_each_host_puts_them(cached: dict[str, Any]) -> None:
    got = run([text("a"), *ended(usage=USAGE | cached)])
    assert got.response["usage"]["input_tokens_details"]["cached_tokens"] == 64


def test_usage_in_the_choice_is_read() -> None:
    last = chunk(finish="stop", choice={"usage": USAGE | {"cached_tokens": 3}})
    got = run([text("a"), last])
    assert got.response["usage"]["total_tokens"] == 18
    assert got.response["usage"]["input_tokens_details"]["cached_tokens"] == 3


@pytest.mark.parametrize(
    "usage",
    [None, {}, [], "x", {"prompt_tokens": None}, {"prompt_tokens": -1}, {"prompt_tokens": True}],
)
def test_usage_that_says_nothing_is_estimated_and_recorded(usage: Any) -> None:
    asked = replace(turn(), estimate=1000)
    got = run([text("y" * 400), chunk(finish="stop", usage=usage)], turn_=asked)
    told = got.response["usage"]
    assert told["input_tokens"] == 1000
    assert 90 < told["output_tokens"] < 110
    assert told["total_tokens"] == told["input_tokens"] + told["output_tokens"]
    assert "estimated usage" in got.noted


def test_counts_too_large_to_be_written_are_not_believed() -> None:
    usage = json.dumps(USAGE).replace("11", "9" * 4000)
    value = json.dumps(chunk(finish="stop")).replace('"choices"', f'"usage": {usage}, "choices"')
    got = run_bytes([sse([text("a")], done=False), f"data: {value}\n\n".encode()])
    assert got.response["usage"]["input_tokens"] < 1000
