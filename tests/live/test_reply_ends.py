"""A bridged reply ends when its turn does, whatever its upstream's stream does then."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman.proxy.flows.bridge_reply import TURN_END
from dragoman.responses.dialects import DIALECTS
from dragoman.wire.sse import FrameSplitter
from fixtures.server import Reply, Upstream
from tests.bridge.grammar import check
from tests.live import responses
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.live.raw import read_request, serving
from tests.live.responses import Exchange, text_of
from tests.repair.streams import chunk, sse

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
TEXT = [chunk({"role": "assistant", "content": "Done."})]
FINISH = chunk({}, "stop")
COUNTED = chunk({}) | {"choices": [], "usage": USAGE}
WHOLE = sse([*TEXT, FINISH, COUNTED])
WITHOUT_DONE = WHOLE.removesuffix(b"data: [DONE]\n\n")
FOR_EVER = 3600
"""Seconds."""
GetMitmdump = Callable[..., Mitmdump]


@pytest.fixture(params=["1 to 1", "2 to 2", "1 to 2"])
def route(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(
    plain_upstream: Upstream, tls_upstream: Upstream, mitmdump: GetMitmdump
) -> Callable[..., Chat]:
    """Gives a chat over a route, with responses kept or not; the end of a turn is waited for
    so many seconds."""

    def get(route: str = "1 to 1", store: str = "memory", turn_end: float = TURN_END) -> Chat:
        upstream = tls_upstream if route.endswith("2") else plain_upstream
        options = ["dragoman_bridge=~all", f"dragoman_store={store}"]
        options.append(f"test_constants=proxy.flows.bridge_reply.TURN_END={turn_end}")
        options.append(f"test_upstream_http2={str(route.endswith('2')).lower()}")
        arguments = [word for option in options for word in ("--set", option)]
        arguments += ["--mode", f"reverse:{upstream.url}"]
        return Chat(upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))

    return get


def ask(chat: Chat, stream: bytes, options: str, **more: Any) -> Exchange:
    reply = Reply(stream)
    got = chat.ask(reply, options, path="/v1/responses", request=responses.REQUEST, **more)
    return Exchange(got, [])


@pytest.mark.parametrize("store", ["memory", "off"])
def test_a_reply_ends_with_its_terminal_event(
    start: Callable[..., Chat], route: str, store: str
) -> None:
    held_open = f";abort={len(WHOLE)};fault=silence"
    chat = start(route, store, turn_end=FOR_EVER)
    story = ask(chat, WHOLE, held_open, http2=route[0] == "2").story()
    assert text_of(story.response) == "Done."
    assert story.response["usage"]["total_tokens"] == 5


def test_what_an_upstream_sends_after_the_end_of_its_turn_is_not_read(
    start: Callable[..., Chat],
) -> None:
    rest = b": and so on\n\n" * 200
    stream = WHOLE + rest
    offsets = [len(WHOLE), *range(len(WHOLE) + 13, len(stream), 13)]
    chat = start()
    cut = f";cut=at:{','.join(map(str, offsets))}"
    exchange = ask(chat, stream, f"{cut};pace=0.01;hold=100")
    assert text_of(exchange.story().response) == "Done."
    chat.proxy.wait_for_log("server disconnect")


def test_a_finish_reason_ends_a_turn_whose_stream_does_not_end(
    start: Callable[..., Chat], route: str
) -> None:
    held_open = f";abort={len(WITHOUT_DONE)};fault=silence"
    # As long as it is for everybody on the first of the routes.
    turn_end = TURN_END if route == "1 to 1" else 1
    chat = start(route, turn_end=turn_end)
    began = time.monotonic()
    story = ask(chat, WITHOUT_DONE, held_open, http2=route[0] == "2").story()
    assert time.monotonic() - began > turn_end - 0.1
    assert story.response["status"] == "completed"
    assert story.response["usage"]["total_tokens"] == 5


def test_usage_that_comes_late_is_counted(start: Callable[..., Chat]) -> None:
    at = WITHOUT_DONE.rindex(b"data: ")
    ended = b"response.output_item.done"
    exchange = ask(
        start(turn_end=FOR_EVER), WHOLE, f";cut=at:{at};hold=1", release_when=lambda b: ended in b
    )
    assert exchange.story().response["usage"]["total_tokens"] == 5


def test_comments_do_not_keep_a_turn_open(start: Callable[..., Chat]) -> None:
    chat, stream = start(turn_end=1), WITHOUT_DONE + b": waiting\n\n" * 10_000
    exchange = ask(chat, stream, ";cut=event;pace=0.3")  # for an hour
    assert exchange.story().response["status"] == "completed"


def test_a_turn_without_a_finish_reason_is_waited_for(start: Callable[..., Chat]) -> None:
    stream = sse([*TEXT, chunk({"content": " Really."}), FINISH])
    at = stream.index(b"data: ", 10)
    exchange = ask(start(turn_end=1), stream, f";cut=at:{at};pace=1.5")
    assert text_of(exchange.story().response) == "Done. Really."


@pytest.fixture
def counting_upstream() -> Iterator[tuple[str, list[int]]]:
    """A host that sends each reply's end 10 ms after its `[DONE]`, or, at `/open…`, never; it
    counts the requests of each of its connections."""
    counts: list[int] = []

    def serve(connection: socket.socket) -> None:
        counts.append(0)
        number, stream = len(counts) - 1, connection.makefile("rb")
        while line := read_request(stream):
            counts[number] += 1
            connection.sendall(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(WHOLE), WHOLE)
            )
            if b"/open" in line:
                continue
            time.sleep(0.01)
            connection.sendall(b"0\r\n\r\n")

    with serving(serve) as url:
        yield url, counts


def test_connections_are_kept_on_both_sides(
    counting_upstream: tuple[str, list[int]], mitmdump: GetMitmdump
) -> None:
    url, counts = counting_upstream
    proxy = mitmdump("--set", "dragoman_bridge=~all", "--mode", f"reverse:{url}")
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    client.connect()
    own = client.sock.getsockname()
    for path in ("/v1", "/v1", "/open/v1", "/v1", "/v1"):
        body: dict[str, Any] = responses.REQUEST
        client.request("POST", f"{path}/responses", json.dumps(body), {"content-type": "text/json"})
        reply = client.getresponse()
        story = check(FrameSplitter().feed(reply.read()), DIALECTS["openai"])
        assert story.response["status"] == "completed"
        assert client.sock is not None
        assert client.sock.getsockname() == own
    client.close()
    assert counts == [3, 2]
