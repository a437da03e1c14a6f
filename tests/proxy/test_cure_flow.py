"""Which chat requests are read, as something in them may be refused: known by a look at them."""

from __future__ import annotations

import json

import pytest

from dragoman.proxy.flows.cure_flow import may_be_strict
from dragoman.wire.request_bounds import MAX_VALUES


def body(arguments: object = "{}", model: str = "x", before: str = "") -> bytes:
    call = {"function": {"name": "bash", "arguments": arguments}}
    messages = [{"content": before}, {"role": "assistant", "tool_calls": [call]}]
    return json.dumps({"messages": messages, "model": model}).encode()


@pytest.mark.parametrize(
    ("sent", "is_strict"),
    [
        (body(), False),
        (body('{"a": "\\"b\\" \\u003c"}'), False),
        (body(""), False),
        (body({"a": 1}), False),
        (body(None), False),
        (body('{"a": "b'), True),
        (body('{"a": {"b": 1}'), True),
        (body("[1]"), True),
        (body("\ud800"), True),
        (body(model="kimi-k3"), True),
        (body(before='"model": "kimi", "arguments": "{"'), False),
        (b'{"arguments": "', False),
        (b'{"arguments": "\xff"}', True),
        (b"", False),
    ],
)
def test_a_request_is_read_only_if_something_in_it_may_be_refused(
    sent: bytes, is_strict: bool
) -> None:
    assert may_be_strict(sent) == is_strict


def test_arguments_after_very_many_values_are_not_looked_at() -> None:
    many = json.dumps([0] * MAX_VALUES)
    calls = [{"function": {"arguments": each}} for each in ('{"a": ' + many + "}", "{")]
    assert not may_be_strict(json.dumps({"messages": [{"tool_calls": calls}]}).encode())
    assert may_be_strict(json.dumps({"messages": [{"tool_calls": calls[::-1]}]}).encode())
