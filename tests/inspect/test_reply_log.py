"""What is kept of a side of a flow: the first bytes and the last ones, within a limit."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.parse.frames import gap, gap_in
from dragoman.proxy.observe.reply_log import Body, Tail


@given(st.integers(0, 50), st.lists(st.binary(max_size=30), max_size=20))
def test_the_first_and_the_last_bytes_are_kept(limit: int, pieces: list[bytes]) -> None:
    body = Body(limit)
    for piece in pieces:
        body.add(piece)
    whole = b"".join(pieces)
    assert body.total == len(whole)
    assert body.missing == max(0, len(whole) - limit)
    assert body.head == whole[: limit - limit // 2]
    assert body.tail == whole[len(whole) - len(body.tail) :]
    if body.missing and limit:
        assert body.kept == body.head + gap(body.missing) + body.tail
    else:
        assert body.kept == whole[:limit]


def test_where_the_gap_is_can_be_found() -> None:
    body = Body(2000)
    for number in range(100):
        body.add(b"data: %02d\n\n" % number * 10)
    ends, shift = gap_in(body.kept, body.missing)
    assert body.kept[ends:] == body.tail
    assert ends + shift + len(body.tail) == body.total
    assert gap_in(b"data: 1\n\n", 5) == (10, 0)
    assert gap_in(body.kept, 0)[1] == 0


@given(st.integers(1, 300), st.lists(st.binary(max_size=200)))
def test_a_tail_is_the_last_bytes_of_all_that_passed(limit: int, pieces: list[bytes]) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    assert tail.kept == b"".join(pieces)[-limit:]


def test_a_piece_that_is_kept_twice_takes_its_memory_once() -> None:
    piece = bytes(1000)
    sides = Body(10_000), Body(10_000)
    before = sys.getrefcount(piece)
    for side in sides:
        side.add(piece)
    assert sys.getrefcount(piece) == before + 2
