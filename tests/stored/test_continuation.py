"""The turns that are ready: found by who asks and by their response, and bounded."""

from __future__ import annotations

import gc

from dragoman.stored.continuation import ENTRY, ReadyTurns, writing_turn
from dragoman.stored.stored_response import StoredResponse
from dragoman.wire.json_codec import dumps
from dragoman.wire.slices import drained

ALICE, BOB = b"alice", b"bob"
TEXT = dumps([{"type": "message", "content": "Hi."}] * 30)


def test_a_turn_is_found_by_its_owner_and_its_response_until_that_changes() -> None:
    ready = ReadyTurns()
    ready.add(ALICE, "a", TEXT)
    ready.add(BOB, "b", TEXT)
    assert ready.find(ALICE, "a") is ready.find(BOB, "b") is TEXT
    assert ready.find(ALICE, "b") is ready.find(BOB, "a") is None
    for name in ("a", "b"):
        ready.drop(ALICE, name)
    assert ready.find(ALICE, "a") is None
    assert ready.find(BOB, "b") is TEXT


def test_what_was_used_the_longest_ago_makes_room() -> None:
    size = len(TEXT) + ENTRY
    ready = ReadyTurns(max_bytes=3 * size)
    for name in "abc":
        ready.add(ALICE, name, TEXT)
    assert ready.find(ALICE, "a")
    for _ in range(5):
        ready.add(ALICE, "d", TEXT)
    assert [ready.find(ALICE, name) is not None for name in "abcd"] == [True, False, True, True]
    ready.add(ALICE, "e", b" " * 4 * size)
    assert [ready.find(ALICE, name) for name in "abcde"] == [None] * 5
    ready.add(ALICE, "a", TEXT)
    assert ready.find(ALICE, "a") is TEXT
    ready.clear()
    assert ready.find(ALICE, "a") is None


def test_what_is_ready_is_nothing_that_the_collector_looks_at() -> None:
    kept = StoredResponse(response={"output": [{"type": "message"}] * 30}, request=b"{}")
    assert not gc.is_tracked(drained(writing_turn(kept)))
