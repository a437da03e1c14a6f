"""A reply without an end: the proxy's memory stays bounded, and no client waits for ever."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from fixtures.server import Upstream
from tests.live import responses, wire
from tests.live.chat import CONTROLS, Chat
from tests.live.chat import REQUEST as CHAT_REQUEST
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.raw import read_request, serving
from tests.repair.streams import chunk

MEGABYTE = 1024 * 1024
MEMORY_LIMIT = 320 * MEGABYTE
"""Of the whole process, which begins with some 80 MB."""
TWO_LIMIT = 500 * MEGABYTE
"""With two of the worst at once, which take 400 MB: six take 900 MB."""
LONG = 200 * MEGABYTE
JSON_START = b'{"id": "chatcmpl-1", "choices": [{"message": {"content": "'


def event(delta: dict[str, Any], **choice: Any) -> bytes:
    value = chunk(delta)
    value["choices"][0] |= choice
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta_of(arguments: str, index: int = 0, **function: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments, **function}}]}


LOGPROBS = {"content": [{"token": "x", "logprob": -1.5, "bytes": [120], "top_logprobs": []}] * 100}
FIRST = event(delta_of('{"a": "', name="bash"))
STREAMS = {
    "text": (b"", event({"content": "x" * 4000})),
    "arguments of a second call": (FIRST, event(delta_of("x" * 4000, 1, name="read"))),
    "log probabilities": (b"", event({"content": ""}, logprobs=LOGPROBS)),
}
"""One for each bound; `tests/bridge/test_reply_bounds.py` has all that may come without end."""


class Endless:
    """A host that sends the same again and again, some hundred megabytes of it."""

    def __init__(self) -> None:
        self.url = ""
        self.status, self.kind = 200, "application/json"
        self.start, self.again = JSON_START, b"x" * 65536
        self.sent_on: threading.Event | None = None
        """If it is there, the reply has a length, and after its start nothing comes before this
        is set."""

    def serve(self, connection: socket.socket) -> None:
        read_request(connection.makefile("rb"))
        head = f"HTTP/1.1 {self.status} X\r\ncontent-type: {self.kind}\r\n"
        if self.sent_on is not None:
            length = f"content-length: {len(self.start) + LONG}\r\n\r\n"
            connection.sendall((head + length).encode() + self.start)
            self.sent_on.wait()
            for _ in range(LONG // MEGABYTE):
                connection.sendall(b"x" * MEGABYTE)
            return
        connection.sendall(head.encode() + b"transfer-encoding: chunked\r\n\r\n")
        again = self.again * max(1, 65536 // len(self.again))
        for piece in itertools.chain([self.start], itertools.repeat(again, LONG // len(again))):
            if piece:
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")


@pytest.fixture
def endless() -> Iterator[Endless]:
    host = Endless()
    with serving(host.serve) as host.url:
        yield host


@pytest.fixture
def chat(endless: Endless, mitmdump: Callable[..., Mitmdump]) -> Chat:
    """A mitmdump of its own, whose peak of memory is that of the test."""
    options = ["dragoman_bridge=~all", "dragoman_store=memory", "stream_large_bodies=1m"]
    arguments = [word for option in options for word in ("--set", option)]
    proxy = mitmdump(*arguments, "--mode", f"reverse:{endless.url}", scripts=(ADDON, CONTROLS))
    return Chat(Upstream(), proxy)


def ask(chat: Chat, path: str, request: dict[str, Any]) -> wire.Reply:
    got = wire.exchange(f"{chat.proxy.url}{path}", json.dumps(request).encode())
    assert int(chat.control("memory").body) < MEMORY_LIMIT
    return got


def test_repair_passes_on_what_is_too_large(chat: Chat, endless: Endless) -> None:
    got = ask(chat, "/v1/chat/completions", CHAT_REQUEST | {"stream": False})
    assert (got.status, got.complete) == (200, True)
    assert len(got.body) > LONG - MEGABYTE
    assert got.body == endless.start + endless.again * (LONG // 65536)
    chat.proxy.wait_for_log("not repaired")


@pytest.mark.parametrize(("status", "stream"), [(200, False), (500, False), (500, True)])
def test_the_bridge_refuses_what_is_too_large(
    chat: Chat, endless: Endless, status: int, stream: bool
) -> None:
    endless.status = status
    got = ask(chat, "/v1/responses", responses.REQUEST | {"stream": stream})
    assert (got.status, got.complete) == (502, True)
    assert json.loads(got.body)["error"]["code"] == "upstream_too_large"


@pytest.mark.parametrize("stream", [False, True])
def test_the_bridge_refuses_what_announces_that_it_is_too_large(
    chat: Chat, endless: Endless, stream: bool
) -> None:
    endless.status = 500 if stream else 200
    endless.sent_on = threading.Event()
    try:
        got = ask(chat, "/v1/responses", responses.REQUEST | {"stream": stream})
        assert (got.status, got.complete) == (502, True)
        assert json.loads(got.body)["error"]["code"] == "upstream_too_large"
    finally:
        endless.sent_on.set()


def test_repair_passes_on_what_announces_that_it_is_too_large(chat: Chat, endless: Endless) -> None:
    endless.sent_on = threading.Event()
    body = json.dumps(CHAT_REQUEST | {"stream": False}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    address = "127.0.0.1", urlsplit(chat.proxy.url).port
    try:
        with socket.create_connection(address, 20) as connection:
            connection.sendall(head.encode() + body)
            stream = connection.makefile("rb")
            while stream.readline().strip():
                pass
            assert stream.read(len(JSON_START)) == JSON_START
            endless.sent_on.set()
            rest = stream.read(LONG)
            assert len(rest) == rest.count(b"x") == LONG
    finally:
        endless.sent_on.set()
    chat.proxy.wait_for_log("not repaired")
    assert int(chat.control("memory").body) < MEMORY_LIMIT


def test_json_without_end_for_a_stream(chat: Chat) -> None:
    got = ask(chat, "/v1/responses", responses.REQUEST)
    story = responses.Exchange(got, []).story()
    assert story.response["error"]["code"] == "server_error"


@pytest.mark.parametrize("what", STREAMS)
def test_a_stream_without_end_is_a_turn_that_fails(chat: Chat, endless: Endless, what: str) -> None:
    endless.kind = "text/event-stream"
    endless.start, endless.again = STREAMS[what]
    got = ask(chat, "/v1/responses", responses.REQUEST)
    assert got.complete
    last = got.body.rstrip().rpartition(b"event: ")[2]
    assert last.startswith(b"response.failed\n")
    assert json.loads(last.partition(b"data: ")[2])["response"]["error"]["code"] == "server_error"


MANY_LOGPROBS = {"content": [{**LOGPROBS["content"][0], "top_logprobs": LOGPROBS["content"][:20]}]}
CHAT_PATH, RESPONSES_PATH = "/v1/chat/completions", "/v1/responses"
WORST = {
    "log probabilities of text": (
        RESPONSES_PATH,
        ("text/event-stream", b"", event({"content": "x"}, logprobs=MANY_LOGPROBS)),
    ),
    "an event without end": (CHAT_PATH, ("text/event-stream", b'data: {"id": "', b"x" * 65536)),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", WORST)
def test_many_at_once_leave_room_on_a_laptop(chat: Chat, endless: Endless, what: str) -> None:
    path, (endless.kind, endless.start, endless.again) = WORST[what]
    request = (responses.REQUEST if path == RESPONSES_PATH else CHAT_REQUEST) | {"stream": True}
    body = json.dumps(request).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    head += f"content-length: {len(body)}\r\n\r\n"
    address = "127.0.0.1", urlsplit(chat.proxy.url).port

    def take(_: int) -> int:
        """As much as is read of a reply, or all of it."""
        with socket.create_connection(address, 120) as connection:
            connection.sendall(head.encode() + body)
            taken = 0
            while taken < 24 * MEGABYTE and (piece := connection.recv(MEGABYTE)):
                taken += len(piece)
            return taken

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(take, range(2)))
    used = int(chat.control("memory").body)
    print(what, used // MEGABYTE, "MB")
    assert used < TWO_LIMIT
