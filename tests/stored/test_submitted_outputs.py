"""Outputs that are submitted to a kept response are sent as its calls' outputs, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.stored.continuation import resuming, submitted
from dragoman.stored.stored_response import StoredResponse
from dragoman.wire.errors import Refused
from dragoman.wire.json_codec import dumps
from tests.bridge.converting import convert, user

CALL = {"type": "function_call", "id": "fc_1_0", "call_id": "c", "name": "bash", "arguments": "{}"}
KEPT = StoredResponse(
    response={"id": "resp_1", "output": [CALL]},
    request={"model": "m", "input": "Go."},
    items=dumps([user("Go.")]),
)
DEEP: Any = 1
for _ in range(150):
    DEEP = [DEEP]


def sent(body: object) -> list[Any]:
    """The messages of the request that continues it."""
    request = resuming(KEPT, submitted(body, KEPT))
    messages: list[Any] = convert(request, unsupported="drop", evidence=Evidence()).chat["messages"]
    return messages


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ([{"type": "input_text", "text": "in parts"}], "in parts"),
        ("", ""),
        (None, ""),
        ({"output": "x"}, "x"),
        (5, "5"),
        (DEEP, json.dumps(DEEP)),
    ],
    ids=["parts", "empty", "none", "object", "number", "deep"],
)
def test_an_output_may_be_anything_that_a_call_can_be_answered_with(
    output: Any, content: str
) -> None:
    messages = sent({"tool_outputs": [{"tool_call_id": "c", "output": output}]})
    assert [message["role"] for message in messages] == ["user", "assistant", "tool"]
    assert messages[-1]["content"] == content


WORDS = ["c", "message", "user", "input_text", "reasoning", ""]
NAMES = ["tool_outputs", "tool_call_id", "output", "stream", "type", "call_id"]
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        | inner.map(lambda value: {"tool_outputs": [{"tool_call_id": "c", "output": value}]})
    ),
    max_leaves=12,
)


@given(body=ANY)
def test_whatever_is_submitted_is_sent_or_refused(body: Any) -> None:
    try:
        assert sent(body)[-1]["role"] in ("tool", "user")
    except Refused as refused:
        assert refused.status == 400
