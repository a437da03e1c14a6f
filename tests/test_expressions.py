"""Every regular expression of the addon costs time in proportion to the text that it meets."""

from __future__ import annotations

import ast
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

import pytest

from tests.expressions import Found, calls_of_re, expressions, hard_texts, used

SIZE = 1500
"""Characters of the shorter text."""
FLOOR = 0.0002
"""Seconds below which a text is no evidence: a linear expression takes some 20 µs for it."""
LIMIT = 10.0
"""Seconds after which a text is too hard, whatever the next one takes.  A timer of the process' own
time would make that time coarse: steps of 4 ms."""
EXPRESSIONS = expressions()


class TooHardError(Exception):
    pass


@contextmanager
def limited() -> Iterator[None]:
    """An expression that does not come to an end is interrupted."""

    def stop(*_: object) -> None:
        raise TooHardError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds(pattern: re.Pattern[Any], use: str, text: Any, runs: int) -> float:
    """The least time of several runs."""
    taken = []
    for _ in range(runs):
        begin = process_time()
        used(pattern, use, text)
        taken.append(process_time() - begin)
    return min(taken)


def is_linear(pattern: re.Pattern[Any], use: str, short: Any, long: Any) -> bool:
    """Whether the long text costs at most eleven times as much: linear is 4 to 6, quadratic 16.
    What else runs on this computer may slow down one measurement, but not all."""
    try:
        with limited():
            if seconds(pattern, use, short, 1) < FLOOR:
                return True
            return any(
                seconds(pattern, use, long, runs) <= 11 * seconds(pattern, use, short, runs)
                for runs in (1, 3, 5, 9, 15)
            )
    except TooHardError:
        return False


def too_hard(pattern: re.Pattern[Any], use: str) -> str:
    """A text that is not linear, in short; empty if there is none."""
    for short, long in hard_texts(pattern, SIZE):
        if not is_linear(pattern, use, short, long):
            return f"{short[:40]!r}…{short[-20:]!r}"
    return ""


@pytest.mark.parametrize("found", EXPRESSIONS, ids=[each.name for each in EXPRESSIONS])
def test_four_times_the_text_costs_at_most_eleven_times_the_time(found: Found) -> None:
    hard = {use: text for use in found.uses if (text := too_hard(found.pattern, use))}
    assert hard == {}


def test_every_expression_can_be_found() -> None:
    """One that is made while a reply is read could not."""
    made = [ast.unparse(call) for _, call, _ in calls_of_re()]
    assert [call for call in made if not re.match(r"re\.\w+\(b?r?['\"]", call)] == []
    assert len(EXPRESSIONS) > 200


@pytest.mark.parametrize(
    ("use", "hard", "easy"),
    [
        (
            "match",
            r"\s*[a:]*(?:\s*:\s*[a:]*)*\s*\Z",
            r"\s*+(?:[a:]++(?:\s++(?=:)|(?<=:)\s++)?)*+\Z",
        ),
        (
            "match",
            r"(?:\s{0,9}[a-z]+=[^\s>]{1,200}){0,4}>",
            r"(?:\s{0,9}[a-z]+=[^\s>]{1,200}){0,4}+>",
        ),
        ("match", r"<a\s*=\s*([^<>]{0,200})\s*>", r"<a\s*+=\s*+([^<>]{0,200}+)\s*+>"),
        ("fullmatch", r"[\w\s]*={0,2}\s*", r"[\w\s]*+={0,2}\s*"),
        ("fullmatch", r"(?:a|aa)*b", r"(?:aa?+)*+b"),
        ("search", r"\s+\Z", r"(?<!\s)\s+\Z"),
        ("sub", r"<[^>]*>", r"<[^<>]*>"),
        ("finditer", rb"\"(?:[^\"\\]|\\.)*\"", rb"\"(?:[^\"\\]|\\.)*+(?:\"|\Z)"),
    ],
)
def test_what_is_not_linear_is_found(use: str, hard: Any, easy: Any) -> None:
    # On a busy machine the short text can take as long as a linear one's would, now and then.
    assert any(too_hard(re.compile(hard), use) for _ in range(5))
    assert not too_hard(re.compile(easy), use)
