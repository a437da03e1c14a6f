"""What is an event stream, and what is not, whatever a host calls it.

The first bytes tell, where the request asked for a stream: hosts and their gateways send
streams as text, as JSON or without any type, and JSON where a stream was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.server import Reply, Upstream
from tests.live import responses, wire
from tests.live.chat import REQUEST, Chat
from tests.live.mitmdump import Mitmdump
from tests.live.responses import Exchange, calls_of, text_of
from tests.repair.streams import chunk, read, sse

CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    '<|tool_call_argument_begin|>{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>'
)
STREAM = sse([chunk({"content": "Said. "}), chunk({"content": CALL}), chunk({}, "stop")])
MESSAGE = {"role": "assistant", "content": "Said. " + CALL}
DOCUMENT = json.dumps(
    {"id": "chatcmpl-1", "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]}
).encode()
LABELS = ["text/event-stream", "text/plain", "application/octet-stream", "application/json", ""]
BEGINNINGS = {"": b"", "a BOM": b"\xef\xbb\xbf", "line ends": b"\n\n", "a comment": b": hello\n\n"}
STALL = 0.05
"""Seconds between the first byte and the second."""
CHAT_PATH, RESPONSES_PATH = "/v1/chat/completions", "/v1/responses"


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    # What is repaired or bridged is never streamed past it.
    return Chat(plain_upstream, mitmdump(*arguments, "--set", "stream_large_bodies=1"))


def bridged(chat: Chat, reply: Reply, options: str = "", *, stream: bool = True) -> Exchange:
    request = responses.REQUEST | {"stream": stream}
    return Exchange(chat.ask(reply, options, path=RESPONSES_PATH, request=request), [])


def repaired(chat: Chat, reply: Reply, options: str = "", *, stream: bool = True) -> wire.Reply:
    return chat.ask(reply, options, request=REQUEST | {"stream": stream})


@pytest.mark.parametrize("http2", [False, True], ids=["1", "2"])
@pytest.mark.parametrize("beginning", BEGINNINGS)
@pytest.mark.parametrize("label", LABELS)
def test_a_stream_is_live_whatever_it_is_called(
    chat: Chat, label: str, beginning: str, http2: bool
) -> None:
    body = BEGINNINGS[beginning] + STREAM
    at = body.index(b"data:", body.index(b"Said."))
    asked = (CHAT_PATH, REQUEST, b'"bash"'), (RESPONSES_PATH, responses.REQUEST, b"arguments.delta")
    for path, request, called in asked:
        got = chat.ask(
            Reply(body, label),
            f";cut=at:1,{at};pace={STALL};hold=2",
            path=path,
            request=request,
            http2=http2,
            release_when=lambda body: b"Said." in body,
        )
        assert called in got.body
        if path == CHAT_PATH:
            assert [call["name"] for call in read(got.body).calls] == ["bash"]
            assert (got.header("content-type") or "") == label
        else:
            assert calls_of(Exchange(got, []).story().response) == [("bash", {"command": "ls"})]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("cut", ["whole", "bytes:1"])
def test_json_in_place_of_a_stream_is_read_as_what_it_is(chat: Chat, label: str, cut: str) -> None:
    got = repaired(chat, Reply(DOCUMENT, label), f";cut={cut}")
    assert got.complete
    (choice,) = json.loads(got.body)["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "bash"
    story = bridged(chat, Reply(DOCUMENT, label), f";cut={cut}").story()
    assert text_of(story.response) == "Said. "
    assert calls_of(story.response) == [("bash", {"command": "ls"})]


@pytest.mark.parametrize("label", LABELS)
def test_an_error_in_place_of_a_stream(chat: Chat, label: str) -> None:
    body = json.dumps({"error": {"message": "no more", "code": "rate_limit_exceeded"}}).encode()
    got = repaired(chat, Reply(body, label))
    assert (got.complete, got.body) == (True, body)
    story = bridged(chat, Reply(body, label)).story()
    assert story.response["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("stream", [STREAM, DOCUMENT], ids=["a stream", "JSON"])
def test_what_breaks_off_in_place_of_a_stream(chat: Chat, label: str, stream: bytes) -> None:
    options = f";cut=event;abort={stream.index(b'bash')}"
    got = repaired(chat, Reply(stream, label), options)
    assert not got.complete
    assert stream.startswith(got.body)
    bridged(chat, Reply(stream, label), options).broken_off()


@pytest.mark.parametrize("label", LABELS)
def test_a_stream_where_none_was_asked_for_is_read_whole(chat: Chat, label: str) -> None:
    got = repaired(chat, Reply(STREAM, label), stream=False)
    assert (got.status, got.complete) == (200, True)
    assert [call["name"] for call in read(got.body).calls] == ["bash"]
    exchange = bridged(chat, Reply(STREAM, label), stream=False)
    assert calls_of(exchange.json) == [("bash", {"command": "ls"})]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("end", ["breaks", "ends early"])
@pytest.mark.parametrize("job", ["repair", "bridge"])
def test_a_stream_that_is_cut_where_none_was_asked_for_is_a_502(
    chat: Chat, label: str, end: str, job: str
) -> None:
    half = STREAM.index(b"bash")
    reply = Reply(STREAM if end == "breaks" else STREAM[:half], label)
    options = f";cut=event;abort={half}" if end == "breaks" else ""
    if job == "repair":
        exchange = Exchange(repaired(chat, reply, options, stream=False), [])
    else:
        exchange = bridged(chat, reply, options, stream=False)
    assert exchange.error(502)["type"] == "server_error"
