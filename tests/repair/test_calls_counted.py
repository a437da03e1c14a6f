"""How much Python a frame takes, in calls: these do not depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from dragoman.bridge.reply.pipeline import BridgePipeline
from dragoman.notes import Evidence
from dragoman.repair.chat_stream import ChatRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.pipeline import RepairPipeline
from dragoman.repair.policy import Policy
from tests.bridge.replying import new_reply
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
}
HELD = [
    *("<|open|>tools<|sep|>", '<|open|>call tool="bash" index="1"<|sep|>'),
    *('<|open|>argument key="command" type="string"<|sep|>', *WORDS),
]
FRAMES["more of a call that is held"] = ([*BEGUN, *HELD], "next ")
ALLOWED = {
    "more text": (16, 28),
    "a marker that begins a section": (58, 58),
    "a marker that begins a call": (37, 37),
    "a header that starts a call": (89, 103),
    "more arguments": (24, 41),
    "more of a call that is held": (16, 16),
}
"""Repaired, and bridged as well; with the facts that `wire.reply_reader` notes."""

_NO_CALLS = {"<listcomp>", "<setcomp>", "<dictcomp>"}
"""Since Python 3.12, a comprehension runs in the frame that it stands in."""


def _frame(text: str) -> bytes:
    return sse([chunk({"content": text}, model=MODEL)], done=False)


def _feeding(*, bridged: bool) -> Callable[[bytes], object]:
    evidence = Evidence()
    tools = DeclaredTools.of_request({**REQUEST, "model": MODEL})
    repair = ChatRepair(tools, Policy(), evidence, NOW)
    if not bridged:
        return RepairPipeline(repair, evidence).feed
    reply = new_reply(evidence)
    reply.open()
    return BridgePipeline(reply, repair).feed


@pytest.mark.parametrize("bridged", [False, True], ids=["repaired", "bridged"])
@pytest.mark.parametrize("what", FRAMES)
def test_a_frame_takes_few_calls(what: str, bridged: bool) -> None:
    before, last = FRAMES[what]
    feed, frame, count = _feeding(bridged=bridged), _frame(last), 0
    for text in before:
        feed(_frame(text))

    def counted(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name not in _NO_CALLS

    profiled = sys.getprofile()
    sys.setprofile(counted)
    try:
        feed(frame)
    finally:
        sys.setprofile(profiled)
    assert count <= ALLOWED[what][bridged]
