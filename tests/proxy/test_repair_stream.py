"""The stream callable of a repaired reply."""

from __future__ import annotations

import gc
import gzip
import weakref

from mitmproxy.test import tflow

from dragoman.notes import Evidence
from dragoman.proxy.content_decoding import decoder_for
from dragoman.proxy.flows.live_stream import ReplyContext
from dragoman.proxy.flows.repair_stream import RepairStream
from dragoman.proxy.observe.recorder import FlowRecorder
from dragoman.repair.chat_stream import ChatStreamRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.policy import Policy
from tests.repair.streams import chunk, sse
from tests.repair.turns import REQUEST


def test_an_ended_stream_lets_go_of_the_declared_tools_without_a_collection() -> None:
    record = FlowRecorder(tflow.tflow(resp=True), "repair", evidence=Evidence(), keep=1000)
    tools = DeclaredTools.of_request(REQUEST)
    known = weakref.ref(tools)
    stream = RepairStream(
        ChatStreamRepair(tools, Policy(), record.evidence, 1),
        ReplyContext("a flow", record),
        has_end=True,
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


def test_what_is_decoded_after_the_end_of_a_turn_waits_with_it() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{}"}}
    deltas = [{"reasoning": "So."}, {"tool_calls": [call]}]
    last = sse([chunk({}, "tool_calls")])
    begin, end = last.split(b"data: [DONE]")
    body = sse(list(map(chunk, deltas)), done=False) + begin, b"data: [DONE]" + end
    record = FlowRecorder(tflow.tflow(resp=True), "repair", evidence=Evidence(), keep=1000)
    stream = RepairStream(
        ChatStreamRepair(DeclaredTools.of_request(REQUEST), Policy(), record.evidence, 1),
        ReplyContext("a flow", record, decoder_for("gzip")),
        has_end=True,
        keeps=True,
    )
    sent = b"".join(stream(b"".join(map(gzip.compress, body))))
    assert stream.holds_end
    assert sent + stream.release_end() == b"".join(body)
