"""Every regular expression of the addon costs time in proportion to the text that it meets."""

from __future__ import annotations

import ast
import functools
import random
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import process_time
from typing import Any

import pytest

from tests.expressions import (
    Found,
    Text,
    calls_of_re,
    expressions,
    hard_texts,
    module_names,
    used,
)

SMALL, LARGE = (250, 8), (1500, 11)
"""Characters of the shorter text, and how many times as much one that is four times as long may
cost: linear is 4 to 6, quadratic 16.  The small one is no proof that an expression is not linear:
it is shorter than what some may repeat."""
FLOOR = 0.00015
"""Seconds below which the small text is no evidence: a quadratic expression takes twice as long,
and a linear one some 20 µs."""
LIMIT = 1.0
"""Seconds of this process after which a text is too hard: no linear expression takes so long for
all of its runs."""
TEXTS = 250
"""Of those for an expression, if there are more."""


class TooHardError(Exception):
    pass


@contextmanager
def limited() -> Iterator[Callable[[], None]]:
    """An expression that does not come to an end is interrupted; the function that is given has
    the time begin anew.  (A timer of the process' own time would make that time coarse: steps of
    4 ms.)"""
    begin = process_time()

    def restart() -> None:
        nonlocal begin
        begin = process_time()

    def stop(*_: object) -> None:
        if process_time() - begin > LIMIT:
            raise TooHardError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, LIMIT)
    try:
        yield restart
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def seconds(pattern: re.Pattern[Any], use: str, text: Any, runs: int = 1) -> float:
    """The least time of several runs."""
    taken = []
    for _ in range(runs):
        begin = process_time()
        used(pattern, use, text)
        taken.append(process_time() - begin)
    return min(taken)


def grows(
    pattern: re.Pattern[Any], use: str, text: Text, size: int, times: float, *, runs: Sequence[int]
) -> bool:
    """Whether four times the text costs more than so many times as much, in each of so many runs.
    What else runs on this computer may slow down one measurement, but not all."""
    long = text.sized(4 * size, pattern.pattern)
    if seconds(pattern, use, long) < FLOOR:
        return False
    short = text.sized(size, pattern.pattern)
    return all(
        seconds(pattern, use, long, each) > times * seconds(pattern, use, short, each)
        for each in runs
    )


@functools.cache
def by_module() -> dict[str, list[Found]]:
    """They are looked for once a test runs, in one process: to find them takes seconds."""
    found: defaultdict[str, list[Found]] = defaultdict(list)
    for each in expressions():
        found[each.name.partition(":")[0]].append(each)
    return found


def too_hard(pattern: re.Pattern[Any], uses: Collection[str], most: int = TEXTS) -> dict[str, str]:
    """By use, a text that is not linear, in short."""
    texts = hard_texts(pattern)
    texts = texts if len(texts) <= most else random.Random(most).sample(texts, most)
    found = {use: first_hard(pattern, use, texts) for use in uses}
    return {
        use: f"{text.begin[:20]!r} {text.body[:40]!r}… {text.end!r}"
        for use, text in found.items()
        if text is not None
    }


def first_hard(pattern: re.Pattern[Any], use: str, texts: list[Text]) -> Text | None:
    text = None
    try:
        with limited() as restart:
            for text in texts:
                restart()
                if grows(pattern, use, text, *SMALL, runs=(1,)) and grows(
                    pattern, use, text, *LARGE, runs=(1, 3, 9)
                ):
                    return text
    except TooHardError:
        return text
    return None


@pytest.mark.parametrize("module", module_names())
def test_four_times_the_text_costs_at_most_eleven_times_the_time(
    module: str, pytestconfig: pytest.Config
) -> None:
    most = 100_000 if pytestconfig.getoption("thorough") else TEXTS
    hard = {each.name: too_hard(each.pattern, each.uses, most) for each in by_module()[module]}
    assert {name: texts for name, texts in hard.items() if texts} == {}


def test_every_expression_can_be_found() -> None:
    """One that is made while a reply is read could not."""
    made = [ast.unparse(call) for _, call, _ in calls_of_re()]
    assert [call for call in made if not re.match(r"re\.\w+\(b?r?['\"]", call)] == []
    assert sum(map(len, by_module().values())) > 200
    assert set(by_module()) <= set(module_names())


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
    assert any(too_hard(re.compile(hard), {use}) for _ in range(5))
    assert not too_hard(re.compile(easy), {use})
