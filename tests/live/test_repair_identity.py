"""What needs no repair arrives byte for byte as the upstream sent it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from fixtures.server import FOLDER, Reply, Upstream
from tests.live.chat import REQUEST, Chat, fixture_bytes
from tests.live.mitmdump import Mitmdump
from tests.repair.streams import chunk, sse

LEAK = (
    "Look.<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
    '<|tool_call_argument_begin|>{"command":"ls"}<|tool_call_end|><|tool_calls_section_end|>'
)
BOM = b"\xef\xbb\xbf"
HELLO = json.dumps(chunk({"content": "a < b"})).encode()


def text(*deltas: str) -> bytes:
    return sse([*(chunk({"content": delta}) for delta in deltas), chunk({}, "stop")])


def of_choice(index: int, content: str) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": content}, "finish_reason": None}
    return chunk({}, choices=[choice])


def native(*calls: dict[str, Any], **head: Any) -> list[Any]:
    return [chunk({**head, "tool_calls": [call]}) for call in calls]


def native_call(index: int, name: str) -> list[dict[str, Any]]:
    first = {"index": index, "id": f"call_{name}", "type": "function"}
    return [
        {**first, "function": {"name": name, "arguments": ""}},
        {"index": index, "function": {"arguments": '{"command":'}},
        {"index": index, "function": {"arguments": '"ls < a"}'}},
    ]


STREAMS = {
    "lf": text("one", " two"),
    "crlf": text("one", " < two").replace(b"\n", b"\r\n"),
    "cr": text("one", " < two").replace(b"\n", b"\r"),
    "mixed line ends": b"data: %b\r\n\ndata: %b\n\r\ndata: %b\r\r" % (HELLO, HELLO, HELLO),
    "bom": BOM + text("one <"),
    "bom cr": BOM + text("one <").replace(b"\n", b"\r"),
    "comments": b": <open>\n\n:\n\n: ping < pong\n" + text("x <") + b": closed",
    "only comments": b": <\n\n: still thinking\n\n",
    "multi-line data": b'data: {"choices": [{"index": 0,\ndata: "delta": {"content": "<"}}]}\n\n',
    "no space behind the colon": b"data:%b\n\ndata:[DONE]\n\n" % HELLO,
    "unknown events": b"event: <ping>\ndata: {}\n\nretry: 1\nid: <7>\n\n" + text("x"),
    "field without colon": b"data\n\nevent\ndata\n\n" + text("<"),
    "broken json": b'data: {"choices": [<\n\ndata: {"choices": [{"delta": {"content": "<\n\n',
    "not utf-8": b'data: {"choices": [{"delta": {"content": "< \xff\xfe"}}]}\n\n' + text("<"),
    "lone surrogate": b'data: {"choices": [{"index": 0, "delta": {"content": "<\\ud83d"}}]}\n\n',
    "nul": b"data: \x00<\x00\n\n" + text("<"),
    "infinity": b'data: {"choices": [{"delta": {"content": "<"}, "x": Infinity}]}\n\n',
    "deeply nested": b"data: " + b"[" * 100_000 + b"<\n\n" + text("<"),
    "odd values": b"".join(
        b"data: %b\n\n" % value
        for value in (
            b'"<"',
            b"null",
            b'["<"]',
            b'{"choices": "<"}',
            b'{"choices": ["<", null, 3, {}]}',
            b'{"choices": [{"index": "<", "delta": {"content": "<"}}]}',
            b'{"choices": [{"index": 0, "delta": "<"}]}',
            b'{"choices": [{"index": 0, "delta": {"content": ["<"], "tool_calls": "<"}}]}',
            b'{"choices": [{"index": 0, "delta": {"tool_calls": ["<", {"index": "<"}]}}]}',
        )
    ),
    "error frame": text("part <")[:-40] + b'\n\ndata: {"error": {"message": "<busy>"}}\n\n',
    "error event": b'event: error\ndata: {"message": "<overloaded>"}\n\n',
    "no final blank line": text("end <").rstrip(b"\n"),
    "no final line end at all": text("end <") + b": bye",
    "[DONE] without a line end": text("end <").removesuffix(b"\n\n"),
    "no done": sse([chunk({"content": "<"})], done=False),
    "empty": b"",
    "one newline": b"\n",
    "less-than": text("a < b", "<", "<", "< c", "x <"),
    "less-than bar": text("a <|", "b <|", " c", "<|"),
    "other tokens": text("<|im_end|>", "a<|im_end|>", "<|tool_", "x", "<|tool_call|>"),
    "cut other tokens": text("<", "|im", "_end", "|", ">", " <|tool", "_calls_section", "_begun|>"),
    "ends like a marker": text("a", "<|tool_calls_section_begin|"),
    "escaped": sse([chunk({"content": "x"})]).replace(b'"x"', b'"\\u003c|im_end|\\u003e \\u003c"'),
    "reasoning": sse(
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning": "5 <", "reasoning_content": "5 <"}),
            chunk({"reasoning": "|6", "reasoning_content": "|6"}),
            chunk({"reasoning_details": [{"type": "reasoning.text", "text": "a <"}]}),
            chunk({"content": "tool_call <|"}),
            chunk({"content": ""}, "stop", usage={"total_tokens": 3}),
        ]
    ),
    "like a header": text("bash", ":", "0", " is no call"),
    "like a header to the end": text("functions.", "bash:", "3"),
    "native calls": sse([*native(*native_call(0, "bash"), *native_call(1, "read"))]),
    "native calls behind text": sse(
        [chunk({"content": "Look: <"}), *native(*native_call(0, "bash"), *native_call(1, "read"))]
    ),
    "native calls that count from 1": sse(
        [chunk({"content": "Look."}), *native(*native_call(1, "bash"), *native_call(2, "read"))]
    ),
    "native calls of odd order": sse(
        native(*native_call(3, "bash")[:2], *native_call(0, "read"), native_call(3, "bash")[2])
    ),
    "two choices": sse([of_choice(i, t) for t in ("<|tool", " <", "<|") for i in (0, 1)]),
    "comments between two choices": b": ping\n\n".join(
        sse([of_choice(i, t)], done=False) for i, t in ((0, "a <"), (1, "b <"), (0, "c"), (1, "d"))
    ),
    "a 3 MB frame": text("x" * 3_000_000),
    "a 3 MB frame with less-than": text("x <" * 1_000_000),
    "usage without choices": sse([{"id": "<", "choices": [], "usage": {"total_tokens": 1}}]),
}


@pytest.fixture
def chat(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    return Chat(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))


@pytest.fixture
def regular(tls_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Chat:
    return Chat(tls_upstream, mitmdump(), reverse=False)


UNENDED = {
    *("mixed line ends", "multi-line data", "broken json", "lone surrogate", "infinity"),
    *("odd values", "no done", "empty", "one newline", "only comments"),
    "comments between two choices",
}
"""Chats without a finish reason, `[DONE]` or error: the client's reply breaks off."""
HALVES = {
    "behind the end": (text("end <"), b"data: {"),
    "of a chunk, behind the end": (text("end <"), b'data: {"choices": [{"delta": {"content": "<'),
    "of a name": (text("end <"), b"event: ping"),
    "within the turn": (sse([chunk({"content": "<"})], done=False), b'data: {"choices": [{"del'),
    "of the first chunk": (b"", sse([chunk({"content": "<"})], done=False)[:-20]),
    "all but its blank line": (b"", sse([chunk({"content": "<"})], done=False)[:-1]),
}
"""Whole events, and the part of one with which the connection ends."""


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_without_markers_is_identical(chat: Chat, stream: str, tools: bool) -> None:
    request = REQUEST if tools else {"stream": True}
    body = STREAMS[stream]
    cuts: tuple[str, ...] = ("event", "bytes:7") if tools else ("whole", "line")
    if len(body) >= 10_000:
        cuts = ("bytes:50000" if tools else "whole",)
    for cut in cuts:
        reply = chat.ask(body, f";cut={cut}", request=request)
        assert (reply.status, reply.complete) == (200, stream not in UNENDED)
        # Line ends before the first event are none.
        assert reply.body == body or (not body.strip() and not reply.body), cut
        assert reply.header("content-type") == "text/event-stream"
    assert "repaired" not in chat.proxy.log


