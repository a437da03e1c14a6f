"""The tokens that an upstream counted are the same for the client, the page and the headline."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.inspect.parse.reply import parse_reply
from dragoman.wire.usage import Counts, counts, merged
from tests.repair.streams import summarize

from ..bridge.replying import chunk, run, text

CHAT = {"prompt_tokens": 100, "completion_tokens": 20}


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        (CHAT, (100, 20)),
        ({"input_tokens": 100, "output_tokens": 20}, (100, 20)),
        ({"prompt_tokens": 100.0, "completion_tokens": 20.0}, (100, 20)),
        ({"prompt_tokens": 100, "completion_tokens": None}, (100, None)),
        ({"prompt_tokens": -1, "completion_tokens": 20}, (None, 20)),
        ({"prompt_tokens": True, "completion_tokens": 20}, (None, 20)),
        ({"prompt_tokens": 2**60, "completion_tokens": 20}, (None, 20)),
        ({"prompt_tokens": "100"}, None),
        ({}, None),
        ([], None),
    ],
)
@pytest.mark.parametrize("in_choice", [False, True])
def test_all_who_read_a_usage_agree(
    usage: Any, read: tuple[int | None, int | None] | None, in_choice: bool
) -> None:
    last = chunk(finish="stop", choice={"usage": usage}) if in_choice else chunk(finish="stop")
    if not in_choice:
        last["usage"] = usage
    body = b"".join(b"data: %b\n\n" % json.dumps(c).encode() for c in (text("a"), last))

    got = run([text("a"), last])
    assert ("estimated usage" in got.noted) is (None in (read or [None]))
    told = got.response["usage"]
    found = parse_reply(body).usage
    seen = summarize(body)
    assert (found and (found.input, found.output)) == read
    assert (seen.input_tokens, seen.output_tokens) == (read or (None, None))
    for name, number in zip(("input_tokens", "output_tokens"), read or (), strict=False):
        assert number is None or told[name] == number


def test_the_usage_of_a_response_is_read_in_the_event_that_holds_it() -> None:
    response = {"usage": {"input_tokens": 3, "output_tokens": 4}}
    for value in (response, {"type": "response.completed", "response": response}):
        found = counts(value)
        assert found is not None and (found.input, found.output) == (3, 4)


def test_what_the_beginning_counts_stays_where_the_end_does_not_say_it() -> None:
    known = Counts(input=100, output=1, cached=40, written=50)
    assert merged(known, Counts(output=20)) == Counts(100, 20, None, 40, 50)
    assert merged(known, Counts(input=9, output=20)) == Counts(9, 20)
    assert merged(known, None) == merged(None, known) == known
