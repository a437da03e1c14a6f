"""What becomes of a reply of the upstream over HTTP: streams, bodies, errors, many at once."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.responses.dialects import DIALECTS
from fixtures.server import Reply
from tests.live.chat import fixture_bytes
from tests.live.responses import REQUEST, WHOLE, Bridge, calls_of, text_of
from tests.live.test_bridge_http import TEXT
from tests.repair.streams import chunk, sse


def test_a_stream_is_live(bridge: Bridge) -> None:
    for hold, awaited in ((0, b"response.in_progress"), (3, b"output_text.delta")):
        exchange = bridge.ask(
            "clean_text",
            options=f";cut=event;hold={hold}",
            release_when=lambda body, awaited=awaited: awaited in body,
        )
        assert text_of(exchange.story().response) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "nonsense"])
def test_a_compressed_stream_is_refused_before_its_end(bridge: Bridge, encoding: str) -> None:
    headers = (("content-encoding", encoding),)
    reply = Reply(fixture_bytes("clean_text"), headers=headers)
    error = bridge.ask(reply, options=";cut=event;hold=1", release_when=bool).error(502)
    assert error["code"] == "upstream_compressed"
    assert f"a compressed stream ({encoding})" in error["message"]


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_message_is_converted(bridge: Bridge, encoding: str) -> None:
    exchange = bridge.ask("kimi_whole_message", WHOLE, options=f";encoding={encoding}")
    assert calls_of(exchange.json) == [("bash", {"command": "uname -a"})]
    assert exchange.reply.header("content-encoding") is None


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_thoughts_around_a_leaked_call_stay_thoughts(bridge: Bridge, stream: bool) -> None:
    """Which chat clients get as content after a call."""
    leak = "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    thought = {"role": "assistant", "reasoning_content": f"Before. {leak}After."}
    choice = {"index": 0, "message": thought, "finish_reason": "stop"}
    whole = Reply(json.dumps({"choices": [choice]}).encode(), "application/json")
    reply = Reply(sse([chunk(thought), chunk({}, "stop")])) if stream else whole
    exchange = bridge.ask(reply, REQUEST | {"stream": stream})
    output = (exchange.story().response if stream else exchange.json)["output"]
    assert [item["type"] for item in output] == ["reasoning", "function_call", "reasoning"]


def test_an_error_in_the_stream_fails_the_response(bridge: Bridge) -> None:
    error = {"message": "Engine overloaded", "type": "engine_overloaded_error"}
    frames = fixture_bytes("clean_text").split(b"\n\n")[:3]
    body = b"\n\n".join([*frames, b"data: " + json.dumps({"error": error}).encode(), b""]) + b"\n"
    for dialect in DIALECTS:
        story = bridge.ask(Reply(body), REQUEST, ("x-dragoman-dialect", dialect)).story(dialect)
        assert story.events[-2]["code"] == "rate_limit_exceeded"
        told = story.response["error"]
        assert told["code"] == "rate_limit_exceeded"
        assert told["message"] == "Engine overloaded. Please try again in 5s."


# HTTP errors of the upstream.

ERRORS: dict[str, tuple[Reply, str, str | None]] = {
    # name: (reply, part of the message, code)
    "403 html": (Reply(b"<html>denied</html>", "text/html", 403), "403", None),
    "429 text": (
        Reply(b"slow down", "text/plain", 429, (("retry-after", "7"),)),
        "slow down. Please try again in 7s.",
        "rate_limit_exceeded",
    ),
    "502 stream": (Reply(b'data: {"error": "x"}\n\n', "text/event-stream", 502), "x", None),
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", ERRORS)
def test_http_errors_keep_their_status_and_get_the_one_shape(
    bridge: Bridge, name: str, stream: bool
) -> None:
    upstream_reply, message, code = ERRORS[name]
    exchange = bridge.ask(upstream_reply, REQUEST | {"stream": stream})
    error = exchange.error(int(name[:3]))
    assert message in error["message"]
    assert error["code"] == code
    wait = "5" if code == "rate_limit_exceeded" else None
    assert exchange.reply.header("retry-after") == dict(upstream_reply.headers).get(
        "retry-after", wait
    )


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_redirect_is_an_error_as_only_the_bridge_could_follow_it(
    bridge: Bridge, stream: bool
) -> None:
    moved = Reply(b"", "text/html", 307, (("location", "https://other.test/chat/completions"),))
    exchange = bridge.ask(moved, REQUEST | {"stream": stream})
    error = exchange.error(502)
    assert ("307" in error["message"], error["type"]) == (True, "server_error")
    assert exchange.reply.header("location") is None


# Many at once, and clients that leave.


def test_turns_at_the_same_time_do_not_mix(bridge: Bridge) -> None:
    def ask(number: int) -> str:
        said = [chunk({"content": f"{number} "}) for _ in range(20)]
        reply = Reply(sse([*said, chunk({}, "stop")]))
        return text_of(bridge.ask(reply, options=";cut=event;pace=0.001").story().response)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [f"{number} " * 20 for number in range(24)]
