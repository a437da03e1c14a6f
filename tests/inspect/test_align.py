"""Aligning two sides: every element once, in order, equals found."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.align import behind, stretches

sequences = st.lists(st.sampled_from("abcdefgh"), max_size=20)


@given(sequences, sequences)
def test_stretches_cover_both_sides_in_order(left: list[str], right: list[str]) -> None:
    a = c = 0
    for stretch in stretches(left, right):
        assert (stretch.a, stretch.c) == (a, c)
        a, c = stretch.b, stretch.d
        if stretch.same:
            assert left[stretch.a : stretch.b] == right[stretch.c : stretch.d] != []
    assert (a, c) == (len(left), len(right))


@given(sequences, sequences, sequences)
def test_a_change_between_equal_ends_is_all_that_differs(
    start: list[str], change: list[str], end: list[str]
) -> None:
    left = [*start, "X", *end]
    right = [*start, *(f"new {each}" for each in change), *end]
    different = [each for each in stretches(left, right) if not each.same]
    assert [(each.a, each.b) for each in different] == [(len(start), len(start) + 1)]
    assert [(each.c, each.d) for each in different] == [(len(start), len(start) + len(change))]


tokens = st.lists(st.text(st.characters(exclude_characters="<|\0"), min_size=1, max_size=5))


@given(tokens)
def test_a_token_stands_behind_the_frame_that_brought_it(pieces: list[str]) -> None:
    assert behind(pieces, list(pieces)) == list(range(1, len(pieces) + 1))


@given(tokens)
def test_custom_input_stands_behind_the_json_string_that_held_it(pieces: list[str]) -> None:
    upstream = [json.dumps(piece, ensure_ascii=False)[1:-1] for piece in pieces]
    places = behind(upstream, list(pieces))
    assert places == sorted(places)
    assert len(places) == len(pieces)


def test_markers_carry_nothing_that_a_client_received() -> None:
    upstream = ["<|tool_call_begin|>functions", ".a:0<|tool_call_argument_begin|>", '{"', "a"]
    assert behind(upstream, ["", '{"', "a"]) == [3, 3, 4]


def test_what_carries_nothing_at_the_end_stands_behind_it_all() -> None:
    assert behind(["a", "", ""], ["a", "", ""]) == [1, 3, 3]
