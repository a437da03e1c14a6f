"""Repair over every transport: what arrives, and that it arrives at once."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from fixtures.server import Reply, Upstream
from tests.live import wire
from tests.live.chat import CONTROLS, REQUEST, Chat, fixture_bytes
from tests.live.mitmdump import ADDON, Mitmdump
from tests.repair.streams import chunk, read, sse

FIXTURE = "kimi_specification"
SECTION = "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
ARGUMENTS = "<|tool_call_argument_begin|>"
Mitmdumps = Callable[..., Mitmdump]


def regular(http2_upstream: bool) -> Callable[[Upstream, Upstream, Mitmdumps], Chat]:
    def make(tls: Upstream, _plain: Upstream, mitmdump: Mitmdumps) -> Chat:
        setting = f"test_upstream_http2={str(http2_upstream).lower()}"
        return Chat(tls, mitmdump("--set", setting, scripts=(ADDON, CONTROLS)), reverse=False)

    return make


def reverse_tls(tls: Upstream, _plain: Upstream, mitmdump: Mitmdumps) -> Chat:
    arguments = "--mode", f"reverse:{tls.url}", "--set", "test_upstream_http2=true"
    return Chat(tls, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))


def reverse_plain(_tls: Upstream, plain: Upstream, mitmdump: Mitmdumps) -> Chat:
    return Chat(plain, mitmdump("--mode", f"reverse:{plain.url}"))


# (a chat, whether the client speaks HTTP/2 and TLS, what the upstream then hears)
ROUTES = {
    "regular 1 to 1": (regular(False), False, "HTTP/1.1"),
    "regular 2 to 2": (regular(False), True, "HTTP/2.0"),
    "regular 1 to 2": (regular(True), False, "HTTP/2.0"),
    "reverse 1 to 1": (reverse_plain, False, "HTTP/1.1"),
    "reverse 2 to 1": (reverse_plain, True, "HTTP/1.1"),
    "reverse 1 to 2": (reverse_tls, False, "HTTP/2.0"),
    "reverse 2 to 2": (reverse_tls, True, "HTTP/2.0"),
}


Ask = Callable[..., wire.Reply]


@pytest.fixture(params=ROUTES)
def ask(
    request: pytest.FixtureRequest,
    tls_upstream: Upstream,
    plain_upstream: Upstream,
    mitmdump: Mitmdumps,
) -> Ask:
    """Asks over one of the routes, and checks that it was that one."""
    make, http2, version = ROUTES[request.param]
    chat = make(tls_upstream, plain_upstream, mitmdump)

    def ask(reply: str | bytes, options: str = "", **more: Any) -> wire.Reply:
        got = chat.ask(reply, options, http2=http2, **more)
        assert chat.upstream.requests[-1].http_version == version
        return got

    return ask


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Mitmdumps) -> Chat:
    return reverse_plain(plain_upstream, plain_upstream, mitmdump)


def assert_repaired(reply: wire.Reply) -> None:
    assert (reply.status, reply.complete) == (200, True)
    result = read(reply.body)
    assert [(call["name"], json.loads(call["arguments"])) for call in result.calls] == [
        ("bash", {"command": "ls -la /usr/include | grep asm"}),
        ("read", {"path": "/usr/include/asm-generic/errno.h"}),
    ]
    assert result.finish == ["tool_calls"]
    assert b"<|" not in reply.body
    assert reply.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "options",
    [
        "",
        ";cut=bytes:17",
        ";cut=event;pace=0.001",
        ";framing=length",
        ";framing=close",
        ";framing=close;cut=event",
    ],
)
def test_a_stream_is_repaired(ask: Ask, options: str) -> None:
    assert_repaired(ask(FIXTURE, options))


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_whole_reply_is_repaired(ask: Ask, framing: str) -> None:
    reply = ask("kimi_whole_message", f";framing={framing}", request={**REQUEST, "stream": False})
    assert (reply.status, reply.complete) == (200, True)
    (choice,) = json.loads(reply.body)["choices"]
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["bash"]
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_a_stream_without_markers_is_identical(ask: Ask, framing: str) -> None:
    reply = ask("clean_odd_framing", f";framing={framing};cut=bytes:23")
    assert reply.complete
    assert reply.body == fixture_bytes("clean_odd_framing")


def stalling(*deltas: dict[str, str], at: str) -> tuple[bytes, str]:
    """A stream and the options with which the upstream holds what begins with `at`."""
    stream = sse([*map(chunk, deltas), chunk({}, "stop")])
    return stream, f";cut=at:{stream.index(at.encode())};hold=1"


def assert_live(ask: Ask, stream: bytes, options: str, before: str, behind: str) -> None:
    """`before` comes while the upstream holds the rest, and is why it then sends `behind`."""
    reply = ask(stream, options, release_when=lambda body: before.encode() in body)
    assert reply.complete
    assert behind.encode() in reply.body


def test_text_before_a_stall_arrives_before_it_ends(ask: Ask) -> None:
    stream, options = stalling({"content": "early <b"}, {"content": "late"}, at="late")
    assert_live(ask, stream, options, "early <b", "late")


CALL = SECTION + ARGUMENTS
LIVE: dict[str, tuple[list[dict[str, str]], str, str, str]] = {
    "text before a section": (
        [{"reasoning": "early"}, {"reasoning": CALL}, {"reasoning": "{}<|tool_call_end|>"}],
        *("<|tool_calls_section", "early", '"bash"'),
    ),
    "a call as soon as it is whole": (
        [{"content": CALL + '{"command": "early"}<|tool_call_end|>'}, {"content": "late"}],
        *("late", 'early\\"}', "late"),
    ),
}
"""What stands before the upstream stalls, where that is, what must come before, and after it."""


@pytest.mark.parametrize("what", LIVE)
def test_it_arrives_before_the_rest_has_come(chat: Chat, what: str) -> None:
    deltas, at, before, behind = LIVE[what]
    assert_live(chat.ask, *stalling(*deltas, at=at), before, behind)


def test_a_cut_event_is_sent_when_its_blank_line_is_there(chat: Chat) -> None:
    stream = sse([chunk({"content": "early"}), chunk({"content": "late"})])
    at = stream.index(b"late")
    assert_live(chat.ask, stream, f";cut=at:{at - 5},{at};hold=2", "early", "late")


def test_concurrent_streams_do_not_mix(tls_upstream: Upstream, mitmdump: Mitmdumps) -> None:
    chat = Chat(tls_upstream, mitmdump(), reverse=False)

    def ask(number: int) -> wire.Reply:
        deltas = [SECTION + ARGUMENTS, '{"n": ', str(number), "}<|tool_call_end|>"]
        stream = sse([*(chunk({"content": delta}) for delta in deltas), chunk({}, "stop")])
        return chat.ask(stream, ";cut=bytes:40;pace=0.002", http2=bool(number % 2))

    with ThreadPoolExecutor(8) as pool:
        for number, reply in enumerate(pool.map(ask, range(24))):
            (call,) = read(reply.body).calls
            assert json.loads(call["arguments"]) == {"n": number}


@pytest.mark.parametrize("content_type", ["text/event-stream; charset=utf-8", "Text/Event-Stream"])
def test_the_content_type_may_have_parameters(chat: Chat, content_type: str) -> None:
    reply = chat.ask(Reply(fixture_bytes(FIXTURE), content_type))
    assert_repaired(reply)
    assert reply.header("content-type") == content_type


def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(chat: Chat) -> None:
    body = json.dumps(REQUEST).encode()
    for framing in ("length", "close"):
        head = f"POST /{FIXTURE};framing={framing}/v1/chat/completions HTTP/1.0\r\n"
        with closing(
            socket.create_connection(("127.0.0.1", chat.proxy.port), wire.TIMEOUT)
        ) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            with connection.makefile("rb") as stream:
                got = stream.read()
        headers, _, stream_got = got.partition(b"\r\n\r\n")
        assert b"chunked" not in headers
        assert_repaired(wire.Reply(200, [], [(0, stream_got)], complete=True))


def test_large_requests_keep_their_tools_where_the_user_streams_large_bodies(
    plain_upstream: Upstream, mitmdump: Mitmdumps
) -> None:
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "stream_large_bodies=10k"
    chat = Chat(plain_upstream, mitmdump(*arguments))
    request = json.loads(fixture_bytes("kimi_header_counter", "request.json"))
    request["messages"].append({"role": "user", "content": "x" * 100_000})
    reply = chat.ask("kimi_header_counter", request=request)
    names = {tool["function"]["name"] for tool in request["tools"]}
    assert {call["name"] for call in read(reply.body).calls} <= names
    whole = chat.ask("kimi_whole_message", ";framing=length", request={**request, "stream": False})
    assert b'"tool_calls"' in whole.body
