"""A reply that is read whole is read within bounds; what is beyond one passes unread, or fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.native.reply_repair import repair_whole, tools_of
from dragoman.bridge.reply.pipeline import answer
from dragoman.notes import Evidence
from dragoman.repair.policy import Policy
from dragoman.wire.reply_bounds import MAX_PARTS, MAX_VALUES, TooMany, whole_value
from dragoman.wire.reply_reader import read_reply

from .replying import new_reply

CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
LEAK = "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>"


def completion(calls: int, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": LEAK, "tool_calls": [CALL] * calls, **fields}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


WITHIN = [completion(MAX_PARTS - 1), {"output": [{}] * MAX_PARTS}, [1] * (MAX_VALUES - 1), 1]
BEYOND = {
    "calls": (completion(MAX_PARTS), "2,000 calls or parts"),
    "choices": ({"choices": [{"index": 0}] * (MAX_PARTS + 1)}, "2,000 calls or parts"),
    "items": ({"output": [{"type": "message"}] * (MAX_PARTS + 1)}, "2,000 calls or parts"),
    "blocks": ({"type": "message", "content": [{}] * (MAX_PARTS + 1)}, "2,000 calls or parts"),
    "parts": (completion(0, content=[{}] * MAX_PARTS), "2,000 calls or parts"),
    "values": (completion(0) | {"extra": [1] * MAX_VALUES}, "200,000 JSON values"),
}


@pytest.mark.parametrize("value", WITHIN, ids=["calls", "items", "values", "a number"])
def test_what_is_within_the_bounds_is_read(value: Any) -> None:
    assert whole_value(json.dumps(value).encode()) == value


@pytest.mark.parametrize(("value", "bound"), BEYOND.values(), ids=BEYOND)
def test_a_reply_beyond_a_bound_fails_in_the_bridge(value: Any, bound: str) -> None:
    body = json.dumps(value).encode()
    with pytest.raises(TooMany, match=f"more than {bound}"):
        whole_value(body)
    whole = answer(new_reply(Evidence()), body, status=200, stream=False)
    assert (whole.status, f"more than {bound}" in whole.body.decode()) == (502, True)
    stream = (
        answer(new_reply(Evidence()), body, status=200, stream=True)
        .body.split(b"\n\n")[-2]
        .decode()
    )
    assert "response.failed" in stream and f"more than {bound}" in stream


@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize(("value", "bound"), BEYOND.values(), ids=BEYOND)
def test_a_reply_beyond_a_bound_is_not_repaired(value: Any, bound: str, api: str) -> None:
    body, evidence = json.dumps(value).encode(), Evidence()
    assert repair_whole(body, tools_of({}, api), Policy(), evidence, 1) == body
    assert evidence.lines() == [f"not repaired a reply of more than {bound}"]
    assert not read_reply(body, keeps=True).turns(last=True)
