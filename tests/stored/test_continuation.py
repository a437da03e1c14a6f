"""The conversations that are ready: found by all of their responses, and bounded."""

from __future__ import annotations

import gc

from dragoman.stored.continuation import ENTRY, Conversation, Conversations
from dragoman.wire.slices import drained

ALICE, BOB = b"alice", b"bob"
ITEM = {"type": "message", "content": "Hi."}
SAID = drained(Conversation().continued([ITEM] * 30))


def test_a_conversation_is_found_by_its_owner_and_all_its_responses() -> None:
    ready = Conversations()
    ready.add(ALICE, ["a", "b"], SAID)
    assert ready.find(ALICE, ["a", "b"]) is SAID
    for asker, ids in ((BOB, ["a", "b"]), (ALICE, ["a"]), (ALICE, ["b"]), (ALICE, ["x", "b"])):
        assert ready.find(asker, ids) is None


def test_a_response_that_changes_takes_all_conversations_with_it() -> None:
    ready = Conversations()
    for ids in (["a"], ["a", "b"], ["a", "b", "c"], ["d"]):
        ready.add(ALICE, ids, SAID)
    ready.add(BOB, ["b"], SAID)
    ready.changed(ALICE, "b")
    assert ready.find(ALICE, ["a"]) is ready.find(ALICE, ["d"]) is ready.find(BOB, ["b"]) is SAID
    assert ready.find(ALICE, ["a", "b"]) is ready.find(ALICE, ["a", "b", "c"]) is None


def test_what_was_used_the_longest_ago_makes_room() -> None:
    size = len(SAID.texts[0]) + 3 * ENTRY + 1
    ready = Conversations(max_bytes=3 * size)
    for name in "abc":
        ready.add(ALICE, [name], SAID)
    assert ready.find(ALICE, ["a"])
    for _ in range(5):
        ready.add(ALICE, ["d"], SAID)
    assert [ready.find(ALICE, [name]) is not None for name in "abcd"] == [True, False, True, True]
    ready.add(ALICE, ["e"], Conversation([b" " * 4 * size]))
    assert [ready.find(ALICE, [name]) for name in "abcde"] == [None] * 5
    ready.add(ALICE, ["a"], SAID)
    assert ready.find(ALICE, ["a"]) is SAID
    ready.clear()
    assert ready.find(ALICE, ["a"]) is None


def test_what_is_ready_is_nothing_that_the_collector_looks_at() -> None:
    conversation = drained(SAID.continued([ITEM]))
    assert not any(map(gc.is_tracked, conversation.texts))
    assert drained(conversation.items()) == [ITEM] * 31
