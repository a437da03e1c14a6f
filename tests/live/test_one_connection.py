"""What happens to the requests of one connection, one after the other."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import time
from collections.abc import Callable

import pytest

from fixtures.server import Reply, Upstream
from fixtures.wire import unread
from tests.live.chat import CONTROLS
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.raw import read_request, serving
from tests.live.wire import TIMEOUT
from tests.repair.streams import chunk, sse
from tests.waiting import eventually

GetMitmdump = Callable[..., Mitmdump]
CHAT = {"model": "m", "stream": True, "messages": []}
RESPONSES = {"model": "m", "stream": True, "input": "Hi"}
STREAM = sse([chunk({"content": "early"}), chunk({"content": "late"}), chunk({}, "stop")])


def answered(
    connection: http.client.HTTPConnection, path: str, body: object
) -> http.client.HTTPResponse:
    headers = {"content-type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    return connection.getresponse()


def ask(connection: http.client.HTTPConnection, path: str, body: object) -> tuple[int, bytes]:
    response = answered(connection, path, body)
    return response.status, response.read()


def answering(
    raw: bytes, address: tuple[str, int] = ("127.0.0.1", 0)
) -> contextlib.AbstractContextManager[str]:
    """An upstream that answers every request with these bytes, and closes when its client does."""

    def serve(connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        read_request(stream)
        connection.sendall(raw)
        stream.read(1)

    return serving(serve, address)


def chunked(body: bytes, trailers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    head += b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [piece + b"\n\n" for piece in body.removesuffix(b"\n\n").split(b"\n\n")]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + chunks + b"0\r\n" + trailers + b"\r\n"


def test_a_client_that_asks_again_over_its_connection_reaches_an_upstream_that_is_back(
    mitmdump: GetMitmdump,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = "--mode", f"reverse:http://127.0.0.1:{port}", "--set", "dragoman_bridge=~all"
    proxy = mitmdump(*arguments)
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=TIMEOUT)
    status, body = ask(connection, "/v1/responses", RESPONSES)
    assert status == 502
    assert json.loads(body)["error"]["code"] == "upstream_unreachable"
    with answering(chunked(STREAM), ("127.0.0.1", port)):
        for _ in range(2):
            status, body = ask(connection, "/v1/responses", RESPONSES)
            assert status == 200
            assert b"response.completed" in body


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [101, 204])
def test_a_status_without_a_body_to_a_bridged_request_breaks_no_later_one(
    plain_upstream: Upstream, mitmdump: GetMitmdump, status: int, stream: bool
) -> None:
    plain_upstream.replies["good"] = Reply(STREAM)
    plain_upstream.replies["odd"] = Reply(b"", "text/plain", status, (("upgrade", "x"),))
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    port = mitmdump(*arguments).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    for _ in range(2):
        path = "/odd;framing=length/v1/responses"
        response = answered(connection, path, RESPONSES | {"stream": stream})
        body = response.read()
        assert b"error" in body
        assert (response.status, response.reason) == (502, "Bad Gateway")
        assert b"response.completed" in ask(connection, "/good/v1/responses", RESPONSES)[1]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_trailers_behind_a_stream_lose_nothing(mitmdump: GetMitmdump, path: str) -> None:
    with answering(chunked(STREAM, b"x-checksum: 1\r\n")) as url:
        arguments = "--mode", f"reverse:{url}", "--set", "dragoman_bridge=~all"
        proxy = mitmdump(*arguments)
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=TIMEOUT)
        body = ask(connection, path, CHAT if "chat" in path else RESPONSES)[1]
    assert b"early" in body
    assert b"late" in body
    assert (b"[DONE]" if "chat" in path else b"response.completed") in body


def test_flows_that_have_ended_are_not_held_by_their_connection(
    plain_upstream: Upstream, mitmdump: GetMitmdump
) -> None:
    plain_upstream.replies["short"] = plain_upstream.replies.get("short") or Reply(STREAM)
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    proxy = mitmdump(*arguments, scripts=(ADDON, CONTROLS))
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=TIMEOUT)
    for number in range(60):
        path, body = (
            ("/short/v1/responses", RESPONSES)
            if number % 2
            else ("/short/v1/chat/completions", CHAT)
        )
        assert ask(connection, path, body)[0] == 200
    status, held = ask(connection, "/controls/held", {})
    assert status == 200
    assert json.loads(held)["HTTPFlow"] <= 5, held


def test_the_chunks_of_one_read_leave_as_one(mitmdump: GetMitmdump) -> None:
    """mitmproxy alone would send each of them as it came."""
    head, _, body = chunked(sse([chunk({"content": "word"})] * 50)).partition(b"\r\n\r\n")

    def answer(connection: socket.socket) -> None:
        read_request(connection.makefile("rb"))
        connection.sendall(head + b"\r\n\r\n")
        ends = connection.getpeername(), connection.getsockname()
        if unread(*ends) is None:
            time.sleep(0.5)
        eventually(lambda: not unread(*ends))  # the headers are a read of their own
        connection.sendall(body)

    with serving(answer) as url:
        proxy = mitmdump("--mode", f"reverse:{url}")
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=TIMEOUT) as client:
            content = json.dumps(CHAT).encode()
            request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n"
            request += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            client.sendall(request % (len(content), content))
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += client.recv(65536)
    assert received.count(b'"word"') == 50
    assert len(re.findall(rb"(?m)^[0-9a-f]+\r\n", received)) < 10
