"""What the list shows of a flow."""

from __future__ import annotations

from unicodedata import east_asian_width

import pytest
from mitmproxy.utils.emoji import emoji

from dragoman.proxy.observe.monitor import MARKS


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_a_sign_of_one_column_that_a_font_without_emoji_has(mark: str) -> None:
    sign = emoji[mark]
    assert sign < "\u2800", "the basic plane: arrows, symbols and dingbats"
    assert east_asian_width(sign) in "NA", "what is shown in colour is wide"


def test_each_mark_is_a_sign_of_its_own() -> None:
    assert len({emoji[mark] for mark in MARKS}) == len(MARKS)
