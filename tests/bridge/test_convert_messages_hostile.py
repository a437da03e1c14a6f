"""Whatever a client of the Messages API sends: a chat request that can be sent, or a refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.wire.json_codec import dumps
from tests.counting import calls_of
from tests.fuzz.mutants import chosen, mutants, wrong_values_in_turn
from tests.fuzz.promises import a_request_is_converted_or_refused

from .converting import Json, convert_message

pytestmark = pytest.mark.slow

IMAGE: Json = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "QUFB"},
}


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def result(call_id: str, content: Any, **fields: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


EVERYTHING: Json = {
    "model": "kimi-k2.5",
    "system": [text("x-anthropic-billing-header: cch=1"), text("S")],
    "messages": [
        {"role": "system", "content": [text("first")]},
        {"role": "user", "content": [text("x"), IMAGE]},
        {"role": "system", "content": "deferred tools are now available via ToolSearch:\nCron\n"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "T", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
                text("x"),
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {
                    "type": "tool_use",
                    "id": "b",
                    "name": "f",
                    "input": {"__unparsedToolInput": {"raw": "{", "len": 1}},
                },
                {"type": "server_tool_use", "id": "s", "name": "web", "input": {"query": "q"}},
                {
                    "type": "web_search_tool_result",
                    "tool_use_id": "s",
                    "content": [{"type": "web_search_result", "title": "t", "url": "u"}],
                },
            ],
        },
        {
            "role": "user",
            "content": [
                result("b", [{"type": "tool_reference", "tool_name": "g"}], is_error=True),
                result("a", [text("x"), IMAGE]),
                {"type": "document", "source": {"type": "text", "data": "x"}, "title": "t"},
                text("more"),
            ],
        },
        {"role": "system", "content": [text("x")]},
        {"role": "assistant", "content": "begun"},
    ],
    "tools": [
        {"name": "f", "description": "x", "input_schema": {"type": "object"}, "strict": True},
        {"name": "g", "input_schema": {}, "defer_loading": True, "input_examples": [{"x": 1}]},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
        {"name": "DeferredToolPlaceholder", "input_schema": {"type": "object"}},
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 5000, "display": "updates"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": "x"},
    "max_tokens": 10,
    "stop_sequences": ["x"],
    **dict.fromkeys(("temperature", "top_p", "top_k"), 1),
    "stream": True,
}
NODES = chosen({"everything": EVERYTHING}, at_most=2)


def test_a_wrong_type_in_any_field_is_converted_or_refused() -> None:
    assert a_request_is_converted_or_refused(EVERYTHING, convert=convert_message) is not None
    for turn, node in enumerate(NODES):
        for wrong, body in mutants(EVERYTHING, node.path, wrong_values_in_turn(turn)):
            try:
                a_request_is_converted_or_refused(body, convert=convert_message)
            except Exception as error:
                raise AssertionError(f"{str(wrong)[:50]} at {node}") from error


FIELDS = [
    *("type", "role", "content", "text", "source", "id", "name", "input", "tool_use_id"),
    *("data", "url", "title", "thinking", "is_error", "tools", "system", "tool_choice"),
    *("input_schema", "defer_loading", "output_config", "effort", "format", "schema"),
]
WORDS = [
    *("user", "assistant", "system", "text", "image", "document", "tool_use", "tool_result"),
    *("thinking", "search_result", "tool_reference", "server_tool_use", "base64", "f", "a"),
    *("web_search_tool_result", "auto", "any", "tool", "json_schema", "potato"),
]
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(WORDS)
near = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=30,
)
blocks = st.lists(st.dictionaries(st.sampled_from(FIELDS), near, max_size=6), max_size=4)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"]), "content": blocks | near}
    ),
    max_size=5,
)


@given(
    st.dictionaries(st.sampled_from(FIELDS), near, max_size=4),
    messages,
    st.sampled_from(["drop", "error"]),
)
def test_anything_near_a_request_is_converted_or_refused(
    body: Json, given_messages: list[Json], unsupported: str
) -> None:
    whole = {"model": "kimi-k2.5", "messages": given_messages} | body
    a_request_is_converted_or_refused(whole, unsupported, convert_message)


@pytest.mark.parametrize("body", [None, [], "x", 7, {}, {"model": "m"}])
def test_what_is_no_request_is_refused(body: Any) -> None:
    assert a_request_is_converted_or_refused(body, convert=convert_message) is None


@pytest.mark.parametrize("written", ["\x00", "\ud800", "\x1b[2J", "\u2028", "\ufeff"])
def test_what_a_user_wrote_arrives_as_it_was(written: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": written}], "system": written}
    conversion = a_request_is_converted_or_refused(body, convert=convert_message)
    assert conversion is not None
    sent = json.loads(dumps(conversion.chat))
    assert [message["content"] for message in sent["messages"]] == [written, written]


@pytest.mark.slow
def test_the_cost_of_a_request_is_linear() -> None:
    def calls(size: int) -> int:
        turn: list[Json] = [{"role": "user", "content": "x"}]
        for n in range(size):
            call = {"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}}
            turn.append({"role": "assistant", "content": [call]})
            turn.append({"role": "user", "content": [result(f"c{n}", "x")]})
            turn.append({"role": "system", "content": "r"})
        tools = [{"name": f"f{n}", "input_schema": {"type": "object"}} for n in range(size)]
        body = {"model": "kimi-k2.5", "messages": turn, "tools": tools}
        return calls_of(lambda: convert_message(body, unsupported="drop", evidence=Evidence()))

    calls(1)  # what is made once is made now
    assert calls(2000) < 5 * calls(500)
