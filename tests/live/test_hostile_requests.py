"""Requests that no client sends, through a real mitmdump: a clear 4xx, or they pass."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from fixtures.server import Reply, Upstream
from tests.live.chat import CONTROLS, Chat, fixture_bytes
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.responses import REQUEST, Bridge, text_of

MEGABYTE = 1024 * 1024
ANSWER = "The answer is 6 < 7, as the table says: <b>yes</b>."


@pytest.fixture
def bridge(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Bridge:
    """A mitmdump of its own, whose peak of memory is that of these tests."""
    arguments = ("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    arguments += ("--set", "keep_host_header=true")
    return Bridge(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


def peak(bridge: Bridge) -> int:
    """The most memory that the process ever had, in megabytes."""
    return int(Chat(bridge.upstream, bridge.proxy).control("memory").body) // MEGABYTE


def text(**fields: str) -> bytes:
    """A request with fields of which each is JSON as it is to be sent."""
    every = {"model": '"m"', "input": '"x"', "stream": "true"} | fields
    return ("{" + ",".join(f'"{name}":{value}' for name, value in every.items()) + "}").encode()


REFUSED = {
    "text": b"hello",
    "an open object": b'{"model": "m", "input": "x"',
    "two values": text() + text(),
    "NULs": b"\x00" * 1000,
    "a NUL behind it": text() + b"\x00",
    "invalid UTF-8": text(input='"\xff"').replace("ÿ".encode(), b"\xff\xfe"),
    "a BOM in UTF-16": b"\xff\xfe" + text(),
    "a form": b"model=m&input=x",
    "a multipart form": b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\nb\r\n--x--",
    "single quotes": text().replace(b'"', b"'"),
    "deep lists": text(input="[" * 100_000 + "]" * 100_000),
    "deep objects": text(anything='{"a":' * 5_000 + "1" + "}" * 5_000),
    "too many digits": text(seed="9" * 5_000),
    "endless numbers": text(temperature="1e999"),
    "no number": text(temperature="NaN"),
    "an unknown role": text(input='[{"role":"potato","content":"x"}]'),
    "a role of another type": text(input='[{"role":{},"content":"x"}]'),
    "items that are none": text(input="[null]"),
    "a number for a model": text(model="7"),
    "a list for a model": text(model='["m"]'),
    "no tools": text(tools='"bash"'),
    "nothing said": text(input="[]"),
    "a million nothings": text(input="[" + "[]," * 1_000_000 + "[]]"),
}


TOO_LARGE = {"a million nothings"}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_with_a_reason_and_nothing_is_sent(bridge: Bridge, what: str) -> None:
    exchange = bridge.ask("clean_text", REFUSED[what])
    error = exchange.error(413 if what in TOO_LARGE else 400)
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) < 500
    assert ("nested more than 200 levels deep" in error["message"]) == what.startswith("deep")
    assert exchange.sent == []


PASSES = {
    "lone surrogates": text(input='"\\ud800 \\udfff"'),
    "NULs": text(input='"\\u0000"', instructions='"\\u0000\\u001b[2J"'),
    "duplicate keys": text(input='"y","model":"n","input":"x"'),
    "a huge number": text(seed="9" * 4000, max_output_tokens="-1"),
    "unknown fields": text(**{f"x{n}": "1" for n in range(20_000)}),
    "empty names": text(**{"": "{}"}),
    "a BOM": b"\xef\xbb\xbf" + text(),
    "blanks around it": b" \r\n\t" * 100_000 + text() + b"\n" * 100_000,
    "nested as far as can be": text(anything='{"a":' * 190 + '"1"' + "}" * 190),
}


@pytest.mark.parametrize("what", PASSES)
def test_what_is_odd_but_JSON_is_served(bridge: Bridge, what: str) -> None:  # noqa: N802
    exchange = bridge.ask("clean_text", PASSES[what])
    if what == "a BOM":  # RFC 8259 leaves it to us
        assert exchange.reply.status in (200, 400)
        return
    assert text_of(exchange.story().response) == ANSWER
    assert exchange.chat["model"] in ("m", "n")


@pytest.mark.parametrize("what", [*REFUSED, *PASSES])
def test_a_chat_request_passes_whatever_it_is(bridge: Bridge, what: str) -> None:
    """Its reply is repaired with as much as is known of the tools."""
    body = (REFUSED | PASSES)[what]
    bridge.upstream.replies["any"] = Reply(fixture_bytes("kimi_specification"))
    exchange = bridge.ask("any", body, path="/v1/chat/completions")
    assert (exchange.reply.status, exchange.sent[0].body) == (200, body)
    assert b"tool_calls" in exchange.reply.body


def packed(encoding: str, body: bytes) -> bytes:
    match encoding:
        case "gzip":
            return gzip.compress(body, 9)
        case "deflate":
            return zlib.compress(body, 9)
        case "br":
            return brotli.compress(body, quality=5)
        case _:
            return zstandard.compress(body)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("size", [8, 50])
def test_a_request_that_unpacks_to_very_much_is_refused(
    bridge: Bridge, encoding: str, size: int
) -> None:
    body = packed(encoding, text(input='"' + "x" * size * MEGABYTE + '"'))
    exchange = bridge.ask("clean_text", body, ("content-encoding", encoding))
    assert exchange.reply.status in (400, 413)
    assert exchange.error(exchange.reply.status)
    assert exchange.sent == []
    assert peak(bridge) < 700


def test_a_bomb_in_a_bomb_is_unpacked_at_most_once(bridge: Bridge) -> None:
    body = gzip.compress(gzip.compress(text(input='"' + "x" * MEGABYTE + '"')))
    for encoding in ("gzip", "gzip, gzip"):
        exchange = bridge.ask("clean_text", body, ("content-encoding", encoding))
        assert exchange.reply.status in (400, 415)
        assert exchange.sent == []


@pytest.mark.slow
def test_a_body_of_100_megabytes_that_is_no_request(bridge: Bridge) -> None:
    bridge.ask("clean_text", b"x" * 100 * MEGABYTE).error(413)
    bridge.ask("clean_text", b"x" * 30 * MEGABYTE).error(400)
    bridge.ask("clean_text", text(input="[" + '"x",' * 5 * MEGABYTE + "1]")).error(413)
    assert peak(bridge) < 1000


@pytest.mark.slow
def test_an_argument_of_30_megabytes_is_sent_on(bridge: Bridge) -> None:
    arguments = json.dumps({"command": "x" * 30 * MEGABYTE})
    call = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": arguments}
    answer = {"type": "function_call_output", "call_id": "c", "output": "done"}
    body = REQUEST | {"input": [{"role": "user", "content": "x"}, call, answer]}
    exchange = bridge.ask("clean_text", body)
    assert text_of(exchange.story().response) == ANSWER
    (sent,) = exchange.chat["messages"][1]["tool_calls"]
    assert sent["function"]["arguments"] == arguments
    assert peak(bridge) < 1200
