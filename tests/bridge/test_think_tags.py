"""The splitter of inline reasoning: nothing lost, nothing moved, however it is cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.reply.think_tags import ThinkSplitter

pieces_of_text = st.lists(
    st.sampled_from(["<think>", "</think>", "<", "think", "/", ">", " ", "\n", "word", "é"]),
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


@given(pieces_of_text)
def test_the_split_is_what_the_tags_say(pieces: list[str]) -> None:
    whole = "".join(pieces)
    if not whole.lstrip().startswith("<think>"):
        assert split(pieces) == ("", whole)
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
    released = "".join(text for _ in range(1002) for _, text in splitter.feed(" "))
    assert released == " " * 1002
