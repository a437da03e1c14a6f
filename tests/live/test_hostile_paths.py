"""Addresses, methods and headers that are not what they seem: nothing is bridged that should
not be, and nothing goes upstream that the client did not plainly ask for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.server import Upstream
from tests.live import raw, wire
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, REQUEST, Bridge, text_of

ANSWER = "The answer is 6 < 7, as the table says: <b>yes</b>."
BODY = json.dumps(REQUEST, indent=1).encode()
GetMitmdump = Callable[..., Mitmdump]


@pytest.fixture
def regular(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Bridge:
    """Through a regular proxy, without TLS."""
    return Bridge(plain_upstream, mitmdump("--set", "dragoman_bridge=~all"))


LONG = "/" + "a" * 7000


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/v1/responses", "/v1/chat/completions"),
        ("/responses", "/chat/completions"),
        ("/v1/responses/", "/v1/chat/completions"),
        ("/v1/responses///", "/v1/chat/completions"),
        ("//v1//responses", "//v1//chat/completions"),
        ("/v1/responses/?x", "/v1/chat/completions?x"),
        ("/v1/responses?a=/responses&b=%0d%0a", "/v1/chat/completions?a=/responses&b=%0d%0a"),
        ("/v1/responses??", "/v1/chat/completions??"),
        ("/x/../v1/responses", "/x/../v1/chat/completions"),
        ("/%2e%2e/v1/responses", "/%2e%2e/v1/chat/completions"),
        ("/v1/responses/responses", "/v1/responses/chat/completions"),
        (f"{LONG}/responses", f"{LONG}/chat/completions"),
    ],
)
def test_only_the_last_segment_of_a_path_changes(bridge: Bridge, path: str, sent: str) -> None:
    exchange = bridge.ask("clean_text", BODY, path=path)
    assert text_of(exchange.story().response) == ANSWER
    (request,) = exchange.sent
    assert request.path.partition("/clean_text")[2].partition("/")[2] == sent[1:]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/Responses", "/v1/RESPONSES", "/v1/responses;a=b", "/v1/responses/;a"),
        *("/v1/responses%2f", "/v1/responses%2f..", "/v1/responses%2F..%2Fx", "/v1%2fresponses"),
        *("/v1/responses/../x", "/v1/responses/..", "/v1/responses/.", "/v1/responses/%2e"),
        *("/v1/responses%00", "/v1/responses%20", "/v1/responses%3fx", "/v1/%72esponses"),
        *("/v1/responses\\", "/v1/x?path=/responses", "/v1/x?/responses", "/v1/responses%23"),
        *("/v1/xresponses", "/v1/responses.json", "/v1/responses1", "/v1/responses/r/input_items"),
        *("/v1/r%C3%A9sponses", "/v1/responses%u0000", f"/v1/responses{LONG}"),
    ],
)
def test_what_is_not_that_path_passes_untouched(bridge: Bridge, path: str) -> None:
    exchange = bridge.ask("clean_text", BODY, ("accept-encoding", "gzip"), path=path)
    assert exchange.reply.status == 404
    assert exchange.json["error"]["message"].startswith("nothing at ")
    (sent,) = exchange.sent
    assert sent.path.endswith(path)
    assert sent.body == BODY
    assert sent.header("accept-encoding") == "gzip"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
def test_no_other_method_is_bridged(bridge: Bridge, method: str) -> None:
    exchange = bridge.ask("clean_text", BODY, method=method)
    assert exchange.reply.status == 404
    (sent,) = exchange.sent
    assert (sent.method, sent.body) == (method, BODY)
    assert sent.path.endswith("/v1/responses")


OWN = [
    ("x-dragoman-dialect", "potato"),
    ("X-Dragoman-Dialect", "openai"),
    ("x-dragoman-store", "/tmp/here"),
    ("X-DRAGOMAN-BRIDGE", "off"),
    ("x-dragoman-", ""),
    ("x-dragoman-x", "y" * 10_000),
]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/models", "/"])
def test_headers_for_dragoman_mean_nothing_else_and_stay_here(bridge: Bridge, path: str) -> None:
    exchange = bridge.ask("clean_text", BODY, *OWN, ("x-dragomanic", "kept"), path=path)
    (sent,) = exchange.sent
    assert not [name for name, _ in sent.headers if name.startswith("x-dragoman-")]
    assert sent.header("x-dragomanic") == "kept"
    if path == "/v1/responses":
        assert text_of(exchange.story().response) == ANSWER
        assert sent.path.endswith("/v1/chat/completions")


# Bytes that no client library would send.


def request(target: str, *headers: str, body: bytes = BODY) -> bytes:
    lines = [f"POST {target} HTTP/1.1", "Host: example.test", "Connection: close", *headers]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def test_an_absolute_address_is_bridged_where_it_leads(regular: Bridge) -> None:
    upstream = regular.upstream
    before = len(upstream.requests)
    target = f"{upstream.url}/clean_text/absolute/v1/responses"
    reply = raw.send(regular.proxy, request(target))
    assert raw.status(reply) == 200
    assert b"response.completed" in reply
    (sent,) = upstream.requests[before:]
    assert sent.path == "/clean_text/absolute/v1/chat/completions"


HEAD = b"POST /v1/responses HTTP/1.1\r\nHost: x\r\n"
MALFORMED = {
    "a space in the path": request("/clean_text/v1/x y/responses"),
    "no path": request(""),
    "an address of another scheme": request("file:///v1/responses"),
    "two lengths": request("/clean_text/v1/responses", "Content-Length: 3"),
    "a length and chunks": request("/clean_text/v1/responses", "Transfer-Encoding: chunked"),
    "a hidden encoding": request("/clean_text/v1/responses", "Transfer-Encoding : chunked"),
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\nhello",
    "no number for a length": HEAD + b"Content-Length: 0x5\r\n\r\nhello",
    "a header without a colon": request("/clean_text/v1/responses", "nonsense"),
    "a name that is none": request("/clean_text/v1/responses", "X\x00Y: z"),
    "CONNECT to a path": b"CONNECT /v1/responses HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT to nowhere": b"CONNECT : HTTP/1.1\r\nHost: x\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x00\x00\x00 /v1/responses HTTP/9.9\r\n\r\n",
}


@pytest.mark.parametrize("mode", ["reverse", "regular"])
@pytest.mark.parametrize("how", MALFORMED)
def test_a_malformed_request_is_refused_and_leaves_no_trace_upstream(
    how: str, mode: str, request: pytest.FixtureRequest
) -> None:
    bridge: Bridge = request.getfixturevalue("bridge" if mode == "reverse" else "regular")
    before = len(bridge.upstream.requests)
    got = raw.status(raw.send(bridge.proxy, MALFORMED[how]))
    assert got == 0 or 400 <= got < 600, got
    paths = [sent.path for sent in bridge.upstream.requests[before:]]
    assert paths == []


@pytest.mark.parametrize(
    "target",
    [
        "/clean_text/v1/x HTTP/1.1\r\nx: y\r\n\r\nPOST /clean_text/v1/responses",
        "/clean_text/v1 HTTP/1.1/responses",
        "/clean_text/v1\r\n/responses",
        "/clean_text/v1\x00/responses",
        "",
    ],
)
def test_http2_smuggles_nothing_into_a_path(
    target: str, tls_upstream: Upstream, rerouted: GetMitmdump
) -> None:
    proxy = rerouted(tls_upstream, "--set", "dragoman_bridge=~all")
    before = len(tls_upstream.requests)
    headers = [(":method", "POST"), (":scheme", "https"), (":authority", "api.moonshot.ai")]
    got = raw.send_http2(proxy, [*headers, (":path", target), JSON], BODY)
    assert got == 0 or 400 <= got < 600
    assert [sent.path for sent in tls_upstream.requests[before:]] == []


def test_a_path_that_only_http2_can_carry_is_answered(
    tls_upstream: Upstream, rerouted: GetMitmdump
) -> None:
    proxy = rerouted(tls_upstream, "--set", "dragoman_bridge=~all")
    headers = [(":method", "GET"), (":scheme", "https"), (":authority", "api.moonshot.ai")]
    assert raw.send_http2(proxy, [*headers, (":path", "[/v1/responses/resp_x")], b"") == 404


@pytest.mark.parametrize("size", [70_000, 3_000_000])
def test_a_path_without_end_is_refused(bridge: Bridge, size: int) -> None:
    before = len(bridge.upstream.requests)
    got = raw.status(raw.send(bridge.proxy, request("/" + "a" * size + "/v1/responses")))
    assert got == 0 or 400 <= got < 600
    assert bridge.upstream.requests[before:] == []
    assert (
        wire.exchange(f"{bridge.proxy.url}/clean_text/v1/models", b"", method="GET").status == 200
    )
