"""Whatever an upstream sends: no exception, a legal stream, exactly one terminal."""

from __future__ import annotations

import copy
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.responses.dialects import DIALECTS, OPENAI, Dialect

from .replying import USAGE, call, calls, chunk, ended, run, run_body, run_bytes, text

pytestmark = pytest.mark.slow

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["<think>", "</think>", '{"input":"', "\\", "echo", "apply", "shell", "{}"])
)
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
FIELDS = [
    *("choices", "delta", "message", "content", "reasoning", "reasoning_content", "refusal"),
    *("reasoning_details", "tool_calls", "function_call", "function", "name", "arguments"),
    *("index", "id", "type", "text", "finish_reason", "usage", "error", "annotations"),
    *("logprobs", "url_citation", "url", "token", "prompt_tokens", "total_tokens"),
]
near_chunks = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=20,
)
deltas = st.dictionaries(st.sampled_from(FIELDS), near_chunks, max_size=5)
wild_chunks = any_json | near_chunks | st.builds(chunk, deltas, near_chunks)
every_dialect = st.sampled_from(list(DIALECTS.values()))


@given(st.lists(wild_chunks, max_size=5), every_dialect, st.booleans())
def test_any_json_as_a_chunk_gives_a_legal_stream(
    values: list[Any], dialect: Dialect, done: bool
) -> None:
    run(values, dialect, done=done)


@given(wild_chunks, every_dialect)
def test_any_json_as_a_body_gives_a_legal_stream(value: Any, dialect: Dialect) -> None:
    run_body(value, dialect)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_give_a_legal_stream(pieces: list[bytes]) -> None:
    run_bytes(pieces)
    run_body(b"".join(pieces))


RICH = [
    chunk(
        {"role": "assistant", "content": "a", "reasoning_content": "b", "refusal": "c"},
        choice={
            "logprobs": {
                "content": [{"token": "a", "logprob": -1, "bytes": [1], "top_logprobs": []}]
            }
        },
    ),
    chunk(
        {
            "reasoning_details": [{"type": "reasoning.text", "text": "d"}],
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
                }
            ],
            "content": [{"type": "text", "text": "e"}],
            "function_call": {"name": "echo", "arguments": "{}"},
        }
    ),
    calls(call(0, '{"command":["ls"]}', name="local_shell", call_id="x")),
    calls(call(1, '{"input":"f"}', name="apply", call_id="y")),
    *ended("tool_calls", usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 1}}),
]
WRONG: list[Any] = [None, True, 0, -1, 1e300, "", "x", [], [None], [[]], {}, {"x": {}}]


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a JSON value."""
    if isinstance(value, dict):
        inner: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    else:
        inner = []
    return [at, *(path for name, field in inner for path in places(field, (*at, name)))]


@pytest.mark.parametrize("path", places(RICH)[1:], ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_type_in_any_field_gives_a_legal_stream(path: tuple[Any, ...]) -> None:
    *before, name = path
    for wrong in WRONG[zlib.crc32(repr(path).encode()) % 2 :: 2]:
        values = copy.deepcopy(RICH)
        holder: Any = values
        for step in before:
            holder = holder[step]
        holder[name] = wrong
        run(values)
    del holder[name]
    run(values)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "9" * 5000])
def test_numbers_that_json_cannot_hold_are_not_passed_on(number: str) -> None:
    body = json.dumps(RICH[2]).replace('\\"ls\\"', number)
    tokens = json.dumps(RICH[0]).replace("-1", number)
    data = f"data: {body}\n\ndata: {tokens}\n\n"
    usage = json.dumps(ended()[1]).replace("11", number)
    got = run_bytes([data.encode(), f"data: {usage}\n\n".encode()])
    assert "error" not in got.types and got.broken
    search = json.dumps(calls(call(0, '{"query":"Q"}', name="tool_search")))
    run_bytes([f"data: {search}\n\n".replace('\\"Q\\"', number).encode()])


def test_deep_nesting_is_skipped_or_told_but_never_raised() -> None:
    deep = "[" * 200_000
    run_bytes([f"data: {deep}\n\n".encode()])
    run([calls(call(0, '{"a":' + deep, name="tool_search")), text("x"), *ended()])
    run([calls(call(0, deep + "]" * 200_000, name="echo")), *ended()])


def test_a_stream_goes_on_after_chunks_that_are_none() -> None:
    values = [7, None, [], "x", {"choices": 3}, {"choices": [None, {"delta": 4}]}, text("a")]
    got = run([*values, *ended()], OPENAI)
    assert got.response["status"] == "completed"
    assert got.output[0]["content"][0]["text"] == "a"
