"""A client that goes away: its upstream request is cancelled, and nothing stays behind."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

from fixtures.server import Reply, Upstream
from tests.live import responses, wire
from tests.live.chat import CONTROLS, Chat
from tests.live.mitmdump import ADDON, Mitmdump
from tests.repair.streams import chunk, sse
from tests.waiting import eventually

CLIENTS = 100
STREAM = sse([chunk({"content": f"word{n} <|tool_"}) for n in range(50)])
ENDLESS = sse([chunk({"content": f"word{n} <|tool_"}) for n in range(3000)])
"""At that pace it lasts a minute."""
GetMitmdump = Callable[..., Mitmdump]
_keys = itertools.count()
JOBS = {
    "bridge": ("/v1/responses", responses.REQUEST),
    "repair": ("/v1/chat/completions", {"stream": True, "messages": []}),
}
MOMENTS = {
    # what the upstream does, and what the client has read when it leaves
    "before the headers": (";fault=silence", b""),
    "in a silent stream": (";cut=event;abort=500;fault=silence", b"word0"),
    "in a running stream": (";cut=event;pace=0.02", b"word1"),
}

ENDED = sse([chunk({"content": "Hi.<|tool_calls_section_end|>"}), chunk({}, "stop")])
"""Its marker is taken out, on record."""
ENDS = {"bridge": b"event: response.completed", "repair": b"data: [DONE]"}


@pytest.fixture(params=[False, True], ids=["HTTP/1.1 upstream", "HTTP/2 upstream"])
def chat(
    request: pytest.FixtureRequest,
    plain_upstream: Upstream,
    tls_upstream: Upstream,
    mitmdump: GetMitmdump,
) -> Chat:
    upstream = tls_upstream if request.param else plain_upstream
    settings = ["dragoman_bridge=~all", "dragoman_heartbeat=0.2"]
    settings.append(f"test_upstream_http2={str(request.param).lower()}")
    arguments = [word for setting in settings for word in ("--set", setting)]
    arguments += ["--mode", f"reverse:{upstream.url}"]
    upstream.replies |= {"leaving": Reply(ENDLESS), "staying": Reply(STREAM)}
    return Chat(upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


def leave(chat: Chat, job: str, moment: str, *, ask: Ask) -> str:
    """Ask, read until that moment, and go; returns the key of the request upstream."""
    options, until = MOMENTS[moment]
    key = f"left{next(_keys)}x"
    path, request = JOBS[job]
    with ask(chat.proxy.port, f"/leaving;key={key}{options}{path}", request) as pieces:
        got = b""
        while until not in got:
            got += next(pieces)
        eventually(lambda: chat.upstream.requests_of("leaving", key), "the request upstream")
    return key


@contextlib.contextmanager
def _http1(port: int, path: str, request: object) -> Iterator[Iterator[bytes]]:
    """Goes by closing the connection."""
    body = json.dumps(request).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), wire.TIMEOUT) as connection:
        connection.sendall(head.encode() + body)
        yield iter(lambda: connection.recv(65536), b"")


@contextlib.contextmanager
def _http2(
    port: int, path: str, request: object, *, resets: bool = True
) -> Iterator[Iterator[bytes]]:
    """Goes by resetting the stream, and the connection stays a little longer; or by closing the
    connection."""
    body = json.dumps(request).encode()
    speaker = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    speaker.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", path)]
    speaker.send_headers(1, [*headers, ("content-length", str(len(body)))])
    speaker.send_data(1, body, end_stream=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("127.0.0.1", port), wire.TIMEOUT) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as connection,
    ):
        connection.sendall(speaker.data_to_send())
        yield _bodies(speaker, connection)
        if resets:
            speaker.reset_stream(1, h2.errors.ErrorCodes.CANCEL)
            connection.sendall(speaker.data_to_send())
            time.sleep(0.1)


def _bodies(speaker: h2.connection.H2Connection, connection: ssl.SSLSocket) -> Iterator[bytes]:
    while data := connection.recv(65536):
        for event in speaker.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                speaker.acknowledge_received_data(event.flow_controlled_length, 1)
                yield event.data
        connection.sendall(speaker.data_to_send())


Ask = Callable[[int, str, object], AbstractContextManager[Iterator[bytes]]]
WAYS: dict[str, Ask] = {
    "HTTP/1.1": _http1,
    "HTTP/2": _http2,
    "HTTP/2, its connection": functools.partial(_http2, resets=False),
}
SAID = {
    "HTTP/1.1": "Client disconnected",
    "HTTP/2": "stream reset by client (CANCEL)",
    "HTTP/2, its connection": "peer closed connection",
}


def has_left(upstream: Upstream, key: str) -> bool:
    return any(f"key={key};" in request.path for request in list(upstream.left))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("job", JOBS)
def test_the_request_upstream_is_cancelled(chat: Chat, job: str, moment: str, way: str) -> None:
    key = leave(chat, job, moment, ask=WAYS[way])
    eventually(lambda: has_left(chat.upstream, key), "the upstream is told")
    log = chat.proxy.wait_for_log(f"key={key};.*: ✗ client left · {job}")
    (line,) = [line for line in log.splitlines() if f"key={key};" in line]
    assert SAID[way] in line
    assert "crashed" not in log


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
@pytest.mark.parametrize("job", JOBS)
def test_a_turn_is_whole_whose_client_leaves_after_its_end(
    chat: Chat, job: str, http2: bool
) -> None:
    """As openai-python does, which closes the connection at ``[DONE]``."""
    chat.upstream.replies["ended"] = Reply(ENDED + b"\n")  # which is never sent to its end
    key = f"ended{next(_keys)}x"
    path, request = JOBS[job]
    options = f";key={key};cut=at:{len(ENDED)};hold=1"
    ask = _http2 if http2 else _http1
    with ask(chat.proxy.port, f"/ended{options}{path}", request | {"model": "kimi-k2.5"}) as pieces:
        got = b""
        while ENDS[job] not in got:
            got += next(pieces)
    eventually(lambda: has_left(chat.upstream, key), "the upstream is told")
    log = chat.proxy.wait_for_log(f"key={key};.*: ✓ text")
    assert "client left" not in log and "Client disconnected" not in log


def test_a_client_that_leaves_takes_nobody_with_it(chat: Chat) -> None:
    """The other streams of its connection to the upstream, if there is one for all."""
    with ThreadPoolExecutor(6) as pool:
        asked = [
            pool.submit(
                chat.ask,
                "staying",
                f";key=stays{n}x;cut=event;hold=9",
                path=path,
                request=request | {"stream": True},
            )
            for n, (path, request) in enumerate(JOBS.values())
        ]
        for n, _ in enumerate(asked):
            key = f"stays{n}x"
            eventually(lambda key=key: chat.upstream.requests_of("staying", key))
        for ask in (_http1, _http2):
            leave(chat, "bridge", "in a running stream", ask=ask)
        chat.upstream.release("staying")
        for reply in asked:
            assert reply.result().complete


def test_nothing_stays_behind(chat: Chat) -> None:
    def held() -> dict[str, int]:
        return json.loads(chat.control("held").body)

    kinds = itertools.cycle(itertools.product(JOBS, MOMENTS, (False, True)))

    def one(kind: tuple[str, str, bool]) -> None:
        leave(chat, kind[0], kind[1], ask=_http2 if kind[2] else _http1)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(one, itertools.islice(kinds, 20)))  # what is made once is there now
        eventually(lambda: held()["timers"] <= 1, "no timer is left")
        before = held()
        list(pool.map(one, itertools.islice(kinds, CLIENTS)))
    few = dict.fromkeys(before, 2) | {"files": before["files"] + 2}
    eventually(lambda: all(n <= few[name] for name, n in held().items()), f"{before}, {held()}")
