"""A stream that ends early, and well as far as HTTP can tell."""

from __future__ import annotations

import itertools
import json

import pytest

from fixtures.server import Reply, Upstream
from tests.live import raw, responses
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON
from tests.live.responses import Exchange
from tests.live.test_dying_upstreams import (
    EARLY,
    MOMENTS,
    STREAM,
    GetMitmdump,
    check_bridged,
    check_broken_off,
)
from tests.repair.streams import chunk, sse

EARLY_ENDS = {
    "empty": 0,
    "between two events": STREAM.index(b'data: {"id"', STREAM.index(b"Held")),
    "within a frame": MOMENTS["within a frame"],
    "before a blank line": STREAM.index(b"\n\n", MOMENTS["within a frame"]),
    "within a blank line": STREAM.index(b"\n\n", MOMENTS["within a frame"]) + 1,
    "within a call": MOMENTS["within a call"],
}
FIRST_FRAME = STREAM.index(b"\n\n") + 2
_keys = itertools.count()
FRAMINGS = ["chunked", "length", "close"]


@pytest.fixture
def plain(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Chat:
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    return Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


@pytest.mark.parametrize("http2", [False, True], ids=["1", "2"])
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("at", EARLY_ENDS.values(), ids=EARLY_ENDS)
def test_a_bridged_stream_that_ends_early_and_well_breaks_off(
    plain: Chat, at: int, framing: str, http2: bool
) -> None:
    reply, options = Reply(STREAM[:at]), f";framing={framing};key=early{next(_keys)}x"
    request, path = responses.REQUEST, "/v1/responses"
    exchange = Exchange(plain.ask(reply, options, path=path, request=request, http2=http2), [])
    if at == 0 and framing == "length":  # it ends with its headers
        assert exchange.error(502)["code"] == "server_error"
        return
    check_bridged(exchange, at)
    plain.proxy.wait_for_log(f"{options[-6:]}.*: ✗ ended early · bridge .*{EARLY}")


@pytest.mark.parametrize("http2", [False, True], ids=["1", "2"])
@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("at", EARLY_ENDS.values(), ids=EARLY_ENDS)
def test_a_repaired_stream_that_ends_early_and_well_breaks_off(
    plain: Chat, at: int, framing: str, http2: bool
) -> None:
    reply, options = Reply(STREAM[:at]), f";framing={framing};key=early{next(_keys)}x"
    request = {"stream": True, "messages": []}
    got = plain.ask(reply, options, request=request, http2=http2)
    if at == 0 and framing == "length":  # it ends with its headers
        assert Exchange(got, []).error(502)["code"] == "upstream_unreachable"
        return
    assert not got.complete
    assert got.body.startswith(STREAM[: min(at, FIRST_FRAME)])
    check_broken_off(
        got.body, MOMENTS["within a frame"] if 0 < at < MOMENTS["within a call"] else at
    )
    plain.proxy.wait_for_log(f"{options[-6:]}.*; {EARLY}")


@pytest.mark.parametrize("options", ["", ";cut=event;fault=reset;abort=300"], ids=["well", "reset"])
def test_a_client_of_http_1_0_is_sent_the_failure(plain: Chat, options: str) -> None:
    """How a body ends says nothing to it."""
    plain.upstream.replies["old"] = Reply(STREAM[:300] if not options else STREAM)
    body = json.dumps(responses.REQUEST).encode()
    head = f"POST /old{options}/v1/responses HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    got = raw.send(plain.proxy, head.encode() + body)
    last = json.loads(got.rpartition(b"data: ")[2])
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")


DONE = "All of it is [DONE]"
CUT_TEXTS = {
    "in a text": f"{DONE}",
    "behind a line end": f"x\ndata: {DONE}\n\ndata: [DONE]\n\n",
}


@pytest.mark.parametrize("text", CUT_TEXTS.values(), ids=CUT_TEXTS)
@pytest.mark.parametrize("options", ["", ";fault=reset"], ids=["ends well", "reset"])
def test_a_text_that_says_done_is_no_end(plain: Chat, text: str, options: str) -> None:
    stream = sse([chunk({"content": text})], done=False)
    options = f"{options};abort={len(stream)}" if options else ""
    got = plain.ask(stream, options + ";cut=event", request={"stream": True, "messages": []})
    assert not got.complete
    assert got.body == stream


@pytest.mark.parametrize("rest", [b"data: [DONE]", b"data: [DONE]\n", b": bye", b"\n"])
def test_an_end_without_its_blank_line_is_an_end(plain: Chat, rest: bytes) -> None:
    stream = sse([chunk({"content": "said"}), chunk({}, "stop")], done=False) + rest
    got = plain.ask(stream, request={"stream": True, "messages": []})
    assert got.complete and got.body == stream


def test_half_an_event_behind_the_finish_reason_is_dropped(plain: Chat) -> None:
    stream = sse([chunk({"content": "said"}), chunk({}, "stop")], done=False)
    options = f";key=half{next(_keys)}x"
    got = plain.ask(
        stream + b'data: {"choices": [], "us', options, request={"stream": True, "messages": []}
    )
    assert got.complete and got.body == stream
    plain.proxy.wait_for_log(f"{options[-6:]}.*dropped an event without its end")
