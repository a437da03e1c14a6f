"""What is kept of the flows stays within its limit, whatever passes."""

from __future__ import annotations

import gc
import sys

from hypothesis import given
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.test import tflow

from dragoman.proxy.observe.byte_budget import TAIL, Body, Ledger, Tail


def test_one_body_keeps_its_beginning_and_its_end() -> None:
    body = Body(Ledger(100_000))
    for number in range(300):
        body.add(bytes([number % 256]) * 1000)
    assert body.kept == b"".join(bytes([number]) * 1000 for number in range(100))
    assert body.missing == 200_000
    assert len(body.tail) == TAIL
    assert body.tail.endswith(bytes([299 % 256]) * 1000)


def test_the_oldest_body_makes_room_for_a_new_one() -> None:
    ledger = Ledger(30)
    first, second, third = Body(ledger), Body(ledger), Body(ledger)
    first.add(b"a" * 10)
    second.add(b"b" * 10)
    third.add(b"c" * 20)
    assert (first.kept, second.kept, third.kept) == (b"", b"b" * 10, b"c" * 20)
    assert (first.missing, first.tail) == (10, b"a" * 10)


def test_what_a_flow_took_over_is_taken_from_it_again() -> None:
    ledger = Ledger(30)
    flow = tflow.tflow()
    body = Body(ledger)
    body.add(b"a" * 20)
    taken: list[http.HTTPFlow] = []
    assert body.hand_over(flow, ledger, taken.append) == b"a" * 20
    Body(ledger).add(b"b" * 5)
    assert taken == []
    Body(ledger).add(b"c" * 20)
    assert taken == [flow]


def test_a_flow_that_is_gone_gives_its_room_back() -> None:
    ledger = Ledger(30)
    flow = tflow.tflow()
    older, gone, newer = Body(ledger), Body(ledger), Body(ledger)
    older.add(b"o" * 10)
    gone.add(b"g" * 20)
    gone.hand_over(flow, ledger, lambda _: None)
    del flow
    gc.collect()
    newer.add(b"n" * 20)
    assert older.kept == b"o" * 10


def test_what_has_ended_makes_room_for_what_runs() -> None:
    ledger = Ledger(30)
    running, ended = Body(ledger), Body(ledger)
    running.add(b"r" * 10)
    ended.add(b"e" * 10)
    flow = tflow.tflow()
    taken: list[http.HTTPFlow] = []
    ended.hand_over(flow, ledger, taken.append)
    running.add(b"r" * 15)
    assert (running.kept, taken) == (b"r" * 25, [flow])


def test_a_lower_limit_holds_at_once() -> None:
    ledger = Ledger(30)
    first, second = Body(ledger), Body(ledger)
    first.add(b"a" * 10)
    second.add(b"b" * 10)
    ledger.limit = 15
    assert (first.kept, second.kept) == (b"", b"b" * 10)


def test_a_body_counts_where_it_was_handed_over() -> None:
    private, shared = Ledger(100), Ledger(15)
    older, captured = Body(shared), Body(private)
    older.add(b"o" * 10)
    captured.add(b"c" * 10)
    flow, before = tflow.tflow(), tflow.tflow()
    taken: list[http.HTTPFlow] = []
    older.hand_over(before, shared, taken.append)
    assert captured.hand_over(flow, shared, lambda _: None) == b"c" * 10
    assert taken == [before]


@given(
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=30)), max_size=60),
)
def test_all_that_is_kept_is_never_more_than_the_limit(
    limit: int, pieces: list[tuple[int, bytes]]
) -> None:
    ledger = Ledger(limit)
    bodies = [Body(ledger) for _ in range(6)]
    passed = [b""] * 6
    for number, piece in pieces:
        bodies[number].add(piece)
        passed[number] += piece
        assert sum(len(body.kept) for body in bodies) <= limit
    for body, whole in zip(bodies, passed, strict=True):
        assert whole.startswith(body.kept)
        assert body.total == len(whole) == len(body.kept) + body.missing
        if body.missing:
            assert whole.endswith(body.tail)


@given(st.integers(1, 300), st.lists(st.binary(max_size=200)))
def test_a_tail_is_the_last_bytes_of_all_that_passed(limit: int, pieces: list[bytes]) -> None:
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    assert tail.kept == b"".join(pieces)[-limit:]


def test_a_side_that_loses_its_beginning_as_well_keeps_its_last_bytes() -> None:
    ledger = Ledger(30)
    body = Body(ledger)
    body.add(b"a" * 40)
    body.add(b"b" * 10)
    ledger.limit = 20
    assert (body.kept, body.tail) == (b"", b"a" * 40 + b"b" * 10)


def test_a_piece_that_is_kept_twice_takes_its_memory_once() -> None:
    piece = bytes(1000)
    sides = Body(Ledger(10_000)), Body(Ledger(10_000))
    before = sys.getrefcount(piece)
    for side in sides:
        side.add(piece)
    assert sys.getrefcount(piece) == before + 2
