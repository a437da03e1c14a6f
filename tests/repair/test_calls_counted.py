"""How much Python a frame takes, in calls and in files: these do not depend on the machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dragoman.bridge.reader_writer_pairs import Api, stage_for, tools_of, turn_reader
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.notes import Evidence
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.frame_queue import QueuedRepair
from dragoman.reply.repair_pipeline import RepairPipeline
from dragoman.reply.turn_context import Tool, TurnContext
from dragoman.wire.sse import split
from tests.bridge import messages_streams, messaging, replying
from tests.bridge.hosts import VLLM
from tests.counting import calls_of, files_of
from tests.repair.streams import NOW, chunk, sse
from tests.repair.turns import REQUEST, TOOLS

MODEL = "kimi-k2"
CALL = [
    *("<|tool_call_begin|>", "functions", ".bash", ":0", "<|tool_call_argument_begin|>"),
    *('{"command": "', "ls", '"}', "<|tool_call_end|>", "\n\n"),
]
WORDS = [f"word{number} " for number in range(30)]
BEGUN = [*CALL, *WORDS]
"""A call and text: what is made once for a reply is made."""
FRAMES = {
    "text of a clean reply": (WORDS, "next "),
    "more text": (BEGUN, "next "),
    "a marker that begins a section": (BEGUN, "<|tool_calls_section_begin|>"),
    "a marker that begins a call": ([*BEGUN, "<|tool_calls_section_begin|>"], CALL[0]),
    "a header that starts a call": ([*BEGUN, "<|tool_calls_section_begin|>", *CALL[:4]], CALL[4]),
    "more arguments": ([*BEGUN, "<|tool_calls_section_begin|>", *CALL[:6], *WORDS], "next "),
    "the end of the first call": (CALL[:8], CALL[8]),
    "the end of a call": ([*BEGUN, "<|tool_calls_section_begin|>", *CALL[:8]], CALL[8]),
}
HELD = [
    *("<|open|>tools<|sep|>", '<|open|>call tool="bash" index="1"<|sep|>'),
    *('<|open|>argument key="command" type="string"<|sep|>', *WORDS),
]
FRAMES["more of a call that is held"] = ([*BEGUN, *HELD], "next ")
WAYS: dict[str, tuple[Api, str]] = {
    "chat": ("chat", ""),
    "Responses": ("responses", ""),
    "Messages": ("messages", ""),
    "chat to Responses": ("chat", "responses"),
    "chat to Messages": ("chat", "messages"),
}
"""The API of the host, and that of the client if it is another."""
ALLOWED = {
    "text of a clean reply": (15, 25, 22, 30, 33),
    "more text": (15, 32, 32, 27, 30),
    "a marker that begins a section": (55, 66, 64, 56, 56),
    "a marker that begins a call": (60, 71, 69, 61, 61),
    "a header that starts a call": (67, 96, 94, 68, 68),
    "more arguments": (18, 26, 25, 18, 18),
    "the end of the first call": (225, 353, 286, 284, 283),
    "the end of a call": (209, 264, 212, 274, 255),
    "more of a call that is held": (17, 25, 24, 17, 17),
}
"""Those of each way; with the facts that `reply.facts` notes."""
FILES = (16, 17, 17, 17, 17)


def _frames(api: Api, texts: list[str]) -> list[bytes]:
    """A stream up to the last of these texts."""
    if api == "chat":
        return [sse([chunk({"content": text}, model=MODEL)], done=False) for text in texts]
    if api == "responses":
        stream, last = VLLM.stream([("text", texts)], model=MODEL), b"output_text.done"
    else:
        stream = messages_streams.stream([("text", texts)], model=MODEL)
        last = b"content_block_stop"
    frames = [frame.raw for frame in split(stream)]
    ends = next(at for at, frame in enumerate(frames) if last in frame)
    return frames[:ends]


def _request(api: Api) -> dict[str, Any]:
    tools = [tool["function"] for tool in REQUEST["tools"]]
    if api == "responses":
        return {"model": MODEL, "tools": [{"type": "function", **tool} for tool in tools]}
    if api == "messages":
        schemas = [{"name": t["name"], "input_schema": t["parameters"]} for t in tools]
        return {"model": MODEL, "tools": schemas}
    return {"model": MODEL, **REQUEST}


def _feeding(way: str) -> Callable[[bytes], object]:
    api, client = WAYS[way]
    evidence = Evidence()
    repair = stage_for(tools_of(_request(api), api), RepairOptions(), evidence, NOW)
    if not client:
        return RepairPipeline(repair, evidence, read=turn_reader()).feed
    reply: ReplyConverter
    if client == "responses":
        named = {name: Tool("function", name) for name in TOOLS}
        turn = TurnContext(request={}, model=MODEL, stream=True, tools=named)
        reply = replying.new_reply(evidence, turn_=turn)
    else:
        reply = messaging.new_message(evidence, messaging.turn(TOOLS))
    reply.open()
    assert isinstance(repair, QueuedRepair)
    return BridgePipeline(reply, repair).feed


def _last(what: str, way: str) -> Callable[[], object]:
    """What reads the last of these frames."""
    before, last = FRAMES[what]
    feed = _feeding(way)
    *frames, frame = _frames(WAYS[way][0], [*before, last])
    for each in frames:
        feed(each)
    return partial(feed, frame)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", FRAMES)
def test_a_frame_takes_few_calls(what: str, way: str) -> None:
    count = calls_of(_last(what, way), in_c=False)
    assert count <= ALLOWED[what][[*WAYS].index(way)]


@pytest.mark.parametrize("way", WAYS)
def test_a_marker_that_begins_a_call_is_read_in_few_files(way: str) -> None:
    files = files_of(_last("a marker that begins a call", way))
    assert len(files) <= FILES[[*WAYS].index(way)], sorted(files)
