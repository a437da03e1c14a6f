"""The envelope that carries reasoning through a client's `encrypted_content`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.responses.envelope import open_sealed, seal

ANY_TEXT = st.text(st.characters(codec=None))


@given(ANY_TEXT)
def test_what_is_sealed_opens_to_the_same_text(text: str) -> None:
    assert open_sealed(seal(text)) == text


def test_lone_surrogates_survive() -> None:
    assert open_sealed(seal("a\ud800b")) == "a\ud800b"


@given(ANY_TEXT)
def test_an_envelope_is_ascii_and_always_the_same(text: str) -> None:
    assert seal(text) == seal(text)
    assert seal(text).isascii()


@given(st.text(min_size=1), st.data())
def test_a_cut_envelope_does_not_open(text: str, data: st.DataObject) -> None:
    sealed = seal(text)
    end = data.draw(st.integers(0, len(sealed) - 1))
    assert open_sealed(sealed[:end]) is None


@given(st.text(min_size=1), st.data())
def test_an_envelope_with_a_changed_character_does_not_open_to_another_text(
    text: str, data: st.DataObject
) -> None:
    sealed = seal(text)
    at = data.draw(st.integers(0, len(sealed) - 1))
    changed = sealed[:at] + data.draw(st.characters()) + sealed[at + 1 :]
    assert open_sealed(changed) in (None, text)


@pytest.mark.parametrize(
    "foreign",
    [
        None,
        42,
        {"text": "x"},
        "",
        "gAAAAABm1f0-another-vendors-ciphertext",
        "dragoman.1.",
        "dragoman.1..",
        "dragoman.2." + seal("x").removeprefix("dragoman.1."),
        "dragoman.1.0123456789abcdef.ö",
    ],
)
def test_what_is_not_ours_does_not_open(foreign: object) -> None:
    assert open_sealed(foreign) is None
