"""What a reply holds is bounded, and small beside its text, whatever it is that comes."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.bridge.reply import converter as module
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.bridge.responses_reply import responses_reply
from dragoman.notes import Evidence
from dragoman.responses.dialects import OPENAI
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import FrameSplitter, encode

from .replying import call, calls, chunk, feed, text, turn

pytestmark = pytest.mark.slow

BOUND = 50_000
LOGPROB = {"token": "x", "logprob": -1.5, "bytes": [120], "top_logprobs": []}


def source(n: int) -> dict[str, Any]:
    return {"type": "url_citation", "url_citation": {"url": f"https://a.example/{n}", "title": "A"}}


WAITS: dict[str, Callable[[int], list[Any]]] = {
    "text": lambda _: [text("word ")],
    "a call": lambda _: [calls(call(0, "word "))],
    "a second call while the first is open": lambda _: [calls(call(1, "word "))],
    "text behind an open call": lambda _: [text("word ")],
    "text and thoughts behind an open call": lambda _: [
        text("a"),
        chunk({"reasoning_content": "b"}),
    ],
    "text and thoughts": lambda _: [text("a"), chunk({"reasoning_content": "b"})],
    "a call without a name": lambda _: [calls(call(0, "word "))],
    "calls without a name": lambda n: [calls(call(n, '{"a'))],
    "calls": lambda n: [calls(call(n, "{}", name="echo", call_id=f"c{n}"))],
    "calls of many choices": lambda n: [
        chunk(choice={"index": n, "delta": {"tool_calls": [call(0, "{", name="echo")]}})
    ],
    "many choices": lambda n: [chunk(choice={"index": n, "delta": {"content": "a"}})],
    "ids": lambda n: [calls(call(0, "", call_id=f"c{n}"))],
    "blanks": lambda _: [text("\n")],
    "log probabilities": lambda _: [
        chunk(choice={"delta": {"content": ""}, "logprobs": {"content": [LOGPROB]}})
    ],
    "log probabilities of text": lambda _: [
        chunk(choice={"delta": {"content": "x"}, "logprobs": {"content": [LOGPROB]}})
    ],
    "annotations": lambda n: [chunk({"annotations": [source(n)]})],
    "citations": lambda n: [chunk({"content": ""}, citations=[f"https://a.example/{n}"])],
}
BEGINS = {
    "a call": [calls(call(0, '{"a": "', name="echo"))],
    "a second call while the first is open": [
        calls(call(0, '{"a": "', name="echo")),
        calls(call(1, '{"a": "', name="echo")),
    ],
    "text behind an open call": [calls(call(0, '{"a": "', name="echo"))],
    "text and thoughts behind an open call": [calls(call(0, '{"a": "', name="echo"))],
    "a call without a name": [calls(call(0, '{"a": "'))],
    "ids": [calls(call(0, '{"a": "', name="echo"))],
    "annotations": [text("x")],
}


def new() -> ReplyConverter:
    return responses_reply(
        turn(), OPENAI, Evidence(), response_id="resp_1", created_at=1, clock=lambda: 2.0
    )


@pytest.mark.parametrize("what", WAITS)
def test_whatever_comes_without_end_ends_the_turn(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REPLY", BOUND)
    reply = new()
    for value in BEGINS.get(what, []):
        feed(reply, encode(dumps(value)))
    tracemalloc.start()
    for n in itertools.count(1):
        for value in WAITS[what](n):
            feed(reply, encode(dumps(value)))
        if reply.writer.ended or n > BOUND:
            break
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reply.writer.ended
    assert reply.turn_end.error is not None
    assert reply.turn_end.error.code == "server_error"
    # The terminal, which repeats what was told, is in it; Python 3.11 takes twice as much.
    assert peak < 20 * BOUND


FED = 101_000 if sys.version_info < (3, 12) else 12_000
"""Python 3.11 joins what is written into a text after 100,000 pieces, and not before."""


@pytest.mark.parametrize("what", ["text", "a call", "a second call while the first is open"])
def test_a_long_reply_takes_little_more_than_its_text(what: str) -> None:
    reply = new()
    for value in BEGINS.get(what, []):
        feed(reply, encode(dumps(value)))
    frames = [encode(dumps(value)) for value in WAITS[what](1)]
    tracemalloc.start()
    for _ in range(FED):
        for frame in frames:
            feed(reply, frame)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 3 * FED * len("word ")


@pytest.mark.parametrize(
    "nothing", [b"\n", b":\n\n", b"data:\n\n", b"data: 1\n\n", b'data: {"choices": [{}]}\n\n']
)
def test_what_carries_nothing_ends_the_turn(
    nothing: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_EMPTY", BOUND)
    reply, splitter = new(), FrameSplitter()
    for size in (BOUND * 2 // 3, BOUND * 2 // 3):
        for frame in [*splitter.feed(nothing * (size // len(nothing))), encode(dumps(text("a")))]:
            feed(reply, frame)
    assert not reply.writer.ended, "a text came in between"
    for frame in splitter.feed(nothing * (BOUND // len(nothing) + 9)):
        feed(reply, frame)
    assert reply.writer.ended
    assert reply.turn_end.error is not None
