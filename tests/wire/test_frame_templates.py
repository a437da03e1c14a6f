"""A frame that fits a pattern is read as JSON would read it, and as quickly as may be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.notes import Evidence
from dragoman.repair.chat_stream import ChatStreamRepair
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.pending import Policy
from dragoman.repair.pipeline import RepairPipeline
from dragoman.wire import json_codec
from dragoman.wire.chat_delta import text_of
from dragoman.wire.frame_templates import (
    MAX_KNOWN,
    MAX_MISSES,
    VARIED,
    FrameTemplate,
    TemplateCache,
    learn,
)
from dragoman.wire.json_codec import dumps, quoted
from dragoman.wire.sse import Frame, FrameSplitter, encode
from fixtures.regenerate import chat_fixtures, upstream
from tests.bridge.replying import feed, new_reply
from tests.repair.streams import chunk, sse
from tests.repair.turns import REQUEST, Turn, cut, turns

FIELDS = [("content",), ("reasoning",), ("reasoning", "reasoning_content")]
TEXTS = st.text(min_size=1, max_size=12) | st.sampled_from(['"', "\\", '\\"', "é\u2028", "kimi"])
POLICY = Policy()
POLICIES = st.sampled_from([POLICY, Policy(text="field"), Policy(finish="keep")])


METADATA = st.sampled_from([{}, {"system_fingerprint": "fp"}, {"model": "kimi"}])
DIFFERING: list[Callable[[int], dict[str, Any]]] = [
    lambda _: {},
    lambda at: {"created": at},
    lambda at: {"obfuscation": "x" * (at % 9), "created": at // 3},
    lambda at: {"usage": {"prompt_tokens": 1, "completion_tokens": at} if at % 7 else None},
]
BESIDES: list[dict[str, Any]] = [
    {},
    {},
    {"role": "assistant"},
    {"role": None, "refusal": None, "tool_calls": []},
    {"prefix": False},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]},
]


def any_text(_: Any) -> str:
    """Reads the probe wherever it stands."""
    return "another text"


def frame_of(fields: tuple[str, ...], text: str, **dumps: Any) -> Frame:
    return encode(json.dumps(chunk(dict.fromkeys(fields, text)), **dumps).encode())


@given(st.sampled_from(FIELDS), TEXTS, TEXTS, st.booleans())
def test_a_frame_that_differs_in_its_text_alone_fits(
    fields: tuple[str, ...], one: str, other: str, ascii_only: bool
) -> None:
    pattern = learn(frame_of(fields, one, ensure_ascii=False), one, len(fields), text_of)
    assume(pattern is not None)
    assert pattern is not None
    raw = frame_of(fields, other, ensure_ascii=ascii_only).raw
    assert pattern.text_in(raw) == other


@given(st.sampled_from(FIELDS), st.binary(max_size=12), st.binary(max_size=3), st.integers(0, 400))
def test_what_fits_is_what_json_reads(
    fields: tuple[str, ...], inserted: bytes, replaced: bytes, at: int
) -> None:
    pattern = learn(frame_of(fields, "first words"), "first words", len(fields), text_of)
    assert pattern is not None
    good = pattern.around(b'"second"', {})
    for raw in (pattern.around(inserted, {}), good[:at] + replaced + good[at + len(replaced) :]):
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
    pattern = learn(frame, "word", 1, any_text)
    assert pattern is None or pattern.text_in(frame.raw) == "word"
    if pattern is not None:
        assert json.loads(Frame(pattern.around(b'"x"', {})).data or b"") == {"content": "x"}


def template_of_written(frame: Frame, name: str, text: str) -> FrameTemplate | None:
    return FrameTemplate.of_written(frame, {}, (name, quoted(text)))


def test_a_written_frame_is_a_pattern_without_a_trial() -> None:
    frame = Frame(frame_of(("content",), "word", separators=(",", ":")).raw)
    assert template_of_written(frame, "content", "word") == learn(frame, "word", 1, any_text)
    assert template_of_written(frame, "model", "kimi") == learn(frame, "kimi", 1, any_text)
    twice = encode(dumps([{"content": "word"}, {"content": "word"}]))
    assert template_of_written(twice, "content", "word") is None


JSON_TEXTS = TEXTS | st.text('":,[]{}\\ax', max_size=6)


@given(st.lists(st.tuples(JSON_TEXTS, JSON_TEXTS), max_size=3), JSON_TEXTS, JSON_TEXTS)
def test_in_a_written_frame_only_the_member_is_replaced(
    others: list[tuple[str, str]], text: str, other: str
) -> None:
    value = {f"{name}.": said for name, said in others}
    pattern = template_of_written(
        encode(dumps({**value, "content": text, "z": text})), "content", text
    )
    if text:
        assert pattern is not None
        frame = Frame(pattern.around(dumps(other), {}))
        assert json.loads(frame.data or b"") == {**value, "content": other, "z": text}


def test_a_stream_that_changes_in_every_chunk_teaches_nothing() -> None:
    patterns: TemplateCache[None] = TemplateCache()
    for number in range(MAX_MISSES):
        assert patterns.wanted
        raw = json.dumps({"other": str(number), "content": "word"}).encode()
        assert patterns.match(encode(raw)) is None
        patterns.learn(encode(raw), "word", 1, any_text, None)
    assert not patterns.wanted


def test_the_latest_patterns_are_known() -> None:
    patterns: TemplateCache[int] = TemplateCache()
    frames = [frame_of((f"field{number}",), "word") for number in range(MAX_KNOWN + 1)]
    for number, frame in enumerate(frames):
        patterns.learn(frame, "word", 1, any_text, number)
    assert patterns.match(frames[0]) is None
    for number, frame in reversed([*enumerate(frames)][1:]):
        text, known = patterns.match(frame) or ("", None)
        assert known is not None
        assert (text, known.meaning) == ("word", number)


# The short way and the long way


def through(stream: bytes, *, bridge: bool, policy: Policy = POLICY) -> list[bytes]:
    """What leaves for each frame of a stream."""
    repair = ChatStreamRepair(DeclaredTools.of_request(REQUEST), policy, Evidence(), 1)
    evidence = Evidence()
    reply = new_reply(evidence) if bridge else None
    splitter = FrameSplitter()
    out = []
    for frame in splitter.feed(stream) + splitter.close():
        repaired = repair.feed(frame)
        told = [event for done in repaired for event in feed(reply, done)] if reply else repaired
        out.append(b"".join(each.raw for each in told))
    return [*out, *(frame.raw for frame in repair.close()), *(map(str.encode, evidence.lines()))]


def at_once(stream: bytes, policy: Policy) -> bytes:
    """The same of a stream that comes in one piece."""
    repair = ChatStreamRepair(DeclaredTools.of_request(REQUEST), policy, Evidence(), 1)
    pipeline = RepairPipeline(repair, Evidence())
    return pipeline.feed(stream) + pipeline.close()


def the_long_way(stream: bytes, *, bridge: bool, policy: Policy = POLICY) -> list[bytes]:
    with mock.patch.object(TemplateCache, "learn", lambda *_: None):
        return through(stream, bridge=bridge, policy=policy)


@pytest.mark.parametrize("bridge", [False, True], ids=["repair", "bridge"])
@given(st.data(), turns(), st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4), POLICIES)
@settings(max_examples=80)
def test_the_short_way_leads_where_the_long_way_does(
    bridge: bool,
    data: st.DataObject,
    turn: Turn,
    fields: list[tuple[str, ...]],
    policy: Policy,
) -> None:
    pieces = data.draw(cut(turn.written))
    # A field goes on for some pieces, as one does in a stream.
    lasts = 1 + len(pieces) // len(fields)
    besides = st.lists(st.sampled_from(BESIDES), min_size=1, max_size=4)
    varied = data.draw(st.sampled_from(DIFFERING))
    chunks = [
        chunk(dict.fromkeys(fields[at // lasts], piece) | more) | metadata | varied(at)
        for at, (piece, more, metadata) in enumerate(
            zip(
                pieces,
                itertools.cycle(data.draw(besides)),
                itertools.cycle(data.draw(st.lists(METADATA, min_size=1, max_size=4))),
                strict=False,
            )
        )
    ]
    stream = sse([*chunks, chunk({}, "stop")])
    short = through(stream, bridge=bridge, policy=policy)
    assert short == the_long_way(stream, bridge=bridge, policy=policy)
    if not bridge:
        assert at_once(stream, policy) == b"".join(short)


@given(st.data(), turns(), turns())
@settings(max_examples=60)
def test_choices_that_take_turns_lead_the_same_way(
    data: st.DataObject, one: Turn, other: Turn
) -> None:
    pieces = [data.draw(cut(turn.written)) for turn in (one, other)]
    said = [
        {**chunk({"content": piece}), "choices": [{"index": index, "delta": {"content": piece}}]}
        for both in itertools.zip_longest(*pieces)
        for index, piece in enumerate(both)
        if piece
    ]
    stream = sse(said)
    assert through(stream, bridge=False) == the_long_way(stream, bridge=False)


@pytest.mark.parametrize("folder", chat_fixtures(), ids=lambda folder: folder.name)
def test_fixtures_lead_the_same_way(folder: Path) -> None:
    stream = upstream(folder)
    if stream is not None and stream.suffix == ".sse":
        body = stream.read_bytes()
        for bridge in (False, True):
            assert through(body, bridge=bridge) == the_long_way(body, bridge=bridge)


def test_the_short_way_is_the_usual_one() -> None:
    call = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "'
    leaked = [call, *(f"w{number} " for number in range(100)), '"}<|tool_call_end|>']
    native = [
        {"tool_calls": [{"index": 0, "function": {"arguments": f"w{number} "}}]}
        for number in range(100)
    ]
    for deltas in ([{"content": text} for text in leaked], native):
        with counting_matches() as fitted:
            through(sse(list(map(chunk, deltas))), bridge=True)
        assert sum(text is not None for text in fitted) > 90


@pytest.mark.parametrize(
    "shape",
    [
        '{"index": %d, "function": {"arguments": %s}}',
        '{"index":%d,"id":null,"type":"function","function":{"name":null,"arguments":%s}}',
        '{"function": {"arguments": %s}, "index": %d}',
        '{"index": %d, "function": {"arguments": %s}, "index": 1}',
        '{"index": %d, "function": {"arguments": %s, "index": 5}}',
    ],
)
@given(st.lists(st.tuples(st.integers(0, 12), TEXTS), min_size=1, max_size=12))
def test_the_arguments_of_one_call_after_another_lead_the_same_way(
    shape: str, said: list[tuple[int, str]]
) -> None:
    heads = [
        {"index": index, "id": f"c{index}", "function": {"name": "bash", "arguments": ""}}
        for index in range(13)
    ]
    stream = sse([chunk({"tool_calls": heads})]).removesuffix(b"data: [DONE]\n\n")
    for index, text in said:
        values = (json.dumps(text), index) if shape.endswith("%d}") else (index, json.dumps(text))
        call = shape % values
        delta = b'{"index": 0, "delta": {"tool_calls": [%b]}}' % call.encode()
        stream += b'data: {"choices": [%b]}\n\n' % delta
    assert through(stream, bridge=True) == the_long_way(stream, bridge=True)


@contextmanager
def counting_matches() -> Iterator[list[str | None]]:
    """What templates found in frames."""
    found: list[str | None] = []
    real = FrameTemplate.text_in

    def text_in(template: FrameTemplate, raw: bytes) -> str | None:
        found.append(real(template, raw))
        return found[-1]

    with mock.patch.object(FrameTemplate, "text_in", text_in):
        yield found


def _with(number: int, delta: dict[str, Any], ignored: str) -> dict[str, Any]:
    counts = {"prompt_tokens": 5, "total_tokens": 5 + number, "details": {"cached_tokens": number}}
    padding = "xY3" * (number % 5)
    values = {"created": number, "obfuscation": padding, "sequence_number": number, "usage": counts}
    value = values[ignored]
    return {**chunk(delta), ignored: value}


@pytest.mark.parametrize("varied", VARIED)
@pytest.mark.parametrize("bridge", [False, True], ids=["repair", "bridge"])
def test_what_says_nothing_may_differ_in_every_chunk(bridge: bool, varied: str) -> None:
    texts = [f'w{number} "created": {number} \\' for number in range(100)]
    begin = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "'
    leaked = [begin, *(quoted(text).decode()[1:-1] for text in texts), '"}<|tool_call_end|>']
    said = [("content", texts), ("reasoning", texts)] if bridge else []
    said += [("content", leaked), ("reasoning", leaked)]
    for field, pieces in said:
        stream = sse([_with(number, {field: text}, varied) for number, text in enumerate(pieces)])
        with counting_matches() as fitted:
            short = through(stream, bridge=bridge)
        assert sum(text is not None for text in fitted) > 90
        assert short == the_long_way(stream, bridge=bridge)


@pytest.mark.parametrize("varied", VARIED)
@pytest.mark.parametrize("bridge", [False, True], ids=["repair", "bridge"])
def test_few_frames_of_a_leaked_call_are_read_whatever_differs_in_each(
    bridge: bool, varied: str
) -> None:
    begin = '<|tool_call_begin|>bash:0<|tool_call_argument_begin|>{"command": "'
    leaked = [begin, *(f"w{number} " for number in range(300)), '"}<|tool_call_end|>']
    stream = sse([_with(number, {"content": text}, varied) for number, text in enumerate(leaked)])
    with mock.patch.object(json_codec, "_read", wraps=json_codec._read) as read:
        through(stream, bridge=bridge)
    assert read.call_count < 40


SCALARS = st.binary(max_size=6) | st.sampled_from(
    [b"5", b'"x"', b"05", b'"', b'"x","y":"z"', b"5,6"]
)


@given(st.sampled_from(["created", "obfuscation"]), SCALARS, TEXTS)
def test_an_ignored_value_that_is_none_does_not_fit(name: str, value: bytes, text: str) -> None:
    """Nor does one that would be read as something else."""
    known: TemplateCache[None] = TemplateCache()
    for number in (1, 2):  # which shows that it differs
        learned = encode(dumps({name: number, "choices": [{"delta": {"content": "word"}}]}))
        known.learn(learned, "word", 1, text_of, None)
    between = b"," + dumps({"choices": [{"delta": {"content": text}}]})[1:]
    frame = encode(
        b'{"' + name.encode() + b'":', value.replace(b"\n", b"").replace(b"\r", b""), between
    )
    if (fitting := known.match(frame)) is not None:
        read = json.loads(frame.data or b"")
        assert read.keys() == {name, "choices"}
        assert read["choices"][0]["delta"]["content"] == fitting[0]
