"""Calls that come as text and natively, in replies that become Responses events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import repair_whole
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.bridge.responses_tools import ResponsesTools
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.responses.dialects import OPENAI
from dragoman.responses.repair import ResponsesRepair
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import NOW, chunk, sse
from tests.repair.test_repeated_calls import PUSH, TURNS, deltas_of, leaked, native, texts

from .grammar import check
from .hosts import HOSTS, Host
from .hosts import OPENAI as OPENAI_HOST
from .native_grammar import check_native
from .replying import feed_body, new_reply

Json = dict[str, Any]


def called(output: list[Json]) -> list[Any]:
    calls = [item["arguments"] for item in output if item["type"] == "function_call"]
    return sorted(map(json.loads, calls), key=str)


def expected(arguments: list[str]) -> list[Any]:
    return sorted(map(json.loads, arguments), key=str)


def chat_repair() -> ChatRepair:
    return ChatRepair(DeclaredTools.of_request(REQUEST), RepairOptions(), Evidence(), NOW)


@pytest.mark.parametrize("name", TURNS)
def test_a_bridged_call_that_comes_twice_is_one(name: str) -> None:
    turn, meant = TURNS[name]
    for size in (1, 7, 1000):
        chunks = [chunk(delta) for delta in deltas_of(turn, size, "reasoning_content")]
        pipeline = BridgePipeline(reply := new_reply(Evidence()), chat_repair())
        frames = reply.open() + pipeline.feed(sse([*chunks, chunk({}, "stop")]))
        story = check([*frames, *pipeline.close()], OPENAI)
        assert called(story.response["output"]) == expected(meant)
        assert story.response["status"] == "completed"


def test_half_a_repetition_is_no_item_however_a_bridged_reply_ends() -> None:
    for turn in ([("leaked", PUSH), ("native", PUSH)], [("native", PUSH), ("leaked", PUSH)]):
        first, deltas = len(list(deltas_of(turn[:1], 5))), list(deltas_of(turn, 5))
        for end in range(first + 1, len(deltas)):
            for last in ([chunk({}, "length")], [{"error": {"message": "died"}}], []):
                pipeline = BridgePipeline(reply := new_reply(Evidence()), chat_repair())
                stream = sse([*map(chunk, deltas[:end]), *last], done=False)
                frames = reply.open() + pipeline.feed(stream)
                frames += pipeline.close() if last else pipeline.give_up("reset")
                sent = events_of(b"".join(frame.raw for frame in frames))
                arguments = "".join(
                    event["delta"] for event in sent if event["type"].endswith("arguments.delta")
                )
                assert arguments == PUSH
                items = check(frames, OPENAI).response["output"] if last else []
                assert not last or [i["arguments"] for i in items if "arguments" in i] == [PUSH]


TOOLS = [{"type": "function", **tool["function"]} for tool in REQUEST["tools"]]


def said_of(turn: list[tuple[str, str]], size: int = 7) -> list[tuple[str, list[str]]]:
    """A turn as a host that speaks the Responses API says it."""
    said: list[tuple[str, list[str]]] = []
    for kind, arguments in turn:
        if kind.startswith("native"):
            said.append(("call", [kind[7:] or "bash", arguments or "{}"]))
        else:
            text = "Look." + texts(kind, arguments)
            said.append(("text", [text[at : at + size] for at in range(0, len(text), size)]))
    return said


def native_repair(evidence: Evidence, tools: list[Json] = TOOLS) -> ResponsesRepair:
    request = {"model": "any", "input": "Do it.", "tools": tools}
    declared = ResponsesTools.of_request(request)
    return ResponsesRepair(declared, RepairOptions(), evidence, NOW)


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
@pytest.mark.parametrize("name", TURNS)
def test_it_is_one_in_a_native_reply(name: str, host: Host) -> None:
    turn, meant = TURNS[name]
    for size in (1, 7, 1000):
        stream = host.stream(said_of(turn, size), model="any")
        pipeline = RepairPipeline(native_repair(evidence := Evidence()), evidence)
        events = check_native(pipeline.feed(stream) + pipeline.close())
        output = events[-1]["response"]["output"]
        assert called(output) == expected(meant)
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert called(done) == expected(meant)
        assert sum("content" in item for item in output) == sum("native" not in k for k, _ in turn)
        left = evidence.notes["left out", "a call of bash that came twice"]
        assert left == len(turn) - len(meant)


@pytest.mark.parametrize("name", TURNS)
def test_it_is_one_in_a_reply_that_comes_whole(name: str) -> None:
    turn, meant = TURNS[name]
    natives = [native(n, a, k[7:] or "bash") for n, (k, a) in enumerate(turn) if "native" in k]
    text = "".join(texts(kind, arguments) for kind, arguments in turn if "native" not in kind)
    message = {"role": "assistant", "content": text, "tool_calls": natives}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    feed_body(bridged := new_reply(Evidence()), json.dumps(body).encode(), chat_repair())
    assert called(bridged.response["output"]) == expected(meant)
    response = json.dumps(OPENAI_HOST.events(said_of(turn), model="any")[-1]["response"]).encode()
    tools = ResponsesTools.of_request({"model": "any", "input": "Do it.", "tools": TOOLS})
    repaired = json.loads(repair_whole(response, tools, RepairOptions(), Evidence(), NOW))
    assert called(repaired["output"]) == expected(meant)


def test_half_a_repetition_is_no_item_however_a_native_reply_ends() -> None:
    said = said_of([("leaked", PUSH), ("native", PUSH)])
    events = OPENAI_HOST.events(said, end="incomplete")
    added = next(at for at, each in enumerate(events) if "call_id" in each.get("item", ()))
    frames = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
    for end in range(added + 1, added + 3):
        for last in (frames[-1:], []):
            pipeline = RepairPipeline(native_repair(Evidence()), Evidence())
            sent = pipeline.feed(b"".join(frames[:end] + last))
            sent += pipeline.close() if last else pipeline.break_off("reset")
            kinds = [event["type"] for event in events_of(sent)]
            assert kinds.count("response.output_item.added") == 2
            if last:
                assert called(events_of(sent)[-1]["response"]["output"]) == expected([PUSH])


def test_calls_into_a_namespace_and_custom_calls_are_compared_by_what_they_say() -> None:
    function = {"type": "function", "name": "read", "parameters": {"type": "object"}}
    tools: list[Json] = [
        {"type": "custom", "name": "run"},
        {"type": "namespace", "name": "mcp__files", "tools": [function]},
    ]
    run = {"type": "custom_tool_call", "name": "run", "input": "git push"}
    read_ = {"type": "function_call", "name": "read", "arguments": '{"path":"a"}'}
    for name, arguments, item in (
        ("run", '{"input":"git push"}', run),
        ("mcp__files__read", '{"path": "a"}', read_ | {"namespace": "mcp__files"}),
        ("read", '{"path": "a"}', read_ | {"name": "mcp__files__read"}),
    ):
        events = OPENAI_HOST.events([("text", [leaked(arguments, name)])])
        more = [
            {"type": f"response.output_item.{end}", "output_index": 1} for end in ("added", "done")
        ]
        item |= {"id": "fc_9", "call_id": "call_9", "status": "completed"}
        more = [each | {"item": item, "sequence_number": 0} for each in more]
        stream = b"".join(
            f"data: {json.dumps(event)}\n\n".encode() for event in [*events[:-1], *more, events[-1]]
        )
        pipeline = RepairPipeline(native_repair(Evidence(), tools), Evidence())
        sent = pipeline.feed(stream) + pipeline.close()
        ended = [each for each in events_of(sent) if each["type"].endswith("item.done")]
        assert [each["item"]["type"] for each in ended] == ["message", item["type"]]


def events_of(stream: bytes) -> list[Json]:
    return [json.loads(line[6:]) for line in stream.split(b"\n") if line.startswith(b"data: {")]
