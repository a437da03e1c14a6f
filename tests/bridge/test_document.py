"""A reply in one body gives the response object that the same reply gives streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.responses.dialects import OPENAI, Dialect
from dragoman.wire.json_codec import dumps

from .dialects import EVERY_DIALECT
from .grammar import check
from .replying import (
    TOOLS,
    USAGE,
    call,
    calls,
    chunk,
    ended,
    feed_body,
    new_reply,
    run,
    run_body,
    sse,
    text,
    turn,
)

CITATION = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
LOGPROB = {"token": "a", "logprob": -1.5, "bytes": [97], "top_logprobs": []}
MESSAGES: dict[str, dict[str, Any]] = {
    "text": {"content": "Hello."},
    "reasoning": {"reasoning_content": "why", "content": "so"},
    "inline reasoning": {"content": "<think>\nwhy</think>\n\nso"},
    "refusal": {"content": None, "refusal": "no"},
    "nothing": {"content": ""},
    "annotations": {"content": "see", "annotations": [CITATION]},
    "calls": {
        "content": "\n",
        "tool_calls": [
            call(None, "{}", name=name, call_id=f"functions.{name}:{index}")
            for index, name in enumerate(TOOLS)
        ],
    },
    "calls with one id": {
        "content": None,
        "tool_calls": [call(None, '{"a"', name="echo", call_id="x")] * 2,
    },
    "old function call": {"content": None, "function_call": {"name": "echo", "arguments": "{}"}},
}


def completion(message: Any, finish: Any = "stop", **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "model": "k", "choices": [choice]}
    return body | {"usage": USAGE} | fields


def as_stream(message: dict[str, Any], finish: str) -> list[Any]:
    """The message as a stream: its fields one after another, its calls with an index."""
    values = []
    for name, value in message.items():
        if name == "tool_calls":
            values += [calls(element | {"index": at}) for at, element in enumerate(value)]
        else:
            values.append(chunk({name: value}))
    return [*values, *ended(finish)]


@EVERY_DIALECT
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_the_response_is_the_same_streamed_and_not(
    name: str, finish: str, dialect: Dialect
) -> None:
    message = {"role": "assistant"} | MESSAGES[name]
    if name == "calls with one id":
        # Streamed, only whole arguments tell that the second is a call of its own.
        message["tool_calls"] = [
            element | {"id": str(at)} for at, element in enumerate(message["tool_calls"])
        ]
    streamed = run(as_stream(message, finish), dialect)
    whole = run_body(completion(message, finish), dialect)
    assert whole.response == streamed.response


def test_calls_of_one_message_are_calls_of_their_own_even_with_one_id() -> None:
    got = run_body(completion(MESSAGES["calls with one id"], "tool_calls"))
    assert [item["arguments"] for item in got.output] == ['{"a"', '{"a"']
    assert len({item["call_id"] for item in got.output}) == 2


LONG: dict[str, dict[str, Any]] = {
    "calls": {
        "content": "a",
        "tool_calls": [call(None, "{}", name="echo", call_id=each) for each in "vwxyz"],
    },
    "half a call among calls": {
        "content": None,
        "tool_calls": [
            call(None, arguments, name="echo", call_id=str(at))
            for at, arguments in enumerate(["{}", '{"a"', "{}", "{}"])
        ],
    },
    "a call without a name": {"content": None, "tool_calls": [call(None, "{}", call_id="x")] * 3},
    "parts": {
        "content": [
            *({"type": "thinking", "thinking": [{"type": "text", "text": str(n)}]} for n in "abc"),
            *({"type": "text", "text": str(n)} for n in "abc"),
            *({"type": "image"} for _ in range(3)),
        ]
    },
    "details": {"content": "a", "reasoning_details": [{"text": n} for n in "abcd"]},
    "details of what is said already": {
        "content": "a",
        "reasoning": "abcd",
        "reasoning_details": [{"text": n} for n in "abcd"],
    },
    "annotations": {
        "content": "see",
        "refusal": None,
        "annotations": [CITATION, {"type": "?"}, CITATION, CITATION],
        "citations": ["u", "v", "w", "x"],
    },
    "fields": {"content": "a", **{f"field{n}": n for n in range(9)}},
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("finish", ["stop", "length", "failed", None])
def test_repair_that_finds_nothing_changes_nothing(name: str, finish: str | None) -> None:
    body = completion(LONG[name], finish, citations=["a", "b", "c", "d"])
    body["choices"][0]["logprobs"] = {"content": [LOGPROB] * 5}
    body["choices"].append({"index": 1, "message": LONG[name], "finish_reason": finish})
    read = []
    for repairs in (False, True):
        evidence = Evidence()
        reply = new_reply(evidence)
        repair = ChatRepair(DeclaredTools({}), RepairOptions(), evidence, 1) if repairs else None
        check(feed_body(reply, dumps(body), repair), OPENAI)
        read.append((reply.response, evidence.lines()))
    assert read[0] == read[1]


def test_log_probabilities_of_a_message_are_kept() -> None:
    body = completion({"content": "a"})
    body["choices"][0]["logprobs"] = {"content": [LOGPROB]}
    assert run_body(body).output[0]["content"][0]["logprobs"] == [LOGPROB]


def test_a_stream_where_a_body_was_asked_for_is_read_all_the_same() -> None:
    values = [text("Hello."), *ended()]
    asked = turn(stream=False)
    for data in (sse(values), b": comment\n\n" + sse(values, done=False)):
        assert run_body(data, turn_=asked).response == run(values).response


def test_a_message_without_a_finish_reason_is_whole() -> None:
    got = run_body(completion({"content": "a"}, None))
    assert got.response["status"] == "completed"


def test_an_error_with_status_200_fails_the_turn() -> None:
    got = run_body({"error": {"message": "quota exceeded", "code": 429}})
    assert got.story.events[-2]["code"] == "insufficient_quota"
    assert got.response["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"null", b"[]", b"{}", b'{"choices":[]}'])
def test_a_body_without_a_message_fails_the_turn(body: bytes) -> None:
    got = run_body(body)
    assert got.response["status"] == "failed"
    assert got.response["error"]["code"] == "server_error"


@pytest.mark.parametrize("name", MESSAGES)
def test_a_streamed_client_gets_the_whole_stream_of_a_body(name: str) -> None:
    got = run_body(completion(MESSAGES[name]))
    assert got.types[:2] == ["response.created", "response.in_progress"]
    assert got.types[-1] == "response.completed"
    assert json.loads(json.dumps(got.response)) == got.response
