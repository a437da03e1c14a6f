"""The stream callable of a bridged reply."""

from __future__ import annotations

import json

from mitmproxy.test import tflow

from dragoman.bridge.responses_reply import responses_reply
from dragoman.notes import Evidence
from dragoman.proxy.flows.bridge_reply import BridgeStream
from dragoman.proxy.flows.live_stream import ReplyContext
from dragoman.proxy.observe.recorder import FlowRecorder
from dragoman.responses.dialects import OPENAI
from dragoman.wire.json_codec import dumps
from tests.bridge.replying import call, calls, chunk, text, turn

PIECE, PIECES = "word " * 20_000, 40
TEXT = [chunk({"reasoning_content": PIECE * PIECES}), *[text(PIECE)] * PIECES, chunk({}, "stop")]
CALL = [
    calls(call(0, '{"a": "', name="echo", call_id="c")),
    *[calls(call(0, PIECE))] * PIECES,
    calls(call(0, '"}')),
    chunk({}, "tool_calls"),
]


def bridge_stream(*, waits: bool, breaks: bool = False) -> BridgeStream:
    tools = [{"type": "function", "name": f"f{n}", "description": PIECE} for n in range(30)]
    reply = responses_reply(
        turn({"tools": tools}),
        OPENAI,
        Evidence(),
        response_id="resp_1",
        created_at=1,
        clock=lambda: 2.0,
    )
    record = FlowRecorder(tflow.tflow(resp=True), "bridge", keep=1000)
    context = ReplyContext("", record, heartbeat=1, waits=waits, breaks=breaks)
    return BridgeStream(reply, None, context, keeps=True)


def sent(stream: BridgeStream, chunks: list[dict[str, object]], error: str) -> list[bytes]:
    parts = [stream.opening()]
    for value in chunks:
        parts += stream(b"data: " + dumps(value) + b"\n\n")
    return [*parts, *([stream.break_off(error)] if error else stream(b"data: [DONE]\n\n"))]


def test_an_end_that_is_kept_first_is_held_until_then() -> None:
    for chunks, error in ((TEXT, ""), (CALL, ""), (CALL[:-2], "it broke off")):
        at_once = sent(bridge_stream(waits=False), chunks, error)
        stream = bridge_stream(waits=True)
        before = sent(stream, chunks, error)
        assert stream.holds_end and stream.needs_attention
        assert b"".join([*before, stream.release_end()]) == b"".join(at_once)
        assert not stream.holds_end


def test_after_a_break_nothing_is_sent() -> None:
    stream = bridge_stream(waits=True, breaks=True)
    parts = sent(stream, TEXT[:2], "it broke off")
    assert stream.broken == "The upstream broke off: it broke off (connection error)"
    assert json.loads(b"".join(parts).rpartition(b"data: ")[2])["delta"] == PIECE
    assert stream(b"data: " + dumps(TEXT[1]) + b"\n\n") == []
    assert not stream.holds_end
