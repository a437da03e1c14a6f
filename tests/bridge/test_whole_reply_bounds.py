"""An event, or a reply that comes whole, is read within bounds; beyond one it passes unread, or the
turn fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import read_reply, repair_whole, tools_of
from dragoman.bridge.reply.bridge_pipeline import answer
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.stage import at_once
from dragoman.wire import sse
from dragoman.wire.reply_bounds import MAX_PARTS, MAX_VALUES
from dragoman.wire.sse import Document, Frame

from .replying import new_reply

CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
LEAK = "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>"


def completion(calls: int, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": LEAK, "tool_calls": [CALL] * calls, **fields}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


def streamed(calls: int, **fields: Any) -> dict[str, Any]:
    delta = {"content": LEAK, "tool_calls": [CALL] * calls, **fields}
    return {"choices": [{"index": 0, "delta": delta}]}


WITHIN = [
    completion(MAX_PARTS - 1),
    streamed(MAX_PARTS - 1),
    {"output": [{}] * MAX_PARTS},
    [1] * (MAX_VALUES - 1),
    1,
]
CALLS = "1,000 calls or parts"
SOURCE = {"type": "url_citation"}
BEYOND = {
    "calls": (completion(MAX_PARTS), CALLS),
    "calls of a chunk": (streamed(MAX_PARTS), CALLS),
    "calls of choices": ({"choices": completion(MAX_PARTS // 2)["choices"] * 2}, CALLS),
    "choices": ({"choices": [{"index": 0}] * (MAX_PARTS + 1)}, CALLS),
    "sources": (streamed(1) | {"citations": [SOURCE] * MAX_PARTS}, CALLS),
    "sources of a part": (streamed(0, content=[{"annotations": [SOURCE] * MAX_PARTS}]), CALLS),
    "items": ({"output": [{"type": "message"}] * (MAX_PARTS + 1)}, CALLS),
    "parts of an item": ({"output": [{"content": [{}] * MAX_PARTS}]}, CALLS),
    "items of an event": ({"response": {"output": [{}] * (MAX_PARTS + 1)}}, CALLS),
    "parts of an event": ({"item": {"summary": [{}] * (MAX_PARTS + 1)}}, CALLS),
    "blocks": ({"type": "message", "content": [{}] * (MAX_PARTS + 1)}, CALLS),
    "blocks of an event": ({"message": {"content": [{}] * (MAX_PARTS + 1)}}, CALLS),
    "parts": (completion(0, content=[{}] * MAX_PARTS), CALLS),
    "values": (completion(0) | {"extra": [1] * MAX_VALUES}, "200,000 JSON values"),
}


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@pytest.mark.parametrize(
    "value", WITHIN, ids=["calls", "of a chunk", "items", "values", "a number"]
)
def test_what_is_within_the_bounds_is_read(value: Any) -> None:
    assert Document(json.dumps(value).encode()).json == Frame(event(value)).json == value


def test_the_log_probabilities_of_a_long_answer_are_within_them() -> None:
    logprobs = [{"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}] * 20_000
    value = completion(1, logprobs={"content": logprobs})
    assert Frame(event(value)).json == value


@pytest.mark.parametrize(("value", "bound"), BEYOND.values(), ids=BEYOND)
def test_what_is_beyond_a_bound_is_parsed_once_at_most(
    value: Any, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, read, bounded = Frame(event(value)), [], sse.bounded
    monkeypatch.setattr(sse, "bounded", lambda text: read.append(text) or bounded(text))
    for _ in range(3):
        assert frame.json is None
        assert frame.fault.startswith(f"more than {bound}")
    assert len(read) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "in a stream"])
@pytest.mark.parametrize(("value", "bound"), BEYOND.values(), ids=BEYOND)
def test_a_reply_beyond_a_bound_fails_in_the_bridge(value: Any, bound: str, stream: bool) -> None:
    body = event(value) + event(completion(1)) if stream else json.dumps(value).encode()
    whole = at_once(answer(new_reply(Evidence()), body, status=200, stream=False))
    assert (whole.status, f"more than {bound}" in whole.body.decode()) == (502, True)
    *_, last, _ = at_once(answer(new_reply(Evidence()), body, status=200, stream=True)).body.split(
        b"\n\n"
    )
    assert b"response.failed" in last and f"more than {bound}" in last.decode()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "in a stream"])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize(("value", "bound"), BEYOND.values(), ids=BEYOND)
def test_a_reply_beyond_a_bound_is_not_repaired(
    value: Any, bound: str, api: str, stream: bool
) -> None:
    body, evidence = event(value) if stream else json.dumps(value).encode(), Evidence()
    assert repair_whole(body, tools_of({}, api), RepairOptions(), evidence, 1) == body
    assert evidence.lines() == [f"not repaired an event or reply of more than {bound}"]
    assert not read_reply(body, keeps=True).turns(last=True)
