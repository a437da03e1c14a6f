"""A request is read within bounds; what is beyond one is refused before it costs anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire import request_bounds
from dragoman.wire.json_codec import MAX_NESTING, PIECE, NotJson, loads
from dragoman.wire.request_bounds import (
    MAX_BODY,
    MAX_ITEMS,
    MAX_PARTS,
    MAX_TOOLS,
    MAX_VALUES,
    TooLarge,
    check_size,
    check_value,
)


def read(body: bytes) -> Any:
    for _ in check_size(body):
        pass
    value = loads(body, checks=False)
    check_value(value)
    return value


TOOL = {"type": "function", "name": "bash"}
ADDED = {"type": "tool_addition"}
NAMESPACE = {"type": "namespace", "name": "n", "tools": [TOOL] * 999}


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "value",
    [
        {"input": "x" * (MAX_BODY - 12)},
        {"input": "a, [b] {c} \\ \"d\"\n" * 100_000},
        {"input": "\\" * 4_000_000 + "," * MAX_VALUES},
        [0] * (MAX_VALUES - 1),
        {"input": [{}] * MAX_ITEMS},
        {"messages": [{"content": [{}] * MAX_PARTS}] * 3},
        {"tools": [TOOL] * MAX_TOOLS},
        {"tools": [NAMESPACE, NAMESPACE]},
    ],
    ids=["bytes", "marks in text", "backslashes", "values", "items", "parts", "tools", "namespace"],
)  # fmt: skip
def test_what_is_within_the_bounds_is_read(value: Any) -> None:
    assert read(text(value)) == value


@pytest.mark.parametrize(
    ("body", "bound"),
    [
        (text({"input": "x" * MAX_BODY}), "33,554,432 bytes, decompressed"),
        (text([0] * (MAX_VALUES + 1)), "400,000 JSON values"),
        (b"[" * (MAX_VALUES + 1), "400,000 JSON values"),
        (b'["' + b"x," * MAX_VALUES + b'"' + b",[]" * MAX_VALUES + b"]", "400,000 JSON values"),
        (b'["\\\\"' + b",0" * (MAX_VALUES + 1) + b"]", "400,000 JSON values"),
        (b'["' + b"," * MAX_VALUES + b'"' + b'""' * 5 * MAX_VALUES, "400,000 JSON values"),
        (json.dumps([0] * (MAX_VALUES + 1)).encode("utf-16"), "400,000 JSON values"),
        (text({"input": [{}] * (MAX_ITEMS + 1)}), "20,000 items in 'input'"),
        (text({"messages": [{}] * (MAX_ITEMS + 1)}), "20,000 items in 'messages'"),
        (text({"messages": [{"tool_calls": [0] * (MAX_PARTS + 1)}]}), "5,000 parts in an item"),
        (text({"tools": [TOOL] * (MAX_TOOLS + 1)}), "2,000 tools"),
        (text({"functions": [TOOL] * (MAX_TOOLS + 1)}), "2,000 tools"),
        (text({"tools": [NAMESPACE] * 3}), "2,000 tools"),
        (text({"tools": [TOOL], "input": [{"tools": [TOOL] * MAX_TOOLS}]}), "2,000 tools"),
        (text({"messages": [{"content": [ADDED] * (MAX_TOOLS + 1)}]}), "2,000 tools"),
        (text({"messages": [{"content": [{"tool_changes": [ADDED] * 2001}]}]}), "2,000 tools"),
    ],
)
def test_what_is_beyond_a_bound_is_refused_by_its_name(body: bytes, bound: str) -> None:
    with pytest.raises(TooLarge, match=bound) as refused:
        read(body)
    assert (refused.value.status, refused.value.code) == (413, "request_too_large")


def test_others_have_their_turn_while_a_large_body_is_counted() -> None:
    assert sum(1 for _ in check_size(b"x" * (100 * PIECE))) == 100
    assert not list(check_size(b"," * MAX_VALUES))  # has not enough bytes


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{}{}", b"[" * MAX_NESTING * 2 + b"]" * MAX_NESTING * 2]
)
def test_what_is_not_json_is_told_apart(body: bytes) -> None:
    with pytest.raises(NotJson):
        read(body)


def values_in(value: Any) -> int:
    """Members, and arrays and objects once more: what commas and brackets show."""
    if isinstance(value, (list, dict)):
        members = value.values() if isinstance(value, dict) else value
        return 1 + max(len(value) - 1, 0) + sum(values_in(m) for m in members)
    return 0


STRINGS = st.text(st.sampled_from('a,[{"\\\n'), max_size=6)
VALUES = st.recursive(
    STRINGS | st.integers(),
    lambda members: st.lists(members, max_size=5) | st.dictionaries(STRINGS, members, max_size=5),
    max_leaves=20,
)


@given(value=VALUES)
def test_what_stands_in_strings_does_not_count(value: Any) -> None:
    counted = values_in(value) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_bounds, "MAX_VALUES", max(counted, 40))
        assert read(text(value)) == value
        if counted > 40:
            patch.setattr(request_bounds, "MAX_VALUES", counted - 1)
            with pytest.raises(TooLarge):
                read(text(value))
