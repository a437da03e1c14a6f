"""What a bridge must get right about HTTP, whatever client and upstream do."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import brotli
import pytest
import zstandard

from dragoman.bridge.responses.dialects import DIALECTS
from fixtures.server import Reply, Upstream
from tests.live.chat import fixture_bytes
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, REQUEST, WHOLE, Bridge, calls_of, text_of
from tests.repair.streams import chunk, sse

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


@pytest.fixture
def bridge(start: Callable[..., Bridge]) -> Bridge:
    return start()


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


def test_a_slash_at_the_end_is_no_other_path(bridge: Bridge) -> None:
    exchange = bridge.ask("clean_text", path="/v1/responses/")
    assert text_of(exchange.story().response) == TEXT


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("zstd", zstandard.compress),
        (
            "zstd",
            lambda body: (z := zstandard.ZstdCompressor().compressobj()).compress(body) + z.flush(),
        ),
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


@pytest.mark.parametrize(
    ("field", "value"),
    [("background", True), ("conversation", "c_1"), ("prompt", {"id": "p_1"})],
)
def test_a_refusal_names_the_field(bridge: Bridge, field: str, value: Any) -> None:
    exchange = bridge.ask("clean_text", REQUEST | {field: value})
    assert exchange.error(400)["param"] == field
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


def test_the_dialect_header_stays_here_even_if_nothing_is_bridged(
    start: Callable[..., Bridge],
) -> None:
    exchange = start(bridge="off").ask("clean_text", REQUEST, ("x-dragoman-dialect", "guide"))
    assert exchange.sent[0].header("x-dragoman-dialect") is None


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


# The reply's way.


@pytest.mark.parametrize("cut", ["whole", "event", "line", "bytes:1", "bytes:37"])
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_stream_is_the_same_however_it_is_cut(bridge: Bridge, cut: str, framing: str) -> None:
    exchange = bridge.ask("kimi_specification", options=f";cut={cut};framing={framing}")
    story = exchange.story()
    assert calls_of(story.response) == CALLS
    assert story.response["usage"]["total_tokens"] > 0


def test_a_stream_is_live(bridge: Bridge) -> None:
    for hold, awaited in ((0, b"response.in_progress"), (3, b"output_text.delta")):
        exchange = bridge.ask(
            "clean_text",
            options=f";cut=event;hold={hold}",
            release_when=lambda body, awaited=awaited: awaited in body,
        )
        assert text_of(exchange.story().response) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_stream_is_converted_live(bridge: Bridge, encoding: str) -> None:
    options = f";encoding={encoding};cut=event;hold=3"
    exchange = bridge.ask(
        "clean_text", options=options, release_when=lambda body: b"output_text.delta" in body
    )
    assert text_of(exchange.story().response) == TEXT
    assert exchange.reply.header("content-encoding") is None


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
def test_a_compressed_message_is_converted(bridge: Bridge, encoding: str) -> None:
    exchange = bridge.ask("kimi_whole_message", WHOLE, options=f";encoding={encoding}")
    assert calls_of(exchange.json) == [("bash", {"command": "uname -a"})]
    assert exchange.reply.header("content-encoding") is None


def test_json_for_a_streamed_request_becomes_a_stream(bridge: Bridge) -> None:
    body = fixture_bytes("kimi_whole_message", "upstream.json")
    story = bridge.ask(Reply(body, "application/json")).story()
    assert calls_of(story.response) == [("bash", {"command": "uname -a"})]


@pytest.mark.parametrize("stream", [False, None])
def test_a_stream_for_a_request_that_is_not_streamed_becomes_json(
    bridge: Bridge, stream: bool | None
) -> None:
    body = {name: value for name, value in REQUEST.items() if name != "stream"}
    body |= {} if stream is None else {"stream": stream}
    exchange = bridge.ask(Reply(fixture_bytes("kimi_specification")), body)
    assert exchange.reply.header("content-type") == "application/json"
    assert exchange.json["status"] == "completed"
    assert calls_of(exchange.json) == CALLS


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    "body", [b"", b"<html>busy</html>", b"null", b"[]", b"{}", b'{"choices":[]}']
)
def test_an_answer_that_says_nothing_is_an_honest_failure(
    bridge: Bridge, body: bytes, stream: bool
) -> None:
    exchange = bridge.ask(Reply(body, "application/json"), REQUEST | {"stream": stream})
    if stream:
        story = exchange.story()
        assert story.response["status"] == "failed"
        assert story.response["error"]["code"] == "server_error"
    else:
        assert exchange.error(502)["code"] == "server_error"


@pytest.mark.parametrize("at", [0, 1, 300, 700])
def test_a_stream_that_ends_early_is_an_honest_failure(bridge: Bridge, at: int) -> None:
    story = bridge.ask(Reply(fixture_bytes("clean_text")[:at])).story()
    assert story.response["status"] == "failed"
    assert story.response["error"]["code"] == "server_error"


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
    "400 openai": (
        json_reply({"error": {"message": "bad tools", "type": "invalid_request_error"}}, 400),
        "bad tools",
        None,
    ),
    "400 context": (
        json_reply({"object": "error", "message": "maximum context length is 9", "code": 400}, 400),
        "maximum context length",
        "context_length_exceeded",
    ),
    "401 string": (json_reply({"error": "Invalid Authentication"}, 401), "Invalid Auth", None),
    "403 html": (Reply(b"<html>denied</html>", "text/html", 403), "403", None),
    "422 fastapi": (
        json_reply({"detail": [{"loc": ["body"], "msg": "field required"}]}, 422),
        "field required",
        None,
    ),
    "429 text": (
        Reply(b"slow down", "text/plain", 429, (("retry-after", "7"),)),
        "slow down. Please try again in 7s.",
        "rate_limit_exceeded",
    ),
    "429 quota": (
        json_reply(
            {"error": {"message": "no balance", "type": "exceeded_current_quota_error"}}, 429
        ),
        "no balance",
        "insufficient_quota",
    ),
    "500 list": (json_reply([{"error": {"message": "boom", "code": 500}}], 500), "boom", None),
    "500 empty": (Reply(b"", "application/json", 500), "500", None),
    "502 stream": (Reply(b'data: {"error": "x"}\n\n', "text/event-stream", 502), "x", None),
    "529 null": (json_reply(None, 529), "529", "rate_limit_exceeded"),
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


def test_a_context_overflow_that_is_sent_as_401_is_told_as_what_it_is(bridge: Bridge) -> None:
    error = {"message": "k3-256k supports only 256K context", "type": "access_terminated_error"}
    told = bridge.ask(json_reply({"error": error}, 401)).error(400)
    assert told["code"] == "context_length_exceeded"


def test_a_404_of_a_bridged_request_is_told_as_it_is(bridge: Bridge) -> None:
    error = {"message": "no model kimi-k9", "code": "model_not_found", "param": "model"}
    told = bridge.ask(json_reply({"error": error}, 404)).error(404)
    assert told["code"] == "model_not_found"
    assert told["param"] == "model"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_redirect_is_an_error_as_only_the_bridge_could_follow_it(
    bridge: Bridge, stream: bool
) -> None:
    moved = Reply(b"", "text/html", 307, (("location", "https://other.test/chat/completions"),))
    exchange = bridge.ask(moved, REQUEST | {"stream": stream})
    assert "307" in exchange.error(502)["message"]
    assert exchange.reply.header("location") is None


# Many at once, and clients that leave.


def test_turns_at_the_same_time_do_not_mix(bridge: Bridge) -> None:
    def ask(number: int) -> str:
        said = [chunk({"content": f"{number} "}) for _ in range(20)]
        reply = Reply(sse([*said, chunk({}, "stop")]))
        return text_of(bridge.ask(reply, options=";cut=event;pace=0.001").story().response)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [f"{number} " * 20 for number in range(24)]


def test_a_client_that_leaves_disturbs_nobody(bridge: Bridge) -> None:
    for _ in range(3):
        connection = HTTPConnection("127.0.0.1", bridge.proxy.port)
        path = "/clean_text;cut=event;hold=3/v1/responses"
        connection.request("POST", path, json.dumps(REQUEST), dict([JSON]))
        assert connection.getresponse().read1().startswith(b"event: response.created\n")
        connection.close()
    assert text_of(bridge.ask("clean_text").story().response) == TEXT


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


UNTOUCHED = [
    ("GET", "/v1/models?client_version=0.169.0", b""),
    ("POST", "/v1/memories/trace_summarize", b"{ }"),
    ("POST", "/v1/images/generations", b"{ }"),
    ("POST", "/v1/images/edits", b"{ }"),
    ("POST", "/v1/alpha/search", b"{ }"),
    ("POST", "/v1/embeddings", b'{"model": "e",  "input": "x"}'),
    ("POST", "/v1/responses/other/thing", b"{ }"),
    ("POST", "/v1/my-responses", b"{ }"),
    ("GET", "/v1/responses", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), UNTOUCHED)
def test_other_requests_pass_untouched(bridge: Bridge, method: str, path: str, body: bytes) -> None:
    """Whether the host knows them or not."""
    answer = b'{ "object": "list",  "data": [] }'
    for status in (200, 404):
        name = f"untouched{UNTOUCHED.index((method, path, body))}_{status}"
        reply = Reply(answer, "application/json", status)
        bridge.upstream.replies[name + path.partition("?")[0]] = reply
        exchange = bridge.ask(name, body, ("accept-encoding", "gzip"), path=path, method=method)
        assert (exchange.reply.status, exchange.reply.body) == (status, answer)
        (sent,) = exchange.sent
        assert (sent.method, sent.body) == (method, body)
        assert sent.path.endswith(path)
        assert sent.header("accept-encoding") == "gzip"


@pytest.mark.parametrize("upgrade", [False, True])
def test_nothing_is_bridged_if_the_user_says_so(
    start: Callable[..., Bridge], upgrade: bool
) -> None:
    bridge = start(bridge="off")
    body = b"" if upgrade else json.dumps(REQUEST, indent=1).encode()
    headers = (("connection", "Upgrade"), ("upgrade", "websocket")) if upgrade else ()
    method = "GET" if upgrade else "POST"
    for _ in range(2):
        exchange = bridge.ask("clean_text", body, *headers, method=method)
        assert exchange.reply.status == 404
        assert exchange.json["error"]["message"] == "nothing at /v1/responses"
        (sent,) = exchange.sent
        assert sent.path.endswith("/v1/responses")
        assert sent.body == body


def test_a_filter_says_which_requests_are_bridged(start: Callable[..., Bridge]) -> None:
    bridge = start(bridge="~u /chat-only/")
    assert bridge.ask("clean_text", path="/chat-only/responses").reply.status == 200
    exchange = bridge.ask("clean_text", path="/v1/responses")
    assert exchange.reply.status == 404
    assert exchange.sent[0].path.endswith("/v1/responses")


def test_no_credential_is_in_the_log(bridge: Bridge) -> None:
    secret = "sk-very-secret"
    headers = (("authorization", f"Bearer {secret}"), ("api-key", secret))
    path = f"/v1/responses?key={secret}"
    bridge.ask("clean_text", REQUEST, *headers, path=path).story()
    bridge.ask("clean_text", b"{", *headers, path=path).error(400)
    bridge.ask(json_reply({"error": secret}, 401), REQUEST, *headers, path=path).error(401)
    bridge.proxy.wait_for_log("bridge")
    assert secret not in bridge.proxy.log
