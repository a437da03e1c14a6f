"""Whatever a client sends: a chat request that can be sent, or a refusal that says why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.responses.dialects import DIALECTS
from dragoman.wire.json_codec import MAX_NESTING, NotJson, dumps, loads
from tests.counting import calls_of
from tests.fuzz.mutants import Node, chosen, mutants, nested, requests, wrong_values_in_turn
from tests.fuzz.promises import (
    a_reply_can_answer,
    a_request_is_converted_or_refused,
    an_input_that_is_kept_can_be_listed,
)

from .converting import Json, call, convert, function, output, user

pytestmark = pytest.mark.slow

REQUESTS = requests()
# What the fixtures of real clients do not use.
REQUESTS["everything"] = {
    "model": "kimi-k2.5",
    "input": [
        user([{"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}]),
        user([{"type": "input_file", "file_data": "data:x;base64,AA==", "filename": "f"}]),
        user([{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}]),
        {"role": "developer", "content": "x"},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "x"}], "summary": []},
        call("c1", namespace="n"),
        output("c1", [{"type": "input_text", "text": "x"}, {"type": "input_image"}]),
        {"type": "local_shell_call", "call_id": "c2", "action": {"type": "exec", "command": ["x"]}},
        {"type": "local_shell_call_output", "id": "c2", "output": "x"},
        {"type": "shell_call", "call_id": "c3", "action": {"commands": ["x"]}},
        {"type": "shell_call_output", "call_id": "c3", "output": [{"stdout": "x"}]},
        {"type": "apply_patch_call", "call_id": "c4", "operation": {"type": "x", "path": "y"}},
        {"type": "apply_patch_call_output", "call_id": "c4", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c5", "name": "x", "input": "y"},
        {"type": "custom_tool_call_output", "call_id": "c5", "output": "x"},
        {"type": "tool_search_call", "call_id": "c6", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "c6", "tools": [function("f")]},
        {"type": "mcp_call", "id": "c7", "name": "x", "arguments": "{}", "output": "y"},
        {"type": "mcp_list_tools", "server_label": "s", "tools": [{"name": "t"}]},
        {"type": "computer_call_output", "output": {"type": "computer_screenshot"}},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "of_2030", "content": [{"type": "text", "text": "x"}]},
    ],
    "tools": [
        function("f", strict=True, description="x"),
        {"type": "custom", "name": "c", "format": {"type": "grammar", "definition": "x"}},
        {"type": "namespace", "name": "n", "description": "x", "tools": [function("g")]},
        *({"type": kind} for kind in ("local_shell", "shell", "apply_patch", "web_search")),
        {"type": "tool_search", "execution": "client", "description": "x"},
    ],
    "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]},
    "text": {"format": {"type": "json_schema", "name": "s", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "high", "summary": "auto"},
    **dict.fromkeys(("temperature", "top_p", "max_output_tokens", "top_logprobs", "seed"), 1),
    "include": ["message.output_text.logprobs"],
    "metadata": {"a": "b"},
    "stop": ["x"],
    "logit_bias": {"1": 2},
    "truncation": "auto",
    "stream": True,
    "store": False,
    "parallel_tool_calls": True,
}
REQUESTS["chat"] = {
    "model": "qwen3",
    "input": [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "x"},
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"type": "reasoning", "summary": []},
                call("b", "f"),
            ],
        },
        user([output("a", "x"), {"type": "input_text", "text": "x"}]),
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {"type": "function", "function": {"name": "c", "parameters": {}}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
}
NODES = chosen(REQUESTS, at_most=1)


@pytest.mark.parametrize("group", range(8))
def test_a_wrong_type_in_any_field_is_converted_or_refused(group: int) -> None:
    for turn, node in enumerate(NODES[group::8]):
        _try_wrong_values(node, wrong_values_in_turn(turn))


def _try_wrong_values(node: Node, values: list[Any]) -> None:
    for wrong, body in mutants(REQUESTS[node.fixture], node.path, values):
        try:
            conversion = a_request_is_converted_or_refused(body)
            if conversion is not None:
                a_reply_can_answer(conversion)
                an_input_that_is_kept_can_be_listed(body)
        except Exception as error:
            raise AssertionError(f"{str(wrong)[:50]} at {node}") from error


def test_the_fixtures_themselves_are_converted() -> None:
    for body in REQUESTS.values():
        assert a_request_is_converted_or_refused(body) is not None


FIELDS = [
    *("model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "stream"),
    *("type", "role", "content", "text", "image_url", "call_id", "id", "name", "namespace"),
    *("arguments", "output", "action", "operation", "summary", "encrypted_content", "format"),
    *("schema", "parameters", "command", "commands", "status", "execution", "mode", "effort"),
    *("messages", "tool_calls", "tool_call_id", "function", "custom", "data", "mimeType"),
    *("resource", "source", "result", "outputs", "allowed_tools", "response_format"),
]
WORDS = [
    *("message", "function_call", "function_call_output", "reasoning", "custom_tool_call"),
    *("local_shell_call", "shell_call", "apply_patch_call", "tool_search_call", "mcp_call"),
    *("input_text", "output_text", "input_image", "input_file", "input_audio", "function"),
    *("custom", "namespace", "local_shell", "shell", "user", "assistant", "system", "kimi-k2"),
    *("developer", "tool", "auto", "required", "allowed_tools", "json_schema", "c1", "potato"),
    *("tool_call_output", "image", "image/png", "data:image/png;base64,AA==", "compaction"),
    *("code_interpreter_call", "mcp_list_tools", "computer_call_output", "qwen3", "none"),
]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(WORDS)
)
near_requests = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=30,
)


@given(
    st.dictionaries(st.sampled_from(FIELDS), near_requests, max_size=6),
    st.lists(st.dictionaries(st.sampled_from(FIELDS), near_requests, max_size=6), max_size=5),
    st.sampled_from(["drop", "error"]),
    st.sampled_from(list(DIALECTS.values())),
)
def test_anything_near_a_request_is_converted_or_refused(
    body: Json, items: list[Json], unsupported: str, dialect: Any
) -> None:
    whole = {"model": "kimi-k2.5", "input": items} | body
    conversion = a_request_is_converted_or_refused(whole, unsupported)
    if conversion is not None:
        a_reply_can_answer(conversion, dialect)


def test_of_a_field_that_is_there_twice_the_last_counts_for_all_who_look() -> None:
    body = loads(b'{"model":"a","input":"x","stream":true,"model":"b","stream":false}')
    conversion = convert(body, unsupported="drop", evidence=Evidence())
    assert dumps(conversion.chat) == dumps(
        {"model": "b", "messages": [{"role": "user", "content": "x"}]}
    )
    assert conversion.turn.stream is False


@pytest.mark.parametrize("text", ["\x00", "\ud800", "a\udfffb", "\x1b[2J", "\u2028", "\ufeff"])
def test_what_a_user_wrote_arrives_as_it_was(text: str) -> None:
    body = json.loads(json.dumps({"model": "m", "input": text, "instructions": text}))
    conversion = a_request_is_converted_or_refused(body)
    assert conversion is not None
    sent = json.loads(dumps(conversion.chat))
    assert [message["content"] for message in sent["messages"]] == [text, text]


@pytest.mark.parametrize("role", ["potato", "tool", "function", "", "SYSTEM", "\x00"])
def test_an_unknown_role_is_refused_or_taken_for_a_known_one(role: str) -> None:
    a_request_is_converted_or_refused({"model": "m", "input": [user("x") | {"role": role}]})


@pytest.mark.parametrize(
    "text",
    [
        b'{"model": "m", "input": "x", "temperature": 1e999}',
        b'{"model": "m", "input": "x", "temperature": NaN}',
        b'{"model": "m", "input": "x", "metadata": {"a": 1e999}}',
        b'{"model": "m", "input": "x", "max_output_tokens": 1.5}',
    ],
)
def test_a_number_that_json_cannot_hold_is_refused_or_left_out(text: bytes) -> None:
    a_request_is_converted_or_refused(loads(text))


def test_a_number_of_too_many_digits_is_no_json() -> None:
    with pytest.raises(NotJson):
        loads(b'{"model": "m", "input": "x", "seed": ' + b"9" * 5000 + b"}")


@pytest.mark.parametrize("field", ["metadata", "stop", "logit_bias", "tools", "input", "x"])
def test_what_can_be_read_is_not_nested_too_deeply_to_be_sent_on(field: str) -> None:
    body: Json = {"model": "m", "input": "x", field: {"a": nested(MAX_NESTING - 2)}}
    a_request_is_converted_or_refused(loads(json.dumps(body)))
    body[field]["a"] = [body[field]["a"]]
    with pytest.raises(NotJson):
        loads(json.dumps(body))


def test_many_unknown_things_make_a_short_note() -> None:
    many = {f"unknown{n}": n for n in range(20_000)}
    items = [{"type": f"unknown{n}"} for n in range(20_000)]
    evidence = Evidence()
    body = {"model": "m", "input": [*items, user("x")], **many}
    convert(body, unsupported="drop", evidence=evidence)
    assert sum(map(len, evidence.lines())) < 200_000
    assert sum(evidence.notes.values()) == 40_000


@pytest.mark.slow
def test_the_cost_of_a_request_is_linear() -> None:
    def calls(size: int) -> int:
        items: list[Any] = [user("x")]
        items += [call(f"c{n}") for n in range(size)] + [output("c0", "x") for _ in range(size)]
        items += [output(f"c{n}", "x") for n in range(size)]
        tools = [function(f"f{n}") for n in range(size)]
        body = {"model": "kimi-k2.5", "input": items, "tools": tools}
        return calls_of(lambda: convert(body, unsupported="drop", evidence=Evidence()))

    calls(1)  # what is made once is made now
    assert calls(4000) < 5 * calls(1000)
