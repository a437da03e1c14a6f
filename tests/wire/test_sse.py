"""Framing: every cut gives the same frames, and no byte is lost or changed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.reader_writer_pairs import read_reply
from dragoman.wire import sse
from dragoman.wire.sse import (
    Frame,
    FrameSplitter,
    encode_chunk,
    encode_event,
    is_event_stream,
)

streams = st.lists(
    st.sampled_from(
        [
            b"data: x",
            b"data:y",
            b"data",
            b": c",
            b"event: e",
            b"id: 1",
            b"\r",
            b"\n",
            b"\r\n",
            b"\xef\xbb\xbf",
            b"\x00",
        ]
    )
).map(b"".join)


def _split(pieces: list[bytes]) -> list[Frame]:
    splitter = FrameSplitter()
    return [frame for piece in pieces for frame in splitter.feed(piece)] + splitter.close()


@given(streams, st.data())
def test_frames_joined_are_the_stream_for_every_cut(stream: bytes, data: st.DataObject) -> None:
    points = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    edges = [0, *points, len(stream)]
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    frames = _split(pieces)
    assert b"".join(frame.raw for frame in frames) == stream
    assert [f.data for f in frames if f.data is not None] == [
        f.data for f in _split([stream]) if f.data is not None
    ]


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\r\n\r\n", b"x"),
        (b"data: x\r\r", b"x"),
        (b"data:  x\n\n", b" x"),
        (b"data: a\ndata: b\n\n", b"a\nb"),
        (b"data\n\n", None),
        (b"data:\ndata\n\n", None),
        (b"data:\ndata: x\n\n", b"\nx"),
        (b"database: x\n\n", None),
        (b"\xef\xbb\xbfdata: x\n\n", b"x"),
        (b": comment\n\n", None),
        (b"Data: x\n\n", None),
        (b" data: x\n\n", None),
        (b"event: e\nid: 1\ndata: x\n\n", b"x"),
    ],
)
def test_data_is_read_as_the_standard_says(raw: bytes, data: bytes | None) -> None:
    assert [frame.data for frame in _split([raw])] == [data]


def test_a_frame_leaves_with_the_byte_that_ends_it() -> None:
    for end in (b"\n\n", b"\r\r", b"\r\n\r"):
        splitter = FrameSplitter()
        assert splitter.feed(b"data: x" + end[:-1]) == []
        assert splitter.feed(end[-1:]) == [Frame(b"data: x" + end)]


def test_an_oversize_frame_is_handed_on_in_pieces_and_the_next_one_is_whole() -> None:
    splitter = FrameSplitter(max_frame=100)
    frames = [f for _ in range(50) for f in splitter.feed(b"data: 789\n")]
    frames += splitter.feed(b"\ndata: x\n\n")
    assert [frame.whole for frame in frames][-2:] == [False, True]
    assert not any(frame.whole for frame in frames[:-1])
    assert b"".join(f.raw for f in frames) == b"data: 789\n" * 50 + b"\ndata: x\n\n"


def test_encoded_frames_use_lf_and_put_data_last() -> None:
    assert encode_event({"type": "ping"}).raw == b'event: ping\ndata: {"type":"ping"}\n\n'
    other = Frame(b"id: 1\r\ndata: x\r\n: c\r\n\r\n").other_lines
    assert encode_chunk({}, other).raw == b"id: 1\n: c\ndata: {}\n\n"


BOM = b"\xef\xbb\xbf"
STARTS = {
    b"data: {}\n\n": True,
    b"data:{}": True,
    b": comment": True,
    b":": True,
    b"event: x\ndata: 1": True,
    b"id: 7\n": True,
    b"retry: 10\n": True,
    BOM + b"data: {}": True,
    b"\r\n\n" + b"data: {}": True,
    b'{"data": 1}': False,
    b"[": False,
    BOM + b"{}": False,
    b"<html>": False,
    b"the event: none": False,
    b"database": False,
    b"\xff": False,
    b"": None,
    b"dat": None,
    b"event": None,
    BOM[:2]: None,
    BOM: None,
    BOM + b"d": None,
    b"\n \n": None,
    b"\n" * 64: False,
    b"\n" * 1000 + b"data: 1": False,
}


@pytest.mark.parametrize("start", STARTS)
def test_the_first_bytes_tell_an_event_stream(start: bytes) -> None:
    assert is_event_stream(start) is STARTS[start]
    assert is_event_stream(bytearray(start)) is STARTS[start]


@given(st.sampled_from(list(STARTS)), st.binary(max_size=80))
def test_what_is_told_is_not_taken_back(start: bytes, more: bytes) -> None:
    tells = is_event_stream(start)
    assert tells is None or is_event_stream(start + more) is tells


def test_a_mark_of_byte_order_behind_a_line_end_that_was_cut() -> None:
    stream = b"data: a\r\r\n\xef\xbb\xbfdata: b\n\n"
    for at in range(len(stream)):
        frames = _split([stream[:at], stream[at:]])
        assert [frame.data for frame in frames if frame.data is not None] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("raw", "done"),
    [
        (b"data: [DONE]\n\n", True),
        (b"data:[DONE]\r\n\r\n", True),
        (b"data:  [DONE] \n\n", True),
        (b"\xef\xbb\xbfdata: [DONE]\n\n", True),
        (b"event: done\ndata: [DONE]\n\n", True),
        (b"data: [DONE]", True),
        (b'data: "[DONE]"\n\n', False),
        (b"data: [DONE]...\n\n", False),
        (b": [DONE]\n\n", False),
    ],
)
def test_the_end_of_a_chat_stream(raw: bytes, done: bool) -> None:
    assert Frame(raw).is_done is done
    # The facts of a turn are read as the bridge reads it.
    body = b'data: {"choices":[]}\n\n' + raw.lstrip(b"\xef\xbb\xbf")
    assert read_reply(body).facts.early is not done


def test_a_fault_within_a_piece_leaves_what_was_held_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"data: be") == []

    def fault(_: bytes) -> None:
        raise MemoryError

    monkeypatch.setattr(sse, "frames_in", fault)
    with pytest.raises(MemoryError):
        splitter.feed(b"gun, and ended\n\n")
    assert [frame.raw for frame in splitter.close()] == [b"data: be"]


@pytest.mark.parametrize(
    "nothing", [b"\n", b"\r\n", b":\n\n", b": c\r\rdata\n\n", b"data:\n\n", b"data: \n\n"]
)
def test_what_carries_nothing_is_few_frames(nothing: bytes) -> None:
    stream = nothing * 5000 + b"data: x\n\n" + nothing * 5000
    for size in (len(stream), 1000, 7):
        frames = _split([stream[at : at + size] for at in range(0, len(stream), size)])
        assert b"".join(frame.raw for frame in frames) == stream
        assert [frame.data for frame in frames if frame.data is not None] == [b"x"]
        assert len(frames) <= 2 * -(-len(stream) // size) + 1
