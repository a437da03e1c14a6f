"""Whatever an upstream sends: no exception, a legal stream of a message, and at most one end."""

from __future__ import annotations

import copy
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .messaging import Run, run, run_body, run_bytes
from .replying import call, calls, chunk, ended, text
from .test_reply_hostile import RICH, WRONG, places, wild_chunks

pytestmark = pytest.mark.slow


def checked(got: Run) -> Run:
    """The stream is legal (`Run` has read it); it ends, fails or breaks off, in one way."""
    kinds = [event["type"] for event in got.events]
    ends = kinds.count("message_stop") + kinds.count("error") + got.broken
    assert ends == 1
    assert kinds.count("message_start") == 1 or got.broken
    if "error" in kinds:
        assert kinds[-1] == "error" and "message_delta" not in kinds
    json.dumps(got.reply.response)
    return got


@given(st.lists(wild_chunks, max_size=5), st.booleans())
def test_any_json_as_a_chunk_gives_a_legal_stream(values: list[Any], done: bool) -> None:
    checked(run(values, done=done))


@given(wild_chunks)
def test_any_json_as_a_body_gives_a_message_or_an_error(value: Any) -> None:
    assert run_body(value).response["type"] in ("message", "error")


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_give_a_legal_stream(pieces: list[bytes]) -> None:
    checked(run_bytes(pieces))
    run_body(b"".join(pieces))


@pytest.mark.parametrize("path", places(RICH)[1:], ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_type_in_any_field_gives_a_legal_stream(path: tuple[Any, ...]) -> None:
    *before, name = path
    for wrong in WRONG[zlib.crc32(repr(path).encode()) % 2 :: 2]:
        values = copy.deepcopy(RICH)
        holder: Any = values
        for step in before:
            holder = holder[step]
        holder[name] = wrong
        checked(run(values))
    del holder[name]
    checked(run(values))


def test_a_call_that_a_filter_cuts_is_not_run() -> None:
    half = calls(call(1, '{"a": ', name="echo", call_id="c2"))
    whole = calls(call(0, "{}", name="echo", call_id="c1"))
    for before, reason in (([], "end_turn"), ([whole], "tool_use")):
        got = checked(run([*before, half, *ended("content_filter")]))
        assert got.read.stop_reason == reason
        stops = [event for event in got.events if event["type"] == "content_block_stop"]
        assert len(stops) == len(before)


def test_deep_nesting_is_skipped_or_told_but_never_raised() -> None:
    deep = "[" * 200_000
    checked(run_bytes([f"data: {deep}\n\n".encode()]))
    checked(run([calls(call(0, '{"a":' + deep, name="echo")), text("x"), *ended()]))
    checked(run([calls(call(0, deep + "]" * 200_000, name="echo")), *ended()]))
    run_body({"choices": [{"message": {"tool_calls": [call(0, deep, name="echo")]}}]})


def test_what_is_endless_is_an_error_before_it_is_too_much() -> None:
    piece = "x" * 1_000_000
    got = checked(run([chunk({"content": piece}) for _ in range(10)]))
    assert "longer than can be kept" in got.events[-1]["error"]["message"]
