"""A reply that comes whole."""

from __future__ import annotations

import json

import pytest

from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.wire.json_codec import dumps
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse
from tests.repair.turns import REQUEST

TOOLS = DeclaredTools.of_request(REQUEST)
LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>\n'
)


def completion(**message: object) -> bytes:
    said = {"role": "assistant", **message}
    return dumps({"model": "kimi", "choices": [{"message": said, "finish_reason": "stop"}]})


def test_a_stream_that_comes_whole_is_repaired_as_it_is_on_its_way() -> None:
    parts = ["word ", LEAK[:30], LEAK[30:], "word ", "x" * 70_000, LEAK, "end"]
    frames = [chunk({"content": part}) for part in parts * 5]
    stream = sse([*frames, chunk({}, "stop")])
    whole = repair_whole(stream, TOOLS, RepairOptions(), Evidence(), NOW)
    assert whole == repair(stream, REQUEST)


def test_what_is_looked_for_in_one_family_only_is_found_in_a_document() -> None:
    said = 'commentary to=functions.bash json{"command":"ls"}'
    tools = DeclaredTools.of_request({**REQUEST, "model": "gpt-oss-20b"})
    out = json.loads(
        repair_whole(completion(content=said), tools, RepairOptions(), Evidence(), NOW)
    )
    call = out["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call == {"name": "bash", "arguments": '{"command":"ls"}'}


@pytest.mark.parametrize("finish", [None, "stop", "eos", "end_turn", "function_call"])
def test_a_whole_turn_with_calls_ends_for_them(finish: str | None) -> None:
    reply = json.loads(completion(content=LEAK))
    reply["choices"][0]["finish_reason"] = finish
    out = json.loads(repair_whole(dumps(reply), TOOLS, RepairOptions(), Evidence(), NOW))
    assert out["choices"][0]["finish_reason"] == "tool_calls"
    streamed = read(repair(sse([chunk({"content": LEAK}), chunk({}, finish or "stop")]), REQUEST))
    assert streamed.finish == ["tool_calls"]


def test_content_that_is_a_list_of_parts_is_repaired() -> None:
    def part(text: str) -> dict[str, str]:
        return {"type": "text", "text": text}

    thoughts = {"type": "thinking", "thinking": [part("<tool_call>")]}
    leak = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
    tools = DeclaredTools.of_request(REQUEST | {"model": "qwen3"})
    for said, left in (
        (
            [thoughts, part("So. "), part(leak), {"type": "file"}],
            [thoughts, part("So. "), {"type": "file"}],
        ),
        ([part(leak)], None),
    ):
        message = {"role": "assistant", "content": said}
        body = dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        out = json.loads(repair_whole(body, tools, RepairOptions(), Evidence(), NOW))["choices"][0]
        assert out["message"]["content"] == left
        assert [call["function"]["name"] for call in out["message"]["tool_calls"]] == ["bash"]
        deltas = [{"content": [each]} for each in said]
        stream = sse([*map(chunk, deltas), chunk({}, "stop")])
        found = [
            json.loads(line[6:])
            for line in repair(stream, REQUEST | {"model": "qwen3"}).split(b"\n\n")
            if line[6:7] == b"{"
        ]
        calls = [c for each in found for c in each["choices"][0]["delta"].get("tool_calls", [])]
        assert calls[0]["function"]["name"] == "bash"
        contents = [c for each in found for c in each["choices"][0]["delta"].get("content") or []]
        assert contents == (left or [])
