"""The JSON follower agrees with a JSON parser, at every cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.json_progress import JsonProgress


def _status(text: str, cuts: list[int]) -> tuple[str, int]:
    follower = JsonProgress()
    at = 0
    for end in [*sorted(cuts), len(text)]:
        at = follower.follow(text, at, max(at, min(end, len(text))))
    broken = "broken" if follower.broken else "open"
    return "complete" if follower.complete else broken, at


finite = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(max_size=5), finite, max_size=3),
    st.lists(st.integers(0, 200)),
    st.booleans(),
)
def test_an_object_is_complete_behind_its_last_brace_and_not_before(
    value: object, cuts: list[int], pretty: bool
) -> None:
    text = json.dumps(value, indent=1 if pretty else None)
    assert _status(text, cuts) == ("complete", len(text))
    for end in range(0, len(text), 7):
        assert _status(text[:end], [])[0] == "open"


@given(st.text(alphabet='{}[]",:\\ 1ta\n', max_size=20))
def test_what_a_parser_accepts_is_never_broken_and_broken_never_parses(text: str) -> None:
    status, at = _status(text, [])
    try:
        json.loads(text, strict=False)
    except ValueError:
        return
    assert status != "broken"
    assert at == len(text) or not text[at:].strip()


def test_any_depth_is_followed() -> None:
    """What a call may hold bounds it."""
    assert _status("[" * 100_000, [])[0] == "open"
    assert _status("[" * 100_000 + "]" * 100_000, [])[0] == "complete"


@given(finite, st.data())
def test_what_ends_before_its_end_is_broken(value: object, data: st.DataObject) -> None:
    text = json.dumps([value])
    end = data.draw(st.integers(0, len(text)))
    follower = JsonProgress()
    follower.follow(text, 0, end)
    follower.end()
    assert (follower.complete, follower.broken) == (end == len(text), end < len(text))


@pytest.mark.parametrize("pieces", [["[", "1,", "2,", "3]"], ["[", '"a",', ' "b", ', "3]"]])
def test_an_array_that_is_cut_after_a_comma_is_complete_at_its_end(pieces: list[str]) -> None:
    progress = JsonProgress()
    for piece in pieces:
        assert not progress.complete
        assert progress.follow(piece, 0, len(piece)) == len(piece)
    assert progress.complete
