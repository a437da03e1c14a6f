"""How much Python a frame takes, in calls: these do not depend on the machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from dragoman.bridge.reader_writer_pairs import turn_reader
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.repair_pipeline import RepairPipeline
from tests.bridge.replying import new_reply
from tests.counting import calls_of
from tests.repair.streams import NOW, chunk, sse
from tests.repair.turns import REQUEST

MODEL = "kimi-k2"
CALL = [
    *("<|tool_call_begin|>", "functions", ".bash", ":0", "<|tool_call_argument_begin|>"),
    *('{"command": "', "ls", '"}', "<|tool_call_end|>", "\n\n"),
]
WORDS = [f"word{number} " for number in range(30)]
BEGUN = [*CALL, *WORDS]
"""A call and text: what is made once for a reply is made."""
FRAMES = {
    "more text": (BEGUN, "next "),
    "a marker that begins a section": (BEGUN, "<|tool_calls_section_begin|>"),
    "a marker that begins a call": ([*BEGUN, "<|tool_calls_section_begin|>"], CALL[0]),
    "a header that starts a call": ([*BEGUN, "<|tool_calls_section_begin|>", *CALL[:4]], CALL[4]),
    "more arguments": ([*BEGUN, "<|tool_calls_section_begin|>", *CALL[:6], *WORDS], "next "),
    "the end of a call": ([*BEGUN, "<|tool_calls_section_begin|>", *CALL[:8]], CALL[8]),
}
HELD = [
    *("<|open|>tools<|sep|>", '<|open|>call tool="bash" index="1"<|sep|>'),
    *('<|open|>argument key="command" type="string"<|sep|>', *WORDS),
]
FRAMES["more of a call that is held"] = ([*BEGUN, *HELD], "next ")
ALLOWED = {
    "more text": (18, 31),
    "a marker that begins a section": (61, 58),
    "a marker that begins a call": (66, 63),
    "a header that starts a call": (75, 72),
    "more arguments": (25, 25),
    "the end of a call": (320, 340),
    "more of a call that is held": (22, 22),
}
"""Repaired, and bridged as well; with the facts that `reply.facts` notes."""


def _frame(text: str) -> bytes:
    return sse([chunk({"content": text}, model=MODEL)], done=False)


def _feeding(*, bridged: bool) -> Callable[[bytes], object]:
    evidence = Evidence()
    tools = DeclaredTools.of_request({**REQUEST, "model": MODEL})
    repair = ChatRepair(tools, RepairOptions(), evidence, NOW)
    if not bridged:
        return RepairPipeline(repair, evidence, read=turn_reader()).feed
    reply = new_reply(evidence)
    reply.open()
    return BridgePipeline(reply, repair).feed


@pytest.mark.parametrize("bridged", [False, True], ids=["repaired", "bridged"])
@pytest.mark.parametrize("what", FRAMES)
def test_a_frame_takes_few_calls(what: str, bridged: bool) -> None:
    before, last = FRAMES[what]
    feed, frame = _feeding(bridged=bridged), _frame(last)
    for text in before:
        feed(_frame(text))
    count = calls_of(partial(feed, frame), in_c=False)
    assert count <= ALLOWED[what][bridged]