def test_half_a_marker_is_dropped_with_the_connection(chat: Chat) -> None:
    said = chunk({"content": "Said."})
    for cut in ("whole", "event", "bytes:7"):
        body = sse([said, chunk({"content": "<|tool_call_"})], done=False)
        reply = chat.ask(body, f";cut={cut}")
        assert (reply.complete, reply.body) == (False, sse([said], done=False)), cut


@pytest.mark.parametrize("half", HALVES)
def test_half_an_event_is_dropped_with_the_connection(chat: Chat, half: str) -> None:
    whole, rest = HALVES[half]
    for cut in ("whole", "event", "bytes:7"):
        reply = chat.ask(whole + rest, f";cut={cut}", request={"stream": True})
        assert reply.body == whole, cut
        assert reply.complete == (b"[DONE]" in whole)


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
@pytest.mark.parametrize("fixture", ["clean_odd_framing", "clean_http_error"])
def test_a_recorded_reply_without_markers_is_identical(
    regular: Chat, fixture: str, http2: bool
) -> None:
    """Two, over each version of HTTP; `tests/repair/test_fixtures.py` has them all."""
    file = next(FOLDER.joinpath(fixture).glob("upstream.*"))
    for cut in ("whole", "bytes:11"):
        reply = regular.ask(fixture, f";cut={cut}", http2=http2)
        assert reply.complete
        assert reply.body == file.read_bytes()


