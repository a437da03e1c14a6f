"""The stream callable of a bridged reply."""

from __future__ import annotations

from mitmproxy.test import tflow

from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.bridge.responses.dialects import OPENAI
from dragoman.notes import Evidence
from dragoman.proxy.flows.bridge_stream import SENT_AT_ONCE, BridgeStream
from dragoman.proxy.observe.recorder import FlowRecorder
from dragoman.wire.json_codec import dumps
from dragoman.wire.json_slices import LONG_STRING
from tests.bridge.replying import call, calls, chunk, text, turn

PIECE, PIECES = "word " * 20_000, 40
TEXT = [chunk({"reasoning_content": PIECE * PIECES}), *[text(PIECE)] * PIECES, chunk({}, "stop")]
CALL = [
    calls(call(0, '{"a": "', name="echo", call_id="c")),
    *[calls(call(0, PIECE))] * PIECES,
    calls(call(0, '"}')),
    chunk({}, "tool_calls"),
]


def bridge_stream(*, waits: bool) -> BridgeStream:
    tools = [{"type": "function", "name": f"f{n}", "description": PIECE} for n in range(30)]
    reply = ReplyConverter(
        turn({"tools": tools}),
        OPENAI,
        Evidence(),
        response_id="resp_1",
        created_at=1,
        clock=lambda: 2.0,
    )
    record = FlowRecorder(tflow.tflow(resp=True), "bridge", evidence=Evidence(), keep=1000)
    return BridgeStream(
        reply, None, None, name="", record=record, heartbeat=1, labelled=True,
        keeps=waits, waits=waits,
    )  # fmt: skip


def parts_of(stream: BridgeStream) -> list[bytes]:
    """What is sent after a piece, one by one, as `http_stream` does it."""
    parts = []
    while stream.has_slow_work or stream.holds_end:
        if stream.has_slow_work:
            assert sum(1 for _ in stream.slow_work()) < 2000
            parts.append(stream.slow_output())
        else:
            assert stream.reply.writer.ended
            parts.append(stream.release_end())
    return parts


def sent(stream: BridgeStream, chunks: list[dict[str, object]], error: str) -> list[bytes]:
    parts = [stream.opening(), *parts_of(stream)]
    for value in chunks:
        parts += [*stream(b"data: " + dumps(value) + b"\n\n"), *parts_of(stream)]
    parts += [stream.break_off(error)] if error else stream(b"data: [DONE]\n\n")
    return [*parts, *parts_of(stream)]


def test_the_end_of_a_long_reply_is_written_and_sent_in_parts() -> None:
    """However it ends, and the same bytes as at once."""
    for chunks, error in ((TEXT, ""), (CALL, ""), (CALL[:-2], "it broke off")):
        at_once = sent(bridge_stream(waits=False), chunks, error)
        in_parts = sent(bridge_stream(waits=True), chunks, error)
        assert b"".join(in_parts) == b"".join(at_once)
        assert max(map(len, at_once)) > 4 * SENT_AT_ONCE
        assert max(map(len, in_parts)) <= 2 * SENT_AT_ONCE + 3 * LONG_STRING


def test_what_a_client_that_left_does_not_want_is_not_written() -> None:
    stream = bridge_stream(waits=True)
    stream.opening()
    assert stream.has_slow_work
    stream.drop_slow_work()
    assert parts_of(stream) == []
