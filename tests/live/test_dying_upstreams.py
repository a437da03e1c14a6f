"""An upstream that fails, whatever the way and the moment: the client learns of it, once.

A Responses client needs its terminal event, a chat client a stream that breaks off as the
upstream's did: else opencode sends its request again for ever, and others give the task up
or wait.  So every fault meets every job at every moment, over both versions of HTTP.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live import responses, wire
from tests.live.chat import CONTROLS, Chat
from tests.live.chat import REQUEST as CHAT_REQUEST
from tests.live.clients import Clients
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.responses import Exchange, calls_of, text_of
from tests.repair.streams import chunk, read, sse
from tests.waiting import eventually

SECTION = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
CALL = SECTION + '<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|>'
STREAM = sse(
    [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Said. Held <|tool_"}),
        chunk({"content": " no marker. "}),
        chunk({"content": CALL + "<|tool_calls_section_end|>"}),
        chunk({}, "stop"),
    ]
)
HELD = "Said. Held <|tool_"
SAID = HELD + " no marker. "
MESSAGE = {"role": "assistant", "content": "Said. " + CALL}
WHOLE = json.dumps(
    {"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]}
).encode()
MOMENTS = {
    "before the headers": -1,
    "after the headers": 0,
    "within a frame": STREAM.index(b" no marker") + 4,
    "within a call": STREAM.index(b"ls"),
    "after the finish reason": STREAM.index(b"data: [DONE]"),
    "after [DONE]": len(STREAM),
}
"""Bytes of the stream after which it breaks off."""
PARTS = {
    "before the headers": -1,
    "after the headers": 0,
    "at its end": len(WHOLE),
    "within": 60,
}
"""The same of a body that is read as a whole."""
FAULTS = {
    "HTTP/1.1": {
        "reset": ";fault=reset",
        "end": ";fault=eof",
        "garbage": ";fault=garbage",
        "end before the length": ";fault=eof;framing=length;length=99999",
    },
    "HTTP/2.0": {
        "reset": ";fault=reset",
        "end": ";fault=eof",
        "garbage": ";fault=garbage",
        "goaway": ";fault=goaway",
        "end before the length": ";fault=eof;framing=length;length=99999",
    },
}
JOBS = ["bridge stream", "bridge whole", "repair stream", "repair whole"]
GetMitmdump = Callable[..., Mitmdump]
_keys = itertools.count()


@dataclass(frozen=True, slots=True)
class Route:
    """How client and upstream reach the proxy."""

    reverse: bool
    client: str
    upstream: str
    every: bool = False
    """Whether every moment is tried here, or two of them."""

    def __str__(self) -> str:
        way = "reverse" if self.reverse else "regular"
        return f"{way} {self.client[5]} to {self.upstream[5]}"


ROUTES = [
    Route(True, "HTTP/1.1", "HTTP/1.1", every=True),
    Route(True, "HTTP/2.0", "HTTP/1.1"),
    Route(True, "HTTP/1.1", "HTTP/2.0"),
    Route(True, "HTTP/2.0", "HTTP/2.0"),
    Route(False, "HTTP/1.1", "HTTP/1.1"),
    Route(False, "HTTP/1.1", "HTTP/2.0"),
    Route(False, "HTTP/2.0", "HTTP/2.0", every=True),
]


@dataclass(frozen=True, slots=True)
class Client:
    """Asks over a route, and knows its own lines of the log."""

    chat: Chat
    http2: bool
    key: str

    def ask(self, job: str, options: str, *, complete: bool = True) -> Exchange:
        """`complete`: whether the reply is to come to its end."""
        body, streamed = (STREAM, True) if job.endswith("stream") else (WHOLE, False)
        reply = Reply(body) if streamed else Reply(body, "application/json")
        path, request = "/v1/chat/completions", {"stream": streamed, "messages": []}
        if job.startswith("bridge"):
            path, request = "/v1/responses", responses.REQUEST | {"stream": streamed}
        options = f";key={self.key}{options}"
        got = self.chat.ask(reply, options, path=path, request=request, http2=self.http2)
        assert got.complete == complete, got
        return Exchange(got, [])

    def logged(self) -> str:
        """The one line of the log about this request's end."""
        log = self.chat.proxy.wait_for_log(f"key={self.key};.*: ")
        return next(line for line in log.splitlines() if f"key={self.key};" in line)


@pytest.fixture
def client(
    mitmdump: GetMitmdump, plain_upstream: Upstream, tls_upstream: Upstream, route: Route
) -> Client:
    http2 = route.upstream == "HTTP/2.0"
    upstream = plain_upstream if route.reverse and not http2 else tls_upstream
    arguments = ["--set", "dragoman_bridge=~all", "--set", "dragoman_heartbeat=0"]
    arguments += ["--mode", f"reverse:{upstream.url}"] if route.reverse else []
    arguments += ["--set", f"test_upstream_http2={str(http2).lower()}"]
    proxy = mitmdump(*arguments, scripts=(ADDON, CONTROLS))
    chat = Chat(upstream, proxy, reverse=route.reverse)
    return Client(chat, route.client == "HTTP/2.0", f"f{next(_keys)}f")


