"""The splitter of inline reasoning: nothing lost, nothing moved, however it is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.bridge.reply.think_tags import SplitText, ThinkSplitter
from dragoman.wire.reply_bounds import MAX_BLANK

pieces_of_text = st.lists(
    st.sampled_from(
        [
            *("<think>", "</think>", "</thinking>", "<thinking>", "<", "think", "/", ">", "`"),
            *(" ", "\n", "\t", "word", "é"),
        ]
    ),
    max_size=14,
)


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThinkSplitter()
    out = [piece for text in pieces for piece in splitter.feed(text)] + splitter.close()
    assert all(text for _, text in out)
    joined = {kind: "".join(t for k, t in out if k == kind) for kind in ("reasoning", "text")}
    return joined["reasoning"], joined["text"]


@given(pieces_of_text)
def test_the_split_does_not_depend_on_the_cut(pieces: list[str]) -> None:
    whole = "".join(pieces)
    assert split(pieces) == split([whole] if whole else []) == split(list(whole))


def unopened(whole: str) -> str:
    """A text without the first of its tags, if that is a closing one at its start or at the end of
    a line, and not quoted."""
    first = re.search("</?think(ing)?>", whole)
    if first is None or first[0].startswith("<t"):
        return whole
    before, after = whole[: first.start()], whole[first.end() :]
    if not before.strip():
        return after.lstrip()
    ends = re.match(r"[ \t\r]*(\n|\Z)", after) and not before.endswith("`")
    return before + after if ends else whole


@given(pieces_of_text)
@example(["a", "`", "</think>"])
def test_the_split_is_what_the_tags_say(pieces: list[str]) -> None:
    whole = "".join(pieces)
    if not whole.lstrip().startswith("<think>"):
        assert split(pieces) == ("", unopened(whole))
        return
    thought, close, rest = whole.lstrip().removeprefix("<think>").partition("</think>")
    thought = thought.lstrip()
    assert split(pieces) == (thought, rest.lstrip() if close else "")


def test_no_more_than_a_tag_is_held_back() -> None:
    splitter = ThinkSplitter()
    assert splitter.feed("<think>a") == [("reasoning", "a")]
    assert splitter.feed("b</thin") == [("reasoning", "b")]
    assert splitter.feed("g c") == [("reasoning", "</thing c")]
    assert splitter.feed("</think>d") == [("text", "d")]
    assert splitter.passive


def test_blanks_are_not_held_for_ever() -> None:
    splitter = ThinkSplitter()
    released = "".join(text for _ in range(MAX_BLANK + 2) for _, text in splitter.feed(" "))
    assert released == " " * (MAX_BLANK + 2)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("tag", ["</think>", "</thinking>"])
def test_what_stands_before_a_closing_tag_alone_was_reasoning_if_that_was_asked_for(
    tag: str, asked: bool
) -> None:
    splitter = ThinkSplitter()
    pieces = splitter.whole(f"So it is.\n{tag}\n\nYes.", asked_for=asked)
    thought: list[SplitText] = [("reasoning", "So it is."), ("text", "Yes.")]
    assert pieces == (thought if asked else [("text", "So it is.\n\n\nYes.")])
    for text in (f"`{tag}`", f"The tag {tag} ends it.", f"<think>{tag}"):
        assert (
            "".join(t for _, t in ThinkSplitter().whole(f"a {text}", asked_for=asked))
            == f"a {text}"
        )
