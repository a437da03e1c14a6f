"""The stream callable of a bridged reply."""

from __future__ import annotations

import json

from mitmproxy.test import tflow

from dragoman.bridge.responses_reply import responses_reply
from dragoman.notes import Evidence
from dragoman.proxy.flows.bridge_reply import BridgeStream
from dragoman.proxy.flows.live_stream import Break, Command, End, Keep, Pause, ReplyContext
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


def bridge_stream(*, keeps: bool = True, breaks: bool = False) -> BridgeStream:
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
    context = ReplyContext("", record, heartbeat=1, breaks=breaks)
    return BridgeStream(reply, None, context, keeps=keeps)


def commands(stream: BridgeStream, chunks: list[dict[str, object]], error: str) -> list[Command]:
    done = [*stream.opening()]
    for value in chunks:
        done += stream.receive(b"data: " + dumps(value) + b"\n\n")
    done += stream.fail(error) if error else stream.receive(b"data: [DONE]\n\n")
    return [each for each in done if each != Pause()]


def sent(done: list[Command]) -> bytes:
    return b"".join(each for each in done if isinstance(each, bytes))


def test_an_end_that_is_kept_first_is_held_until_then() -> None:
    for chunks, error in ((TEXT, ""), (CALL, ""), (CALL[:-2], "it broke off")):
        at_once = sent(commands(bridge_stream(keeps=False), chunks, error))
        done = commands(bridge_stream(keeps=True), chunks, error)
        assert sent(done) == at_once
        end = done[done.index(Keep()) + 1 :]
        assert end[1:] == ([End()] if error else [])
        assert sent(end).count(b"event: response.") == 1


def test_after_a_break_nothing_is_sent() -> None:
    stream = bridge_stream(breaks=True)
    done = commands(stream, TEXT[:2], "it broke off")
    assert done[-1] == Break("The upstream broke off: it broke off (connection error)")
    assert json.loads(sent(done).rpartition(b"data: ")[2])["delta"] == PIECE
    assert Keep() not in done
    assert stream(b"data: " + dumps(TEXT[1]) + b"\n\n") == []
