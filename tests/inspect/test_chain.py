"""Turns of one conversation are found by what they say."""

from __future__ import annotations

import json
from typing import Any

from dragoman.inspect.chain import History, history_of, turns_of_chain
from tests.inspect.exchanges import same


def chat(*messages: str) -> History:
    said = [{"role": "user", "content": text} for text in messages]
    return history_of(same(b"", request=json.dumps({"messages": said}).encode()))


def test_turns_that_begin_with_one_another() -> None:
    turns = [chat("a"), chat("x"), chat("a", "b", "c"), chat("a", "b"), chat("a", "z"), chat()]
    assert turns_of_chain(turns, 0) == [0, 2, 3, 4]
    assert turns_of_chain(turns, 3) == [0, 2, 3]
    assert turns_of_chain(turns, 5) == [5]


def test_a_message_that_is_marked_for_a_cache_is_the_same_message() -> None:
    def turn(*contents: Any) -> History:
        said = [{"role": "user", "content": content} for content in contents]
        return history_of(same(b"", request=json.dumps({"messages": said}).encode()))

    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    assert turns_of_chain([turn([part]), turn("a", "b"), turn("b")], 0) == [0, 1]
