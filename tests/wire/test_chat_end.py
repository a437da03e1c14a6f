"""How a chat stream has ended, told by the last bytes of it."""

from __future__ import annotations

import json

import pytest

from dragoman.wire.chat_end import has_ended, is_done, is_half, turn_ended
from dragoman.wire.sse import Frame
from tests.repair.streams import chunk, sse

TEXTS = ["[DONE]", "data: [DONE]", "\ndata: [DONE]\n\n", '"finish_reason": "stop"', '"error": {"']
STOP = sse([chunk({}, "stop")], done=False)
LINE_ENDS = [b"\n", b"\r\n", b"\r"]


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_text_says_is_no_end(text: str) -> None:
    for said in ({"content": text}, {"tool_calls": [{"function": {"arguments": text}}]}):
        sent = sse([chunk(said)], done=False)
        assert not has_ended(sent)
        for size in range(1, len(sent)):  # of a long stream only the end is seen
            assert not has_ended(sent[-size:])


@pytest.mark.parametrize("line_end", LINE_ENDS)
def test_an_end_is_seen(line_end: bytes) -> None:
    for sent, done in ((STOP, False), (b"data: [DONE]\n\n", True), (b"data:[DONE]\n", True)):
        before = sse([chunk({"content": "x"})], done=False)
        stream = (before + sent).replace(b"\n", line_end)
        assert turn_ended(stream) and has_ended(stream)
        assert is_done(stream) is done
    assert is_done(b"data: [DONE]")


@pytest.mark.parametrize(
    "error", ['{"error": {"message": "no"}}', '{"error":"no"}', '{"error" : {}}']
)
def test_an_error_of_the_upstream_is_an_end_but_none_of_the_turn(error: str) -> None:
    sent = f"data: {error}\n\n".encode()
    assert has_ended(sent) and not turn_ended(sent)
    assert has_ended(b"event: error\ndata: {}\n\n")
    assert not has_ended(sse([{"error": None, "choices": []}], done=False))


@pytest.mark.parametrize(
    ("rest", "half"),
    [
        (b"data: [DONE]", False),
        (b"data: [DONE]\r", False),
        (b"data: [DO", True),
        (b"data: " + json.dumps(chunk({})).encode(), False),
        (b"data: " + json.dumps(chunk({})).encode()[:-1], True),
        (b"data:", True),
        (b"dat", True),
        (b"event: x\n", True),
        (b": a comment", False),
        (b"\n", False),
        (b"\r\n", False),
    ],
)
def test_half_an_event(rest: bytes, half: bool) -> None:
    assert is_half(Frame(rest)) is half
