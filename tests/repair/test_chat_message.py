"""A whole reply is repaired in slices, and to what it is repaired to at once."""

from __future__ import annotations

import json

import pytest

from dragoman.notes import Evidence
from dragoman.repair import chat_message as module
from dragoman.repair.chat_message import repairing_whole
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.pending import Policy
from dragoman.wire.json_codec import dumps
from dragoman.wire.slices import drained
from fixtures.regenerate import chat_fixtures, request, upstream
from tests.repair.streams import NOW, chunk, read, repair, repair_whole, sse
from tests.repair.turns import REQUEST

TOOLS = DeclaredTools.of_request(REQUEST)
LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>\n'
)
DOCUMENTS = [
    folder
    for folder in chat_fixtures()
    if (file := upstream(folder)) is not None and file.suffix == ".json"
]


def completion(**message: object) -> bytes:
    said = {"role": "assistant", **message}
    return dumps({"model": "kimi", "choices": [{"message": said, "finish_reason": "stop"}]})


@pytest.mark.parametrize("folder", DOCUMENTS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("at_once", [1, 40])
def test_a_document_is_repaired_the_same_wherever_its_text_is_cut(
    folder: object, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = upstream(folder)  # type: ignore[arg-type]
    assert file is not None
    given = file.read_bytes(), DeclaredTools.of_request(request(folder))  # type: ignore[arg-type]
    monkeypatch.setattr(module, "AT_ONCE", 1_000_000)
    whole = repair_whole(*given, Policy(), evidence := Evidence(), NOW)
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    assert repair_whole(*given, Policy(), cut := Evidence(), NOW) == whole
    assert cut.lines() == evidence.lines()


@pytest.mark.parametrize(
    "body",
    [
        completion(content="Hm. " + LEAK * 2000),
        completion(content=LEAK, tool_calls=[{"id": "c", "function": {"name": "bash"}}] * 20_000),
        dumps({"choices": [json.loads(completion(content=LEAK))["choices"][0]] * 2000}),
        sse([chunk({"content": LEAK})] * 2000),
    ],
    ids=["leaks", "calls", "choices", "a stream"],
)
def test_a_long_reply_can_be_interrupted(body: bytes) -> None:
    work = repairing_whole(body, TOOLS, Policy(), Evidence(), NOW)
    assert sum(1 for _ in work) > 50


def test_a_stream_that_comes_whole_is_repaired_as_it_is_on_its_way() -> None:
    parts = ["word ", LEAK[:30], LEAK[30:], "word ", "x" * 70_000, LEAK, "end"]
    frames = [chunk({"content": part}) for part in parts * 5]
    stream = sse([*frames, chunk({}, "stop")])
    whole = drained(repairing_whole(stream, TOOLS, Policy(), Evidence(), NOW))
    assert whole == repair(stream, REQUEST)


def test_what_is_looked_for_in_one_family_only_is_found_in_a_document() -> None:
    said = 'commentary to=functions.bash json{"command":"ls"}'
    tools = DeclaredTools.of_request({**REQUEST, "model": "gpt-oss-20b"})
    out = json.loads(repair_whole(completion(content=said), tools, Policy(), Evidence(), NOW))
    call = out["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call == {"name": "bash", "arguments": '{"command":"ls"}'}


@pytest.mark.parametrize("finish", [None, "stop", "eos", "end_turn", "function_call"])
def test_a_whole_turn_with_calls_ends_for_them(finish: str | None) -> None:
    reply = json.loads(completion(content=LEAK))
    reply["choices"][0]["finish_reason"] = finish
    out = json.loads(repair_whole(dumps(reply), TOOLS, Policy(), Evidence(), NOW))
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
        out = json.loads(repair_whole(body, tools, Policy(), Evidence(), NOW))["choices"][0]
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
