"""A wrong type in any field of a reply: it is repaired and bridged as far as it can be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.repair.repair_options import RepairOptions
from dragoman.responses.dialects import DIALECTS
from dragoman.wire.json_codec import loads
from tests.fuzz.mutants import (
    Node,
    chosen,
    mutants,
    streams,
    whole_replies,
    wrong_values_in_turn,
)
from tests.fuzz.promises import (
    TOOLS,
    a_headline_is_found,
    a_stream_is_bridged,
    a_stream_is_repaired,
    a_whole_reply_is_repaired_and_bridged,
    an_error_is_told,
    encoded,
    frames_of,
    split,
)

pytestmark = pytest.mark.slow

STREAMS = streams()
WHOLE = whole_replies()
NODES = chosen(STREAMS, at_most=1)
NODES_OF_WHOLE = chosen(WHOLE, at_most=1)
CODEX = DIALECTS["codex"]


@pytest.mark.parametrize("group", range(8))
def test_a_wrong_type_in_any_field_of_a_stream(group: int) -> None:
    for turn, node in enumerate(NODES[group::8]):
        values = wrong_values_in_turn(turn)
        for wrong, chunks in mutants(STREAMS[node.fixture], node.path, values):
            with_name(node, wrong, (_repaired, _bridged)[turn % 2], encoded(chunks))


def _repaired(body: bytes) -> None:
    a_stream_is_bridged(a_stream_is_repaired([body]))
    a_headline_is_found(body)


def _bridged(body: bytes) -> None:
    """Without repair."""
    a_stream_is_bridged(frames_of([body]), CODEX)


@pytest.mark.parametrize("group", range(2))
def test_a_wrong_type_in_any_field_of_a_whole_reply(group: int) -> None:
    for turn, node in enumerate(NODES_OF_WHOLE[group::2]):
        values = wrong_values_in_turn(turn)
        for wrong, reply in mutants(WHOLE[node.fixture], node.path, values):
            with_name(node, wrong, _whole, json.dumps(reply).encode())


def _whole(body: bytes) -> None:
    a_whole_reply_is_repaired_and_bridged(body)
    a_headline_is_found(body)
    for status in (400, 429, 500):
        an_error_is_told(status, body)


def with_name(node: Node, wrong: Any, promise: Any, body: bytes) -> None:
    try:
        promise(body)
    except Exception as error:
        raise AssertionError(f"{str(wrong)[:50]} at {node}") from error


def test_the_fixtures_themselves_are_bridged() -> None:
    for chunks in STREAMS.values():
        _repaired(encoded(chunks))
        _bridged(encoded(chunks))
    for reply in WHOLE.values():
        _whole(json.dumps(reply).encode())


def test_of_a_field_that_is_there_twice_the_last_counts() -> None:
    text = b'{"choices":[],"choices":[{"index":0,"delta":{"content":"a","content":"b<"}}]}'
    assert loads(text)["choices"][0]["delta"]["content"] == "b<"
    _repaired(b"data: " + text + b"\n\ndata: [DONE]\n\n")


MARKED = [
    *("<", "<|tool_call", "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>", "{}"),
    *("<|tool_calls_section_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "bash:0"),
    *("stop", "tool_calls", "a", " ", "functions.read:1", '{"command": "<|tool_call_end|>"}'),
]
FIELDS = [
    *("content", "reasoning", "reasoning_content", "reasoning_details", "tool_calls", "role"),
    *("index", "id", "function", "name", "arguments", "type", "text", "refusal", "logprobs"),
]
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from([2**64, 10**400, int("9" * 4300), 1.5])
    | st.sampled_from(MARKED)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=6,
)
deltas = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
natives = st.fixed_dictionaries(
    {}, optional={"index": scalars, "id": scalars, "type": scalars, "function": deltas}
)
choices = st.fixed_dictionaries(
    {"delta": deltas | st.builds(lambda native: {"tool_calls": native}, st.lists(natives))},
    optional={"index": scalars, "finish_reason": scalars, "usage": values, "logprobs": values},
)
chunks = (
    st.builds(
        lambda choices, more: more | {"choices": choices},
        st.lists(choices | values, max_size=3),
        st.dictionaries(st.sampled_from(["id", "usage", "error", "model"]), values, max_size=2),
    )
    | values
)
policies = st.builds(
    RepairOptions, st.sampled_from(["content", "field"]), st.sampled_from(["tool_calls", "keep"])
)


@given(
    st.lists(chunks, max_size=6),
    st.lists(st.integers(1, 200), max_size=8),
    st.sampled_from([TOOLS, {}]),
    policies,
)
def test_any_chunks_with_markers_are_repaired_and_bridged(
    soup: list[Any], cuts: list[int], request: Any, options: RepairOptions
) -> None:
    a_stream_is_bridged(a_stream_is_repaired(split(encoded(soup), cuts), request, options))