OTHERS = {
    "a page": b"<html>" + LEAK.encode() + b"</html>",
    "a text": b"the event: " + LEAK.encode(),
    "lines of JSON": b'"' + LEAK.encode().replace(b'"', b"") + b'"\n' * 2,
    "an image": b"\x89PNG\r\n\x1a\n" + LEAK.encode(),
}


@pytest.mark.parametrize("cut", ["whole", "bytes:5"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_reply_is_identical(chat: Chat, other: str, stream: bool, cut: str) -> None:
    reply = chat.ask(Reply(OTHERS[other], "text/plain"), f";cut={cut}", request={"stream": stream})
    assert reply.complete
    assert reply.body == OTHERS[other]


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_error_statuses_are_identical(chat: Chat, status: int, content_type: str) -> None:
    message = {"role": "assistant", "content": LEAK}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    body = text(LEAK) if content_type.startswith("text") else json.dumps(whole).encode()
    reply = chat.ask(Reply(body, content_type, status))
    assert (reply.status, reply.complete, reply.body) == (status, True, body)


@pytest.mark.parametrize("status", [201, 202, 206, 299])
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
def test_any_good_status_is_repaired(chat: Chat, status: int, streams: bool) -> None:
    message = {"role": "assistant", "content": LEAK}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    body = text(LEAK) if streams else json.dumps(whole).encode()
    kind = "text/event-stream" if streams else "application/json"
    reply = chat.ask(Reply(body, kind, status), request={**REQUEST, "stream": streams})
    assert (reply.status, reply.complete) == (status, True)
    assert b'"tool_calls"' in reply.body and b"<|tool" not in reply.body


class AnyPath(Upstream):
    """Leaks on every path."""

    def _reply(self, *_: object) -> Reply:
        return Reply(text(LEAK))


@pytest.mark.parametrize(
    "path", ["/v1/completions", "/v1/messages", "/v1/chat/completions/1", "/v1/chat", "/"]
)
def test_other_paths_are_identical(path: str, mitmdump: Callable[..., Mitmdump]) -> None:
    with AnyPath() as upstream:
        chat = Chat(upstream, mitmdump(), reverse=False)
        assert chat.ask("any", path=path).body == text(LEAK)
        assert chat.ask("any", path="/v1/chat/completions/").body != text(LEAK)


def message(content: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": content}}
    whole = {"id": "chatcmpl-1", "choices": [{**choice, "finish_reason": "stop"}]}
    return json.dumps(whole, indent=1).encode()


@pytest.mark.parametrize(
    "body",
    [
        message("no marker"),
        message("a < b <|im_end|> <|tool_call"),
        message("bash:0"),
        b"",
        b"<html>",
        b"{",
        b"null",
        b'"' + LEAK.replace('"', "").encode() + b'"',
        b'{"choices": {"message": "<"}}',
        b'{"choices": ["<", {"message": "<"}, {"message": {"content": ["<"]}}]}',
        b"[" * 100_000 + b"<",
    ],
    ids=lambda body: body[:20],
)
def test_a_json_body_without_markers_is_identical(chat: Chat, body: bytes) -> None:
    for cut in ("whole", "bytes:9") if len(body) < 10_000 else ("whole",):
        reply = chat.ask(Reply(body, "application/json"), f";cut={cut}", request={})
        assert reply.complete
        assert reply.body == body


@pytest.mark.parametrize("body", [message("a < b"), b"{broken <"])
def test_a_compressed_json_body_without_markers_is_identical(chat: Chat, body: bytes) -> None:
    packed = gzip.compress(body)
    headers = (("content-encoding", "gzip"),)
    reply = chat.ask(Reply(packed, "application/json", headers=headers), request={})
    assert reply.body == packed
    assert reply.header("content-encoding") == "gzip"


def test_headers_are_those_of_the_upstream(chat: Chat) -> None:
    headers = (("x-request-id", "<7>"), ("cache-control", "no-cache"), ("set-cookie", "a=b"))
    reply = chat.ask(Reply(fixture_bytes("clean_text"), headers=headers))
    expected = [("content-type", "text/event-stream"), *headers, ("transfer-encoding", "chunked")]
    assert reply.headers == expected


def test_nothing_changes_for_an_upstream_but_the_accepted_encoding(chat: Chat) -> None:
    headers = (("accept-encoding", "gzip, br"), ("authorization", "Bearer sk-secret"))
    chat.ask("clean_text", ";key=seen", headers=headers)
    (request,) = chat.upstream.requests_of("clean_text", "seen")
    assert request.json == REQUEST
    assert request.header("authorization") == "Bearer sk-secret"
    assert request.header("accept-encoding") == "identity"
