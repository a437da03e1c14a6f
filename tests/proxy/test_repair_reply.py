"""A repaired reply: its stream callable, and what repair is given of the time."""

from __future__ import annotations

import gc
import time
import weakref

import pytest
from mitmproxy.test import tflow

from dragoman.chat.repair import ChatRepair
from dragoman.proxy.flows.live_stream import ReplyContext
from dragoman.proxy.flows.repair_reply import RepairStream, new_second
from dragoman.proxy.observe.recorder import FlowRecorder
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from tests.repair.streams import chunk, sse
from tests.repair.turns import REQUEST


def test_an_ended_stream_lets_go_of_the_declared_tools_without_a_collection() -> None:
    record = FlowRecorder(tflow.tflow(resp=True), "repair", keep=1000)
    tools = DeclaredTools.of_request(REQUEST)
    known = weakref.ref(tools)
    stream = RepairStream(
        ChatRepair(tools, RepairOptions(), record.evidence, 1),
        ReplyContext("a flow", record),
        reports_end=True,
    )
    del tools
    leaked = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "ls"}'
    said = [*leaked.partition("{"), "<|tool_call_end|>"]
    gc.disable()
    try:
        for text in said:
            stream(sse([chunk({"content": text})]))
        stream(sse([chunk({}, "stop")]))
        stream(b"")
        del stream
        assert known() is None
    finally:
        gc.enable()


def test_no_two_replies_have_the_same_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of calls are made of it."""
    now = time.time() + 1000
    monkeypatch.setattr(time, "time", lambda: now)
    seconds = [new_second() for _ in range(100)]
    assert seconds == list(range(int(now), int(now) + 100))
    monkeypatch.setattr(time, "time", lambda: now + 500)
    assert new_second() == int(now) + 500
