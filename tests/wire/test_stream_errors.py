"""Errors within a reply: as an event, in a chunk, in a choice; and what is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reply.bridge_pipeline import answer
from dragoman.inspect.parse.reply import parse_reply
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.stage import at_once
from dragoman.responses.dialects import CODEX, OPENAI
from dragoman.wire.chat_end import has_ended
from dragoman.wire.errors import error_object, known_error, read_error
from tests.repair.streams import repair_whole, summarize

from ..bridge.replying import Run, chunk, ended, new_reply, run, run_body, run_bytes, sse, text
from .test_errors import CONTEXT, EXACT, NEAREST, PROMPT, QUOTA, RATE, SAID, shapes


@pytest.mark.parametrize(("status", "said", "code"), SAID)
def test_an_error_in_the_stream_fails_the_turn_with_a_code_that_its_client_knows(
    status: int, said: dict[str, Any], code: str | None
) -> None:
    wanted = code if code in {CONTEXT, QUOTA, RATE, PROMPT, *EXACT} else None
    values = shapes({"code": status} | said)[:3]
    for dialect, value in zip((CODEX, OPENAI, CODEX), values, strict=True):
        got = run([text("a"), value], dialect)
        told = got.response["error"]
        assert told["message"].startswith(said["message"])
        fallback = "invalid_prompt" if status == 400 and "code" not in said else "server_error"
        exact = wanted or fallback
        assert got.story.events[-2]["code"] == exact
        assert told["code"] == (exact if dialect is CODEX else NEAREST.get(exact, exact))
        assert got.output[0]["status"] == "incomplete"


def test_an_error_that_shares_a_chunk_with_choices_is_an_error() -> None:
    value = chunk({"content": ""}, "error", error={"code": 502, "message": "Provider lost"})
    got = run([text("a"), value])
    assert got.response["error"] == {"code": "server_error", "message": "Provider lost"}


def in_a_choice(error: Any, *, whole: bool) -> Run:
    """A reply whose first choice has an error, after some text."""
    choice = {"index": 0, "finish_reason": "error", "error": error}
    if whole:
        message = {"role": "assistant", "content": "a"}
        return run_body({"choices": [choice | {"message": message}]})
    return run([text("a"), chunk(choice=choice | {"delta": {"content": ""}}), *ended()])


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": 502, "message": "Provider lost"}, "server_error", "Provider lost"),
        ({"code": 429, "message": "Slow"}, RATE, "Slow. Please try again in 5s."),
        ({"code": 400, "message": "Prompt is too long"}, CONTEXT, "Prompt is too long"),
        ({"code": "insufficient_quota", "message": "Pay"}, QUOTA, "Pay"),
        ("Provider lost", "server_error", "Provider lost"),
    ],
)
def test_an_error_in_a_choice_fails_the_turn(
    error: Any, code: str, message: str, whole: bool
) -> None:
    got = in_a_choice(error, whole=whole)
    told = got.story.events[-2]
    assert (told["type"], told["code"], told["message"]) == ("error", code, message)
    assert got.response["error"] == {"code": NEAREST.get(code, code), "message": message}
    assert got.output[0]["status"] == "incomplete"


def test_an_error_in_a_choice_is_an_http_error_for_a_client_that_wants_no_stream() -> None:
    failed = {"code": 429, "message": "Slow"}
    choice = {"index": 0, "finish_reason": "error", "error": failed, "message": {"content": "a"}}
    for body in (json.dumps({"choices": [choice]}).encode(), sse([chunk(choice=choice)])):
        given = at_once(answer(new_reply(Evidence()), body, status=200, stream=False))
        error = json.loads(given.body)["error"]
        assert (given.status, error["code"]) == (502, RATE)
        assert error["message"] == "Slow. Please try again in 5s."


@pytest.mark.parametrize("nothing", [None, {}, "", [], 0, False])
def test_a_choice_whose_error_is_empty_has_none(nothing: Any) -> None:
    got = run([chunk({"content": "a"}, choice={"error": nothing}), *ended()])
    assert got.response["status"] == "completed"


def test_a_code_of_the_hosts_own_is_no_status() -> None:
    for code in ("1261", 1261, 40001):
        error = error_object({"error": {"code": code, "message": "Prompt is too long"}})
        assert known_error(error).code == CONTEXT


@pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 425])
def test_what_may_pass_is_not_told_as_final(status: int) -> None:
    error = error_object({"error": {"code": status, "message": "m"}})
    assert known_error(error).code == "server_error"


def test_an_error_event_is_an_error_whatever_its_data() -> None:
    for data in (b'{"message": "m"}', b"{}", b'"m"', b"[]"):
        got = run_bytes([sse([text("a")], done=False) + b"event: error\ndata: " + data + b"\n\n"])
        assert got.types[-1] == "response.failed"


@pytest.mark.parametrize("head", [b"id: 1\nevent: error\n", b"event: error\nid: 1\n"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_error_event_may_have_other_lines(head: bytes, end: bytes) -> None:
    raw = (head + b'data: {"message": "m"}\n\n').replace(b"\n", end)
    got = run_bytes([sse([text("a")], done=False) + raw])
    assert got.response["error"]["message"] == "m"


def test_a_finish_reason_that_means_failure_fails_the_turn() -> None:
    got = run([text("a"), *ended("insufficient_system_resource")])
    assert got.types[-1] == "response.failed"
    assert got.response["status"] == "failed"


def test_an_error_after_the_finish_reason_loses_nothing() -> None:
    got = run([text("a"), chunk(finish="stop"), {"error": {"message": "late"}}])
    assert got.response["status"] == "completed"
    assert "ignored failure after the finish reason" in got.noted


@pytest.mark.parametrize(
    "value",
    [
        chunk({"content": "a"}),
        chunk({"content": "a"}, error=None),
        {"choices": [], "usage": {"prompt_tokens": 1}},
        {"choices": [], "message": "m", "code": 1},
        {"id": "x"},
        None,
        "error",
        [],
    ],
)
def test_what_is_no_error_is_not_taken_for_one(value: Any) -> None:
    assert read_error(value) is None


@pytest.mark.parametrize(
    ("event", "is_error"),
    [
        ('{"error":{"message":"m","code":"overloaded"}}', True),
        ('{"error":"m"}', True),
        ('{"error":{}}', True),
        ('{"object":"error","message":"m","code":400}', True),
        ('{"type":"error","message":"m"}', True),
        ('{"detail":"m"}', True),
        ('{"errors":[{"message":"m"}]}', True),
        ('[{"error":{"message":"m","status":"INTERNAL"}}]', True),
        ('{"choices":[],"error":{"message":"m","code":502}}', True),
        ('{"error":null,"choices":[]}', False),
        ('{"error":"","choices":[]}', False),
        ('{"error":{},"choices":[]}', False),
        ('{"choices":[{"index":0,"delta":{"content":"\\"error\\": {"}}]}', False),
        ('{"usage":{"error":{"message":"m"}}}', False),
        ("[]", False),
        ("7", False),
    ],
)
def test_all_who_read_an_event_agree_whether_it_is_an_error(event: str, is_error: bool) -> None:
    stream = f"data: {event}\n\n".encode()
    assert (read_error(json.loads(event)) is not None) is is_error
    assert (parse_reply(stream).error is not None) is is_error
    assert bool(summarize(stream).error_code) is is_error
    assert has_ended(stream) is is_error


def test_an_error_of_any_shape_ends_a_stream_and_no_finish_is_made_up() -> None:
    begun = b'data: {"choices":[{"index":0,"delta":{"content":"<|tool_calls_section_begin|>'
    begun += b'<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\\"a\\":"}}]}\n\n'
    for error in (b"event: error\ndata: {}\n\n", b'data: {"detail":"down"}\n\n'):
        evidence = Evidence()
        out = repair_whole(begun + error, DeclaredTools({}), RepairOptions(), evidence, 0)
        assert error in out and b'"finish_reason":"' not in out
        assert has_ended(out)
