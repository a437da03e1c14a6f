"""Replies that no LLM gives, through a real mitmdump, repaired and bridged.

What cannot be understood passes, or becomes one clear failure; the process stays small,
its log holds no traceback, and the next request is served.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import zstandard

from dragoman.wire.reply_bounds import MAX_CALLS
from dragoman.wire.sse import FrameSplitter
from fixtures.server import Reply, Upstream
from tests.live import wire
from tests.live.chat import CONTROLS, Chat
from tests.live.chat import REQUEST as CHAT
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.responses import REQUEST, WHOLE, Bridge, calls_of, text_of
from tests.repair.streams import chunk, read, sse

MEGABYTE = 1024 * 1024
BEGIN = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
BEGIN += "<|tool_call_argument_begin|>"
END = "<|tool_call_end|><|tool_calls_section_end|>"
GetMitmdump = Callable[..., Mitmdump]
LAST = chunk({}, "stop")


class Both:
    """One upstream behind one mitmdump, asked as a chat client and as a Responses client."""

    def __init__(self, upstream: Upstream, proxy: Mitmdump) -> None:
        self.chat = Chat(upstream, proxy)
        self.bridge = Bridge(upstream, proxy)
        self.proxy = proxy

    def repaired(self, body: bytes | Reply, options: str = "") -> wire.Reply:
        reply = self.chat.ask(body, options)
        assert (reply.status, reply.complete) == (200, True)
        return reply

    def bridged(self, body: bytes | Reply, options: str = "") -> dict[str, Any]:
        """The response object of a legal stream."""
        reply = body if isinstance(body, Reply) else Reply(body)
        return self.bridge.ask(reply, options=options).story().response

    def ended(self, body: bytes, options: str = "") -> dict[str, Any]:
        """The response object of a stream that is too long to be checked event by event."""
        reply = self.bridge.ask(Reply(body), options=options).reply
        assert (reply.status, reply.complete) == (200, True)
        *_, last = reply.body.rstrip(b"\n").rpartition(b"\n\n")
        event = json.loads(last.partition(b"\ndata: ")[2])
        assert event["sequence_number"] == reply.body.count(b"\nevent: ")
        response: dict[str, Any] = event["response"]
        return response

    def peak(self) -> int:
        """The most memory that the process ever had, in megabytes."""
        return int(self.chat.control("memory").body) // MEGABYTE


@pytest.fixture
def both(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Both:
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return Both(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


@pytest.fixture
def light(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Both:
    """A mitmdump of its own: for the other's peak of memory, large bodies count that may."""
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    arguments += ["--set", "keep_host_header=true"]
    return Both(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


# What is small and odd.


def frame(text: str | bytes) -> bytes:
    return b"data: " + (text if isinstance(text, bytes) else text.encode()) + b"\n\n"


SAID = frame(json.dumps(chunk({"content": "said"})))
ODD = {
    "invalid UTF-8": frame(b'{"choices":[{"delta":{"content":"\xff\xfe\xc3"}}]}'),
    "overlong UTF-8": frame(b'{"choices":[{"delta":{"content":"\xc0\xbc|tool_call"}}]}'),
    "UTF-16": "data: {}\n\n".encode("utf-16") + b"\n\n",
    "a BOM in every frame": b"\xef\xbb\xbf" + frame("{}"),
    "NULs": b"\x00\x00" + frame("\x00") + frame('{"choices":[{"delta":{"content":"\\u0000"}}]}'),
    "a NUL in the frame": frame(b'{"choices":\x00[]}'),
    "lone surrogates": frame('{"choices":[{"delta":{"content":"\\ud83d"}}]}'),
    "surrogates the wrong way round": frame('{"choices":[{"delta":{"content":"\\ude00\\ud83d"}}]}'),
    "duplicate keys": frame('{"choices":[],"choices":[{"delta":{"content":"a","content":"b"}}]}'),
    "huge numbers": frame('{"choices":[{"index":1e999,"delta":{}}],"created":' + "9" * 4000 + "}"),
    "too many digits": frame('{"choices":[],"created":' + "9" * 10_000 + "}"),
    "numbers that are none": frame('{"choices":[{"index":NaN,"delta":{}}],"usage":-Infinity}'),
    "deep lists": frame('{"choices":' + "[" * 100_000),
    "deep lists, closed": frame('{"choices":' + "[" * 50_000 + "]" * 50_000 + "}"),
    "deep objects": frame('{"choices":[{"delta":' + '{"a":' * 900 + "1" + "}" * 900 + "}]}"),
    "deep enough": frame('{"choices":[{"delta":' + '{"a":' * 150 + "1" + "}" * 150 + "}]}"),
    "other line ends": b"data: {}\r\rdata: []\n\rdata: 1\r\n\r\n",
    "fields nobody knows": b"id: x\nretry: 1e9\nfoo: bar\n: \xff\nevent\n\n",
    "events of other names": b"event: response.completed\ndata: {}\n\n",
    "empty data": b"data\ndata:\ndata: \n\n" * 3,
    "data in many lines": b"data: {\ndata: }\n\n",
    "comments": b":" * 1000 + b"\n\n",
    "another language": frame("<html><body>502 Bad Gateway</body></html>"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("cut", ["", ";cut=bytes:100"])
def test_what_is_odd_passes_and_the_rest_is_read(both: Both, odd: str, cut: str) -> None:
    body = SAID + ODD[odd] + SAID + frame(json.dumps(LAST)) + frame("[DONE]")
    assert both.repaired(body, cut).body == body
    response = both.bridged(body, cut)
    assert response["status"] == "completed"
    text = text_of(response)
    assert text.startswith("said") and text.endswith("said")


@pytest.mark.parametrize("odd", ODD)
def test_what_is_odd_does_not_hide_a_call(both: Both, odd: str) -> None:
    """It stands within a string of a call that leaks: the call is repaired all the same."""
    pieces = [chunk({"content": text}) for text in (BEGIN + '{"command": "l', 's"}' + END)]
    first, second = (frame(json.dumps(piece)) for piece in pieces)
    body = first + ODD[odd] + second + frame(json.dumps(LAST)) + frame("[DONE]")
    calls = [
        json.loads(each.data or b"")["choices"][0]["delta"]["tool_calls"]
        for each in FrameSplitter().feed(both.repaired(body).body)
        if b'"tool_calls":[' in each.raw
    ]
    joined = "".join(call["function"].get("arguments", "") for each in calls for call in each)
    assert joined.startswith('{"command": "l') and joined.endswith('s"}')
    response = both.bridged(body)
    names = [item["name"] for item in response["output"] if item["type"] == "function_call"]
    assert names[0] == "bash"


HEADERS = {
    "a long type": ("content-type", "text/event-stream; " + "x=y; " * 5000),
    "a wait that is none": ("retry-after", "never" * 1000),
    "encodings": ("content-encoding", ", ".join(["gzip"] * 1000)),
    "an encoding that is none": ("content-encoding", "\x7f\x01"),
    "identity": ("content-encoding", "identity"),
    "cookies": ("set-cookie", "a=b; " * 1000),
    "for Dragoman": ("x-dragoman-dialect", "codex"),
}


@pytest.mark.parametrize("header", HEADERS)
def test_odd_headers_of_a_reply(both: Both, header: str) -> None:
    name, value = HEADERS[header]
    kind = value if name == "content-type" else "text/event-stream"
    reply = Reply(SAID + frame(json.dumps(LAST)), kind, headers=((name, value),))
    got = both.chat.ask(reply)
    assert got.complete and got.body == reply.body
    exchange = both.bridge.ask(reply)
    if name == "content-encoding" and value != "identity":
        assert exchange.error(502)
    else:
        assert text_of(exchange.story().response) == "said"


# What is large.


def test_a_frame_of_40_megabytes(both: Both) -> None:
    """More than is kept of one to be read, which is 32."""
    body = SAID + frame(b'{"choices":[{"delta":{"content":"' + b"x" * 40 * MEGABYTE + b'"}}]}')
    body += frame(json.dumps(LAST)) + frame("[DONE]")
    assert both.repaired(body).body == body
    response = both.ended(body)
    assert (response["status"], text_of(response)) == ("completed", "said")
    both.proxy.wait_for_log("too large to read")
    assert both.peak() < 700


def test_a_frame_without_end(both: Both) -> None:
    body = SAID + b'data: {"choices":[{"delta":{"content":"<' + b"x" * 40 * MEGABYTE
    got = both.chat.ask(body, ";cut=bytes:1000000")
    assert (got.status, got.complete) == (200, False)
    assert body.startswith(got.body)
    assert len(got.body) > len(body) - 10  # the last bytes might have ended it
    bridged = both.bridge.ask(Reply(body), options=";cut=bytes:1000000").reply
    assert (bridged.status, bridged.complete) == (200, False)
    assert both.peak() < 700


@pytest.mark.slow
def test_a_native_argument_of_7_megabytes(both: Both) -> None:
    head = {"index": 0, "id": "c", "type": "function", "function": {"name": "bash"}}
    heads: list[dict[str, Any]] = [{"tool_calls": [head]}]
    rest = [{"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in long_argument(70)]
    body = sse([*map(chunk, heads + rest), chunk({}, "tool_calls")])
    assert both.repaired(body).body == body
    ((name, arguments),) = calls_of(both.ended(body))
    assert (name, len(arguments["command"])) == ("bash", 7_000_000)
    assert both.peak() < 1500


def leaked(pieces: list[str]) -> bytes:
    deltas = [chunk({"content": text}) for text in [BEGIN, *pieces, END]]
    return sse([*deltas, chunk({}, "stop")])


def long_argument(pieces: int) -> list[str]:
    return ['{"command": "', *["x" * 100_000] * pieces, '"}']


def test_a_leaked_call_is_held_up_to_a_megabyte(both: Both) -> None:
    body = leaked(long_argument(10))
    (call,) = read(both.repaired(body).body).calls
    assert json.loads(call["arguments"]) == {"command": "x" * 1_000_000}
    assert calls_of(both.ended(body)) == [("bash", {"command": "x" * 1_000_000})]


@pytest.mark.slow
def test_a_leaked_argument_of_7_megabytes_is_text(both: Both) -> None:
    pieces = long_argument(70)
    body, text = leaked(pieces), "".join([BEGIN, *pieces, END])
    assert read(both.repaired(body).body).content == text
    assert text_of(both.ended(body)) == text
    both.proxy.wait_for_log("text call that is too long to be held")
    assert both.peak() < 1500


def test_a_whole_reply_that_unpacks_to_too_much(light: Both) -> None:
    """But not to suspiciously much: ten times what came."""
    words = "".join(f"{number * 7919 % 1_000_003:06} word word word " for number in range(400_000))
    choice = {"message": {"content": f"<{words}"}, "finish_reason": "stop"}
    body = gzip.compress(json.dumps({"choices": [choice]}).encode(), 1)
    reply = Reply(body, "application/json", headers=(("content-encoding", "gzip"),))
    assert light.chat.ask(reply, request=CHAT | {"stream": False}).body == body
    assert "too large" in light.bridge.ask(reply, WHOLE).error(502)["message"]
    assert light.peak() < 700


def test_many_names_make_a_short_log(both: Both) -> None:
    calls = [
        chunk({"content": f"<|tool_call_begin|>x{n}:0<|tool_call_argument_begin|>{{}}" + END})
        for n in range(MAX_CALLS)
    ]
    got = both.repaired(sse([*calls, LAST])).body
    assert len(read(got).calls) == MAX_CALLS
    assert len(calls_of(both.ended(sse([*calls, LAST])))) == MAX_CALLS
    log = both.proxy.wait_for_log(f"✓ {MAX_CALLS} calls .* · bridge · .*{MAX_CALLS} repaired")
    assert len(log) < 50_000


def zeros(encoding: str) -> bytes:
    whole = b"\0" * 100 * MEGABYTE
    if encoding == "gzip":
        return gzip.compress(whole)
    if encoding == "br":
        return brotli.compress(whole, quality=1)
    return zstandard.compress(whole)


@pytest.mark.parametrize("whole", [False, True], ids=["streamed", "whole"])
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_bomb_is_a_failure_for_a_bridged_client(light: Both, encoding: str, whole: bool) -> None:
    kind = "application/json" if whole else "text/event-stream"
    reply = Reply(zeros(encoding), kind, headers=(("content-encoding", encoding),))
    exchange = light.bridge.ask(reply, WHOLE if whole else REQUEST)
    words = "body is unusable: it is too large" if whole else "is a compressed stream"
    assert words in exchange.error(502)["message"]
    assert light.peak() < 700


def test_afterwards_all_is_well(both: Both) -> None:
    assert both.chat.ask("kimi_specification").complete
    assert calls_of(both.bridge.ask("kimi_specification").story().response)