def matrix(jobs: list[str], moments: dict[str, int]) -> pytest.MarkDecorator:
    few = list(moments.items())[::3]
    cases = [
        pytest.param(route, job, f"{options};abort={at}", at, id=f"{route}-{job}-{fault}-{moment}")
        for route in ROUTES
        for job in jobs
        for fault, options in FAULTS[route.upstream].items()
        for moment, at in (moments.items() if route.every else few)
    ]
    return pytest.mark.parametrize(("route", "job", "options", "at"), cases)


def check_unanswered(client: Client, exchange: Exchange) -> None:
    """The HTTP error of an upstream that gave no answer: clients try again."""
    error = exchange.error(502)
    assert error["code"] == "upstream_unreachable"
    assert error["message"].startswith("The upstream gave no answer: ")
    check_line(client)


def check_line(client: Client, what: str = "") -> None:
    """A person can read from it what went wrong with what."""
    line = client.logged()
    assert re.search(what or WHAT_HAPPENED, line), line


WHAT_HAPPENED = (
    "server closed connection|peer closed connection|unexpected server response|protocol error"
    r"|stream reset by server|connection closed|Cannot parse HTTP response"
)


@matrix(["bridge stream"], MOMENTS)
def test_a_bridged_stream_has_one_terminal(client: Client, job: str, options: str, at: int) -> None:
    exchange = client.ask(job, ";cut=event" + options)
    if at < 0:
        check_unanswered(client, exchange)
        return
    check_line(client)
    story = exchange.story()
    if at >= MOMENTS["after the finish reason"]:
        assert story.response["status"] == "completed"
        assert text_of(story.response) == SAID
        assert calls_of(story.response) == [("bash", {"command": "ls"})]
        return
    assert story.response["status"] == "failed"
    error = story.response["error"]
    assert error["code"] == "server_error"  # Codex tries again
    assert error["message"].startswith("The upstream broke off: ")
    if at == MOMENTS["within a frame"]:
        assert text_of(story.response) == HELD
    elif at == MOMENTS["within a call"]:
        assert text_of(story.response) == SAID
    if story.items:
        assert story.items[-1]["status"] == "incomplete"


@matrix(["repair stream"], MOMENTS)
def test_a_repaired_stream_releases_what_it_holds_and_breaks_off(
    client: Client, job: str, options: str, at: int
) -> None:
    whole = at < 0 or at >= MOMENTS["after the finish reason"]
    exchange = client.ask(job, ";cut=event" + options, complete=whole)
    if at < 0:
        check_unanswered(client, exchange)
        return
    check_line(client)
    body = exchange.reply.body
    if whole:
        assert body.endswith(b"\n\ndata: [DONE]\n\n")
        assert body.count(b"[DONE]") == 1 and b"error" not in body
        assert read(body).content == SAID
        assert [call["name"] for call in read(body).calls] == ["bash"]
        return
    check_broken_off(body, at)


def check_broken_off(body: bytes, at: int) -> None:
    """All whole events have arrived, and nothing that would be an end."""
    assert not body or body.endswith(b"\n\n")
    assert b"error" not in body and b"[DONE]" not in body
    got = read(body)
    assert got.content == {0: "", MOMENTS["within a frame"]: HELD}.get(at, SAID)
    assert not any(got.finish)


@matrix(["bridge whole", "repair whole"], PARTS)
def test_a_reply_that_is_read_whole_becomes_an_http_error(
    client: Client, job: str, options: str, at: int
) -> None:
    assert at <= len(WHOLE)
    check_unanswered(client, client.ask(job, options))


EARLY = "The upstream closed the stream before it ended the turn."
EARLY_ENDS = {
    "empty": 0,
    "between two events": STREAM.index(b'data: {"id"', STREAM.index(b"Held")),
    "within a frame": MOMENTS["within a frame"],
    "before a blank line": STREAM.index(b"\n\n", MOMENTS["within a frame"]),
    "within a blank line": STREAM.index(b"\n\n", MOMENTS["within a frame"]) + 1,
    "within a call": MOMENTS["within a call"],
}
FRAMINGS = ["chunked", "length", "close"]


