"""Native Responses replies that are not streamed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

try:
    from openai.types.responses import Response
except ImportError:  # it cannot be installed beside mitmproxy 11
    Response = None  # type: ignore[assignment, misc]
from dragoman.bridge.reader_writer_pairs import repair_whole
from dragoman.bridge.responses_tools import ResponsesTools
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from tests.responses.test_repair import CALLED, CLEAN, DSML, REQUEST, SECTION, shown, text

from .hosts import HOSTS, OPENAI, VLLM, Host, Said

Json = dict[str, Any]


def repaired(body: bytes, request: Json | None = REQUEST) -> bytes:
    tools = ResponsesTools.of_request(request)
    return repair_whole(body, tools, RepairOptions(), Evidence(), 1_700_000_000)


def reply(host: Host, said: Said, **more: Any) -> Json:
    return {**host.events(said)[-1]["response"], **more}


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_leaked_call_becomes_an_item(host: Host) -> None:
    said = [("reasoning", ["Hm." + SECTION]), ("text", [f"A{SECTION}B{SECTION}"]), ("text", ["C"])]
    before = reply(host, said, output_text="?")
    after = json.loads(repaired(json.dumps(before).encode()))
    other = [CALLED | {"call_id": after["output"][place]["call_id"]} for place in (3, 5)]
    assert len({item["call_id"] for item in after["output"] if "call_id" in item}) == 3
    assert shown(after["output"]) == [
        text("Hm.", "reasoning"),
        *(CALLED, text("A"), other[0], text("B"), other[1], text("C")),
    ]
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"output", "output_text"} and after["output_text"] == "ABC"
    assert after["output"][-1] == before["output"][-1], "an item that has not changed is the host's"
    if host is OPENAI and Response is not None:
        Response.model_validate(after)


def test_what_needs_no_repair_is_the_same_bytes() -> None:
    for body in (
        *(json.dumps(reply(VLLM, said), indent=1).encode() for said in CLEAN),
        b'{"output": ["<|tool_calls_section_begin|>"]}',
        b'{"output": "<|tool_calls_section_begin|>',
        b'["<|tool_calls_section_begin|>"]',
    ):
        assert repaired(body) == body


def test_a_stream_where_none_was_asked_for_is_repaired() -> None:
    stream = VLLM.stream([("text", [SECTION])])
    assert b'"call_id":"functions.bash:0"' in repaired(stream)


def test_a_response_that_is_stored_says_what_was_asked_for() -> None:
    host = replace(VLLM, of_response={"tools": REQUEST["tools"], "tool_choice": "auto"})
    said = [("text", [DSML])]
    stream = host.stream(said, model="deepseek-v4")
    assert b'"type":"function_call"' in repaired(stream, None)
    response = host.events(said, model="deepseek-v4")[-1]["response"]
    for choice, types in (("auto", ["function_call"]), ("none", ["message"])):
        after = json.loads(repaired(json.dumps(response | {"tool_choice": choice}).encode(), None))
        assert [item["type"] for item in after["output"]] == types
