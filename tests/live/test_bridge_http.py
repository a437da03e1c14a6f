"""What a bridge must get right about HTTP in requests, and about what it does not bridge."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import zstandard

from dragoman.responses.dialects import DIALECTS
from fixtures.server import Reply, Upstream
from tests.live.mitmdump import Mitmdump
from tests.live.responses import REQUEST, WHOLE, Bridge, calls_of, text_of

TEXT = "The answer is 6 < 7, as the table says: <b>yes</b>."
CALLS = [
    ("bash", {"command": "ls -la /usr/include | grep asm"}),
    ("read", {"path": "/usr/include/asm-generic/errno.h"}),
]
GetMitmdump = Callable[..., Mitmdump]


@pytest.fixture
def start(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Callable[..., Bridge]:
    """Gives the upstream behind its reverse proxy, with more options if asked for."""

    def get(*options: str, bridge: str = "~all") -> Bridge:
        settings = [f"dragoman_bridge={bridge}", *options]
        arguments = [word for option in settings for word in ("--set", option)]
        proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", *arguments)
        return Bridge(plain_upstream, proxy)

    return get


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    pairs = tuple((name.replace("_", "-"), text) for name, text in headers.items())
    return Reply(json.dumps(value).encode(), "application/json", status, pairs)


def zstd_of_unknown_size(body: bytes) -> bytes:
    """As Codex compresses: the frame does not tell how much is in it."""
    zstd = zstandard.ZstdCompressor().compressobj()
    return zstd.compress(body) + zstd.flush()


# The request's way.


def test_base_path_and_query_are_kept_and_only_the_endpoint_changes(bridge: Bridge) -> None:
    path = "/a%20b/v1/responses?api-version=2026-01-01&x=%2Fresponses"
    (sent,) = bridge.ask("clean_text", REQUEST, ("authorization", "Bearer sk-1"), path=path).sent
    assert sent.path.partition("/a")[2] == path.partition("/a")[2].replace(
        "v1/responses", "v1/chat/completions"
    )
    assert sent.header("authorization") == "Bearer sk-1"
    assert sent.header("accept-encoding") == "identity"
    assert sent.header("content-length") == str(len(sent.body))


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("zstd", zstandard.compress),
        ("zstd", zstd_of_unknown_size),
        ("gzip", gzip.compress),
        ("br", brotli.compress),
        ("deflate", zlib.compress),
        ("GZIP", gzip.compress),
        ("identity", bytes),
    ],
    ids=["zstd", "zstd of unknown size", "gzip", "br", "deflate", "upper case", "identity"],
)
def test_compressed_requests_are_read(
    bridge: Bridge, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    body = pack(json.dumps(REQUEST).encode())
    exchange = bridge.ask("kimi_specification", body, ("content-encoding", encoding))
    assert exchange.chat["messages"][-1] == {"role": "user", "content": REQUEST["input"]}
    assert exchange.sent[0].header("content-encoding") is None
    assert calls_of(exchange.story().response) == CALLS


OF_THE_BODY = [
    *(("content-md5", "x"), ("digest", "sha-256=x"), ("content-digest", "sha-256=:x:")),
    *(("range", "bytes=0-1"), ("if-none-match", '"x"'), ("if-match", "*")),
    ("content-language", "en"),
]


def test_no_header_that_speaks_of_the_old_body_goes_upstream(bridge: Bridge) -> None:
    others = [("prefer", "x"), ("idempotency-key", "x"), ("x-digest", "x")]
    exchange = bridge.ask("clean_text", REQUEST, *OF_THE_BODY, *others)
    exchange.story()
    (sent,) = exchange.sent
    assert not [name for name, _ in OF_THE_BODY if sent.header(name) is not None]
    assert [(name, sent.header(name)) for name, _ in others] == others


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", gzip.compress(json.dumps(REQUEST).encode())[:-20], 400),
        ("gzip", b"not gzip", 400),
        ("zstd", b"not zstd", 400),
        ("br", b"not brotli", 400),
        ("gzip", gzip.compress(bytes(8_000_000)), 400),
        ("compress", b"{}", 415),
        ("gzip, br", b"{}", 415),
    ],
    ids=["cut off", "no gzip", "no zstd", "no br", "bomb", "unknown", "several"],
)
def test_unusable_compression_is_told_and_nothing_is_sent(
    bridge: Bridge, encoding: str, body: bytes, status: int
) -> None:
    exchange = bridge.ask("clean_text", body, ("content-encoding", encoding))
    exchange.error(status)
    assert exchange.sent == []


@pytest.mark.parametrize(
    "body",
    [b"", b"hello", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"model": "m"}'],
    ids=["empty", "text", "open", "list", "null", "string", "bytes", "deep", "no input"],
)
def test_a_body_that_is_no_request_is_a_400_and_nothing_is_sent(
    bridge: Bridge, body: bytes
) -> None:
    exchange = bridge.ask("clean_text", body)
    exchange.error(400)
    assert exchange.sent == []


@pytest.mark.parametrize("how", ["http1", "http2", "reverse"])
def test_large_bodies_that_the_user_has_streamed_are_converted(
    how: str,
    start: Callable[..., Bridge],
    tls_upstream: Upstream,
    rerouted: GetMitmdump,
) -> None:
    """HTTP/2 requests here do not tell their size: mitmproxy notices on the way."""
    if how == "reverse":
        bridge = start("stream_large_bodies=1")
    else:
        proxy = rerouted(tls_upstream, "--set", "stream_large_bodies=1")
        bridge = Bridge(tls_upstream, proxy, "https://api.moonshot.ai", http2=how == "http2")
    large = {"instructions": "x" * 300_000}
    exchange = bridge.ask("kimi_specification", REQUEST | large)
    assert exchange.chat["messages"][0]["content"] == large["instructions"]
    assert calls_of(exchange.story().response) == CALLS
    message = {"role": "assistant", "content": "y" * 300_000}
    whole = json_reply({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    for options in ("", ";cut=bytes:5000", ";framing=length"):
        assert text_of(bridge.ask(whole, WHOLE | large, options=options).json) == "y" * 300_000
    story = bridge.ask(whole, options=";cut=bytes:5000").story()
    assert text_of(story.response) == "y" * 300_000


def test_the_limit_that_the_user_set_for_bodies_holds(start: Callable[..., Bridge]) -> None:
    bridge = start("stream_large_bodies=1", "body_size_limit=100k")
    exchange = bridge.ask("clean_text", REQUEST | {"instructions": "x" * 300_000})
    assert (exchange.reply.status, exchange.sent) == (413, [])
    assert text_of(bridge.ask("clean_text").story().response) == TEXT


# Dialects.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_dialect_header_decides_and_is_not_forwarded(bridge: Bridge, dialect: str) -> None:
    header = ("X-Dragoman-Dialect", dialect)
    exchange = bridge.ask("kimi_specification", REQUEST, header, options=";cut=bytes:9")
    exchange.story(dialect)
    assert exchange.sent[0].header("x-dragoman-dialect") is None


def test_the_dialect_header_is_stronger_than_the_option(start: Callable[..., Bridge]) -> None:
    bridge = start("dragoman_dialect=guide")
    bridge.ask("kimi_specification").story("guide")
    header = ("x-dragoman-dialect", "openresponses")
    bridge.ask("kimi_specification", REQUEST, header).story("openresponses")


@pytest.mark.parametrize(
    "header", [("originator", "codex_exec"), ("user-agent", "codex_cli_rs/0.169.0 (Debian)")]
)
def test_codex_gets_its_dialect(bridge: Bridge, header: tuple[str, str]) -> None:
    bridge.ask("kimi_specification", REQUEST, header).story("codex")


# Tools that no chat upstream can serve.


def test_unsupported_tools_are_dropped_on_record(bridge: Bridge) -> None:
    tools = [*REQUEST["tools"], {"type": "web_search"}]
    exchange = bridge.ask("kimi_specification", REQUEST | {"tools": tools})
    assert [tool["function"]["name"] for tool in exchange.chat["tools"]] == ["bash", "read"]
    assert calls_of(exchange.story().response) == CALLS
    bridge.proxy.wait_for_log("dropped tool web_search")


@pytest.mark.parametrize("stream", [True, False])
def test_the_client_is_told_what_it_did_not_get(bridge: Bridge, stream: bool) -> None:
    assert bridge.ask("clean_text", REQUEST | {"stream": stream}).reply.header("x-dragoman") is None
    tools = [*REQUEST["tools"], {"type": "web_search"}]
    asked = {"tools": tools, "tool_choice": {"type": "web_search"}, "stream": stream}
    reply = bridge.ask("clean_text", REQUEST | asked).reply
    told = "dropped tool web_search x2; downgraded to auto tool_choice web_search"
    assert reply.header("x-dragoman") == told


def test_unsupported_tools_are_refused_if_the_user_says_so(start: Callable[..., Bridge]) -> None:
    bridge = start("dragoman_unsupported_tools=error")
    tools = [*REQUEST["tools"], {"type": "web_search"}]
    exchange = bridge.ask("clean_text", REQUEST | {"tools": tools})
    error = exchange.error(400)
    assert "web_search" in error["message"]
    assert error["param"] == "tools[2].type"
    assert exchange.sent == []


# What is not bridged.


def test_a_websocket_upgrade_is_answered_with_426_at_once(bridge: Bridge) -> None:
    exchange = bridge.ask(
        "clean_text",
        b"",
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("openai-beta", "responses_websockets=2026-02-06"),
        method="GET",
    )
    exchange.error(426)
    assert exchange.sent == []


@pytest.mark.parametrize("upgrade", [False, True])
def test_nothing_is_bridged_if_the_user_says_so(
    start: Callable[..., Bridge], upgrade: bool
) -> None:
    """Only the headers for Dragoman stay here."""
    bridge = start(bridge="off")
    body = b"" if upgrade else json.dumps(REQUEST, indent=1).encode()
    headers = (("connection", "Upgrade"), ("upgrade", "websocket")) if upgrade else ()
    method = "GET" if upgrade else "POST"
    for _ in range(2):
        exchange = bridge.ask(
            "clean_text", body, *headers, ("x-dragoman-dialect", "guide"), method=method
        )
        assert exchange.reply.status == 404
        assert exchange.json["error"]["message"] == "nothing at /v1/responses"
        (sent,) = exchange.sent
        assert sent.path.endswith("/v1/responses")
        assert (sent.body, sent.header("x-dragoman-dialect")) == (body, None)


UNTOUCHED = [
    ("GET", "/v1/models?client_version=0.169.0", b""),
    ("POST", "/v1/images/edits", b"{ }"),
    ("POST", "/v1/alpha/search", b"{ }"),
    ("POST", "/v1/embeddings", b'{"model": "e",  "input": "x"}'),
    ("POST", "/v1/responses/other/thing", b"{ }"),
    ("POST", "/v1/my-responses", b"{ }"),
    ("GET", "/v1/responses", b""),
]


@pytest.mark.parametrize("status", [200, 404])
def test_other_requests_pass_untouched(bridge: Bridge, status: int) -> None:
    """Whether the host knows them or not."""
    answer = b'{ "object": "list",  "data": [] }'
    for number, (method, path, body) in enumerate(UNTOUCHED):
        name = f"untouched{number}_{status}"
        reply = Reply(answer, "application/json", status)
        bridge.upstream.replies[name + path.partition("?")[0]] = reply
        exchange = bridge.ask(name, body, ("accept-encoding", "gzip"), path=path, method=method)
        assert (exchange.reply.status, exchange.reply.body) == (status, answer)
        (sent,) = exchange.sent
        assert (sent.method, sent.body) == (method, body)
        assert sent.path.endswith(path)
        assert sent.header("accept-encoding") == "gzip"


def test_a_filter_says_which_requests_are_bridged(start: Callable[..., Bridge]) -> None:
    bridge = start(bridge="~u /chat-only/")
    assert bridge.ask("clean_text", path="/chat-only/responses").reply.status == 200
    exchange = bridge.ask("clean_text", path="/v1/responses")
    assert exchange.reply.status == 404
    assert exchange.sent[0].path.endswith("/v1/responses")