@pytest.fixture
def plain(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Chat:
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    return Chat(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("at", EARLY_ENDS.values(), ids=EARLY_ENDS)
def test_a_bridged_stream_that_ends_early_and_well_has_its_terminal(
    plain: Chat, at: int, framing: str
) -> None:
    """With `close` no client can tell: that is how such a body always ends."""
    reply, options = Reply(STREAM[:at]), f";framing={framing}"
    bridged = plain.ask(reply, options, path="/v1/responses", request=responses.REQUEST)
    story = Exchange(bridged, []).story()
    assert story.response["error"]["code"] == "server_error"


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
    assert STREAM[:at].startswith(got.body.partition(b"Held")[0])
    check_broken_off(
        got.body, MOMENTS["within a frame"] if 0 < at < MOMENTS["within a call"] else at
    )
    plain.proxy.wait_for_log(f"{options[-6:]}.*: {EARLY}")


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


# Where no connection comes about.


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """The address of a server that accepts, says `answer` and closes; None: refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if answer is None:
            server.close()
            yield address
            return
        stopped = threading.Event()
        thread = threading.Thread(target=_serve, args=(server, answer, stopped))
        thread.start()
        try:
            yield address
        finally:
            stopped.set()
            thread.join()


def _serve(server: socket.socket, answer: bytes, stopped: threading.Event) -> None:
    server.settimeout(0.05)
    while not stopped.is_set():
        with contextlib.suppress(TimeoutError), server.accept()[0] as connection:
            connection.sendall(answer)


UNREACHABLE = {
    # scheme, what listens there, what the log says
    "refused": ("http", None, "Connect call failed"),
    "closed at once": ("http", b"", "server closed connection"),
    "TLS refused": ("https", None, "Connect call failed"),
    "TLS closed at once": ("https", b"", "TLS|EOF|closed"),
    "no TLS": ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "TLS|record"),
}


@pytest.mark.parametrize("how", UNREACHABLE)
def test_an_upstream_that_cannot_be_reached(mitmdump: GetMitmdump, how: str) -> None:
    scheme, answer, cause = UNREACHABLE[how]
    arguments = "--set", "dragoman_bridge=~all"
    with listening(answer) as address:
        proxy = mitmdump(*arguments, "--mode", f"reverse:{scheme}://{address}")
        check_unreachable(proxy, proxy.url, None, cause)
        if scheme == "https":
            # Otherwise mitmproxy itself answers CONNECT.
            proxy = mitmdump(*arguments, "--set", "connection_strategy=lazy")
            check_unreachable(proxy, f"https://{address}", proxy.url, cause)


def check_unreachable(proxy: Mitmdump, base: str, via: str | None, cause: str) -> None:
    for path, stream in itertools.product(["responses", "chat/completions"], [True, False]):
        body = json.dumps(responses.REQUEST | {"stream": stream, "messages": []}).encode()
        exchange = Exchange(wire.exchange(f"{base}/v1/{path}", body, proxy=via), [])
        error = exchange.error(502)
        assert error["code"] == "upstream_unreachable"
        assert re.search(cause, error["message"]), error
    eventually(lambda: len(re.findall(f"v1/chat/completions: .*({cause})", proxy.log)) == 4)


def test_an_upstream_whose_certificate_is_not_trusted(
    tls_upstream: Upstream, tmp_path: Path
) -> None:
    make_confdir(tmp_path)
    arguments = "--mode", f"reverse:{tls_upstream.url}", "--set", "dragoman_bridge=~all"
    with Mitmdump(tmp_path, *arguments, scripts=(ADDON, CONTROLS)) as proxy:
        Chat(tls_upstream, proxy).control("options", ssl_insecure=False)
        check_unreachable(proxy, proxy.url, None, "Certificate verify failed")
        proxy.check_log()


# An upstream that hangs.

PATIENCE = 2
"""Seconds; mitmproxy's own are 600."""
HANGS = {
    "before the headers": -1,
    "after the headers": 0,
    "within a call": MOMENTS["within a call"],
}


@pytest.mark.parametrize("heartbeat", [0, 0.5])
@pytest.mark.parametrize("http2", [False, True], ids=["1 to 1", "2 to 2"])
def test_an_upstream_that_is_silent_for_too_long_is_given_up(
    plain_upstream: Upstream,
    tls_upstream: Upstream,
    mitmdump: GetMitmdump,
    heartbeat: float,
    http2: bool,
) -> None:
    """Heartbeats would keep a client waiting for ever; without them mitmproxy's watchdog
    would close its connection without a word."""
    upstream = tls_upstream if http2 else plain_upstream
    settings = [f"dragoman_heartbeat={heartbeat}", "dragoman_bridge=~all"]
    settings += [f"test_upstream_http2={str(http2).lower()}", f"test_patience={PATIENCE}"]
    arguments = [word for setting in settings for word in ("--set", setting)]
    proxy = mitmdump(*arguments, "--mode", f"reverse:{upstream.url}", scripts=(ADDON, CONTROLS))
    chat = Chat(upstream, proxy)
    jobs = [job for job in JOBS for _ in HANGS]

    def ask(job: str, at: int) -> Exchange:
        client = Client(chat, http2, f"h{next(_keys)}h")
        begun = time.monotonic()
        complete = job != "repair stream" or at < 0
        exchange = client.ask(job, f";fault=silence;abort={at}", complete=complete)
        assert PATIENCE - 0.1 < time.monotonic() - begun < 10 * PATIENCE
        check_line(client, "nothing came from the upstream for 2 seconds")
        eventually(lambda: any(f"key={client.key};" in gone.path for gone in upstream.left))
        return exchange

    with ThreadPoolExecutor(len(jobs)) as pool:
        exchanges = list(pool.map(ask, jobs, itertools.cycle(HANGS.values())))
    for job, moment, exchange in zip(jobs, itertools.cycle(HANGS), exchanges, strict=False):
        if job.endswith("whole") or moment == "before the headers":
            assert exchange.error(502)["code"] == "upstream_unreachable"
        elif job == "bridge stream":
            story = exchange.story()
            assert story.response["error"]["code"] == "server_error"
            assert len(story.events) > 6 if heartbeat else True
        else:
            body = exchange.reply.body
            assert (b": waiting" in body) == bool(heartbeat)
            check_broken_off(body, HANGS[moment])


# Without what cannot be done where mitmproxy's internals have changed.

WITHOUT = ROOT / "tests" / "live" / "without_layer.py"


def test_all_else_works_without_the_stream_layer(plain_upstream: Upstream, tmp_path: Path) -> None:
    make_confdir(tmp_path)
    arguments = ["--set", "dragoman_bridge=~all", "--mode", f"reverse:{plain_upstream.url}"]
    with Mitmdump(tmp_path, *arguments, scripts=(WITHOUT, ADDON)) as proxy:
        check_without_layer(plain_upstream, proxy)
        assert len(re.findall("mitmproxy has no HttpStream.check_body_size", proxy.log)) == 1
        proxy.check_log()


def check_without_layer(plain_upstream: Upstream, proxy: Mitmdump) -> None:
    chat = Chat(plain_upstream, proxy)
    client = Client(chat, False, f"w{next(_keys)}w")
    story = client.ask("bridge stream", ";cut=event;pace=0.02").story()
    assert calls_of(story.response) == [("bash", {"command": "ls"})]
    assert client.ask("bridge whole", "").json["output"][0]["type"] == "message"
    got = client.ask("repair stream", ";cut=event").reply
    assert [call["name"] for call in read(got.body).calls] == ["bash"]
    broken = chat.ask(STREAM, ";cut=event;abort=300")
    assert not broken.complete
    # An end that came well cannot be broken off.
    early = chat.ask(STREAM[: MOMENTS["within a frame"]])
    assert early.complete
    error = json.loads(early.body.removesuffix(b"\n\n").rpartition(b"data: ")[2])["error"]
    assert (error["message"], error["type"], error["code"]) == (EARLY, *["server_error"] * 2)


# Official clients.

SCRIPTS = {"python": "openai_python.py", "node": "openai_node.mjs"}
HOWS = ["chat.create", "chat.create stream", "responses.create", "responses.stream"]


@pytest.fixture(params=SCRIPTS.values(), ids=SCRIPTS)
def ask(
    request: pytest.FixtureRequest, mitmdump: GetMitmdump, clients: Clients
) -> Callable[..., dict[str, Any]]:
    proxy = mitmdump("--set", "dragoman_bridge=~all")
    return clients.get(request.param, proxy.client_environment()).ask


@pytest.mark.parametrize("moment", ["before the headers", "within a call"])
@pytest.mark.parametrize("how", HOWS)
def test_official_clients_see_an_exception(
    tls_upstream: Upstream, ask: Callable[..., dict[str, Any]], how: str, moment: str
) -> None:
    name = f"dying{next(_keys)}"
    streamed = "stream" in how
    body = Reply(STREAM) if streamed else Reply(WHOLE, "application/json")
    tls_upstream.replies[name] = body
    at = MOMENTS[moment] if streamed else min(MOMENTS[moment], 60)
    base_url = f"{tls_upstream.url}/{name};cut=event;fault=eof;abort={at}/v1"
    request = responses.REQUEST if how.startswith("responses") else CHAT_REQUEST
    with pytest.raises(pytest.fail.Exception) as failure:
        ask(how, base_url, {k: v for k, v in request.items() if k != "stream"})
    told = str(failure.value)
    assert "gave no answer in" not in told, "it hangs"
    expected = "terminated|peer closed connection|didn.t receive" if at > 0 else "APIError|502"
    assert re.search(expected, told, re.IGNORECASE), told
