"""The fields that carry text: whoever reads them finds the same text in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.chat.texts import (
    DETAILS,
    FIELDS_OF,
    TEXT_FIELDS,
    passages,
    reasoning,
    without_text,
    written,
)
from dragoman.inspect.pages.diff import carried
from dragoman.inspect.parse.reply import parse_reply
from tests.repair.streams import summarize

from ..bridge.replying import chunk, ended, run

TEXT = {"type": "reasoning.text", "text": "a", "signature": "s"}
SUMMARY = {"type": "reasoning.summary", "summary": "b"}
SECRET = {"type": "reasoning.encrypted", "data": "x"}


@pytest.mark.parametrize(
    ("delta", "thought"),
    [
        ({"reasoning_content": "a"}, "a"),
        ({"reasoning": "a"}, "a"),
        ({"reasoning_content": "a", "reasoning": "a", DETAILS: [TEXT]}, "a"),
        ({"reasoning_content": "a", "reasoning": "b"}, "ab"),
        ({"reasoning": "ab", DETAILS: [TEXT, SUMMARY]}, "ab"),
        ({DETAILS: [TEXT, SECRET, SUMMARY]}, "ab"),
        ({DETAILS: [SUMMARY]}, "b"),
        ({DETAILS: [SECRET]}, ""),
        ({DETAILS: "a", "reasoning": ["a"], "reasoning_content": None}, ""),
    ],
)
def test_all_who_read_reasoning_find_the_same(delta: dict[str, Any], thought: str) -> None:
    value = chunk(delta)
    got = run([value, *ended()])
    body = b"data: %b\n\n" % json.dumps(value).encode()
    assert reasoning(delta) == carried(value) == thought
    parts = [part for choice in parse_reply(body).choices for part in choice.parts]
    assert [getattr(part, "text", "") for part in parts] == [thought] * bool(thought)
    told = [item["summary"][0]["text"] for item in got.output if item["type"] == "reasoning"]
    assert "".join(told) == thought


@pytest.mark.parametrize("name", TEXT_FIELDS)
def test_every_field_of_text_has_one_passage(name: str) -> None:
    value = [TEXT] if name == DETAILS else "a"
    assert [text.text for text in passages({name: value})] == ["a"]


@pytest.mark.parametrize("name", [name for names in FIELDS_OF.values() for name in names])
def test_every_text_is_a_token_for_the_headline(name: str) -> None:
    value = [TEXT] if name == DETAILS else "a"
    assert summarize(b"data: %b\n\n" % json.dumps(chunk({name: value})).encode()).first_token


def test_a_text_is_put_back_where_it_stood() -> None:
    assert written(DETAILS, "new", [SECRET, TEXT]) == [TEXT | {"text": "new"}]
    assert written(DETAILS, "new", [SUMMARY]) == [SUMMARY | {"summary": "new"}]
    for other in ([SECRET], None):
        assert written(DETAILS, "new", other) == [{"type": "reasoning.text", "text": "new"}]
    assert written("content", "new", [{"type": "image"}]) == [{"type": "text", "text": "new"}]
    assert without_text(DETAILS, [SECRET, TEXT, SUMMARY]) == [SECRET]
    assert written("reasoning", "new", "old") == "new"
