"""An upstream that fails, whatever the way and the moment: the client learns of it, once.

A stream breaks off as the upstream's did: else opencode sends its request again for ever, and
others give the task up or wait.  So every fault meets every job at every moment, over each version
of HTTP.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live import responses
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
CERTAIN = "Said. Held "
SAID = CERTAIN + "<|tool_ no marker. "
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
    """Whether every fault is tried at every moment here, or at one."""

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
    """Every fault at every moment over the routes of `every`; over each of the others every
    fault once, at another moment."""
    cases = [
        pytest.param(route, job, f"{options};abort={at}", at, id=f"{route}-{job}-{fault}-{moment}")
        for nth, route in enumerate(ROUTES)
        for job in jobs
        for number, (fault, options) in enumerate(FAULTS[route.upstream].items(), nth)
        for place, (moment, at) in enumerate(moments.items())
        if route.every or place == number % len(moments)
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
def test_a_bridged_stream_breaks_off_or_is_whole(
    client: Client, job: str, options: str, at: int
) -> None:
    whole = at < 0 or at >= MOMENTS["after the finish reason"]
    exchange = client.ask(job, ";cut=event" + options, complete=whole)
    if at < 0:
        check_unanswered(client, exchange)
        return
    check_line(client)
    if whole:
        story = exchange.story()
        assert story.response["status"] == "completed"
        assert text_of(story.response) == SAID
        assert calls_of(story.response) == [("bash", {"command": "ls"})]
        return
    check_line(client, "✗ connection broken · bridge .*: The upstream broke off: |broke off: ")
    check_bridged(exchange, at)


def check_bridged(exchange: Exchange, at: int) -> None:
    """All that came has arrived, and nothing that was open then is done."""
    story = exchange.broken_off()
    came = STREAM[:at]
    said = SAID if b'no marker. "' in came else CERTAIN if b"Held" in came else ""
    assert story.deltas.get(0, "") == said
    assert not story.items


@matrix(["repair stream"], MOMENTS)
def test_a_repaired_stream_gives_what_is_certain_and_breaks_off(
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
    assert got.content == {0: "", MOMENTS["within a frame"]: CERTAIN}.get(at, SAID)
    assert not any(got.finish)


@matrix(["bridge whole", "repair whole"], PARTS)
def test_a_reply_that_is_read_whole_becomes_an_http_error(
    client: Client, job: str, options: str, at: int
) -> None:
    assert at <= len(WHOLE)
    check_unanswered(client, client.ask(job, options))


EARLY = "The upstream's stream ended without a finish reason."


# An upstream that hangs.

PATIENCE = 2
"""Seconds; mitmproxy's own are 600."""
HANGS = {
    "before the headers": -1,
    "after the headers": 0,
    "within a call": MOMENTS["within a call"],
}


@pytest.mark.parametrize(("heartbeat", "http2"), [(0, False), (0.5, True)])
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
        complete = not job.endswith("stream") or at < 0
        exchange = client.ask(job, f";fault=silence;abort={at}", complete=complete)
        assert time.monotonic() - begun > PATIENCE - 0.1
        check_line(client, "nothing came from the upstream for 2 seconds")
        eventually(lambda: any(f"key={client.key};" in gone.path for gone in upstream.left))
        return exchange

    with ThreadPoolExecutor(len(jobs)) as pool:
        exchanges = list(pool.map(ask, jobs, itertools.cycle(HANGS.values())))
    for job, moment, exchange in zip(jobs, itertools.cycle(HANGS), exchanges, strict=False):
        if job.endswith("whole") or moment == "before the headers":
            assert exchange.error(502)["code"] == "upstream_unreachable"
        elif job == "bridge stream":
            check_bridged(exchange, HANGS[moment])
            assert len(exchange.broken_off().events) > 3 if heartbeat else True
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
    broken = client.ask("bridge stream", ";cut=event;abort=300;fault=eof", complete=False)
    broken.broken_off()
    # An end that came well cannot be broken off.
    early = chat.ask(STREAM[: MOMENTS["within a frame"]])
    bridged = chat.ask(
        STREAM[: MOMENTS["within a frame"]], path="/v1/responses", request=responses.REQUEST
    )
    assert Exchange(bridged, []).story().response["error"] == {
        "code": "server_error",
        "message": EARLY,
    }
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
