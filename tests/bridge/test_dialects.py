"""Which client gets which dialect."""

from __future__ import annotations

import pytest

from dragoman.responses.dialects import CODEX, GUIDE, OPENAI, OPENRESPONSES, Dialect, choose


@pytest.mark.parametrize(
    ("option", "originator", "user_agent", "wanted"),
    [
        ("auto", "codex_exec", "codex_exec/0.169.0", CODEX),
        ("auto", "", "codex_cli_rs/0.58", CODEX),
        ("auto", "Codex Desktop", "Mozilla", CODEX),
        ("auto", "", "OpenAI/Python 3.52.0", OPENAI),
        ("auto", "", "not codex", OPENAI),
        ("guide", "codex_exec", "", GUIDE),
        ("openresponses", "", "", OPENRESPONSES),
        ("unheard of", "", "", OPENAI),
    ],
)
def test_a_named_dialect_counts_else_codex_is_known_by_its_headers(
    option: str, originator: str, user_agent: str, wanted: Dialect
) -> None:
    assert choose(option, originator=originator, user_agent=user_agent) is wanted
