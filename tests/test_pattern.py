"""A frame that fits a pattern is read as JSON would read it, and as quickly as may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.evidence import Evidence
from dragoman.kimi.chunks import ChunkRepair
from dragoman.kimi.headers import Tools
from dragoman.kimi.parts import Policy
from dragoman.pattern import MAX_MISSES, Pattern, Patterns, learn, of_our_own
from dragoman.sse import Frame, FrameSplitter, encode
from fixtures.regenerate import chat_fixtures, upstream
from tests.bridge.replying import new_reply
from tests.kimi.streams import chunk, sse
from tests.kimi.turns import REQUEST, Turn, cut, turns

FIELDS = [("content",), ("reasoning",), ("reasoning", "reasoning_content")]
TEXTS = st.text(min_size=1, max_size=12) | st.sampled_from(['"', "\\", '\\"', "é\u2028", "kimi"])


def frame_of(fields: tuple[str, ...], text: str, **dumps: Any) -> Frame:
    return encode(json.dumps(chunk(dict.fromkeys(fields, text)), **dumps).encode())


@given(st.sampled_from(FIELDS), TEXTS, TEXTS, st.booleans())
def test_a_frame_that_differs_in_its_text_alone_fits(
    fields: tuple[str, ...], one: str, other: str, ascii_only: bool
) -> None:
    pattern = learn(frame_of(fields, one, ensure_ascii=False), one, len(fields))
    assume(pattern is not None)
    assert pattern is not None
    raw = frame_of(fields, other, ensure_ascii=ascii_only).raw
    assert pattern.text_in(raw) == other


@given(st.sampled_from(FIELDS), st.binary(max_size=12), st.binary(max_size=3), st.integers(0, 400))
def test_what_fits_is_what_json_reads(
    fields: tuple[str, ...], inserted: bytes, replaced: bytes, at: int
) -> None:
    pattern = learn(frame_of(fields, "first words"), "first words", len(fields))
    assert pattern is not None
    good = pattern.around(b'"second"')
    for raw in (pattern.around(inserted), good[:at] + replaced + good[at + len(replaced) :]):
        text = pattern.text_in(raw)
        if text is not None:
            expected = chunk(dict.fromkeys(fields, text))
            assert json.loads(Frame(raw).data or b"") == expected


@pytest.mark.parametrize(
    "frame",
    [
        encode(b'{"model": "word", "choices": [{"delta": {"content": "word"}}]}'),
        encode(b'{"word": 1, "choices": [{"delta": {"content": "\\u0077ord"}}]}'),
        encode(b'["word", {"word": 1}]'),
        encode(b"[DONE]"),
        Frame(b'data: {"content":\ndata: "word"}\n\n'),
    ],
)
def test_a_text_that_stands_elsewhere_too_makes_no_pattern(frame: Frame) -> None:
    pattern = learn(frame, "word", 1)
    assert pattern is None or pattern.text_in(frame.raw) == "word"
    if pattern is not None:
        assert json.loads(Frame(pattern.around(b'"x"')).data or b"") == {"content": "x"}


def test_a_frame_of_our_own_is_a_pattern_without_a_trial() -> None:
    frame = frame_of(("content",), "word")
    assert of_our_own(frame, "word") == learn(frame, "word", 1)
    assert of_our_own(frame, "kimi") == Pattern(*_around(frame, b'"kimi"'))
    assert of_our_own(frame, "") is None


def _around(frame: Frame, literal: bytes) -> tuple[bytes, None, bytes]:
    head, tail = frame.raw.split(literal)
    return head, None, tail


def test_a_stream_that_changes_in_every_chunk_teaches_nothing() -> None:
    patterns = Patterns()
    for number in range(MAX_MISSES):
        assert patterns.wanted
        raw = json.dumps({"obfuscation": str(number), "content": "word"}).encode()
        assert patterns.text_in(encode(raw).raw) is None
        patterns.learn(encode(raw), "word", 1)
    assert not patterns.wanted


# The short way and the long way


def through(stream: bytes, *, bridge: bool) -> list[bytes]:
    """What leaves for each frame of a stream."""
    repair = ChunkRepair(Tools.of_request(REQUEST), Policy(), Evidence(), 1)
    evidence = Evidence()
    reply = new_reply(evidence) if bridge else None
    splitter = FrameSplitter()
    out = []
    for frame in splitter.feed(stream) + splitter.close():
        repaired = repair.feed(frame)
        told = [event for done in repaired for event in reply.feed(done)] if reply else repaired
        out.append(b"".join(each.raw for each in told))
    return [*out, *(frame.raw for frame in repair.close()), *(map(str.encode, evidence.lines()))]


def the_long_way(stream: bytes, *, bridge: bool) -> list[bytes]:
    with mock.patch.object(Patterns, "text_in", lambda *_: None):
        return through(stream, bridge=bridge)


@pytest.mark.parametrize("bridge", [False, True], ids=["repair", "bridge"])
@given(st.data(), turns(), st.sampled_from(FIELDS))
@settings(max_examples=150, deadline=None)
def test_the_short_way_leads_where_the_long_way_does(
    bridge: bool, data: st.DataObject, turn: Turn, fields: tuple[str, ...]
) -> None:
    deltas = [dict.fromkeys(fields, piece) for piece in data.draw(cut(turn.written))]
    stream = sse([*map(chunk, deltas), chunk({}, "stop")])
    assert through(stream, bridge=bridge) == the_long_way(stream, bridge=bridge)


@pytest.mark.parametrize("bridge", [False, True], ids=["repair", "bridge"])
@pytest.mark.parametrize("folder", chat_fixtures(), ids=lambda folder: folder.name)
def test_fixtures_lead_the_same_way(folder: Path, bridge: bool) -> None:
    stream = upstream(folder)
    if stream is not None and stream.suffix == ".sse":
        body = stream.read_bytes()
        assert through(body, bridge=bridge) == the_long_way(body, bridge=bridge)


def test_the_short_way_is_the_usual_one() -> None:
    call = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "'
    leaked = [call, *(f"w{number} " for number in range(100)), '"}<|tool_call_end|>']
    native = [
        {"tool_calls": [{"index": 0, "function": {"arguments": f"w{number} "}}]}
        for number in range(100)
    ]
    for deltas in ([{"content": text} for text in leaked], native):
        fitted = []
        real = Patterns.text_in
        counting = lambda self, raw: fitted.append(real(self, raw)) or fitted[-1]  # noqa: E731, B023
        with mock.patch.object(Patterns, "text_in", counting):
            through(sse(list(map(chunk, deltas))), bridge=True)
        assert sum(text is not None for text in fitted) > 90
