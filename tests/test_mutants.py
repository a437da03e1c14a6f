"""`make mutants` changes what a test can notice, and runs the tests that may."""

from __future__ import annotations

import ast
from array import array

import pytest

from .mutants.changes import ADDON, changes, mutants_of
from .mutants.coverage import Coverage


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ("return a < 3", {"a <= 3", "4"}),
        ("return a < LIMIT", {"a >= LIMIT"}),
        ("return len(a) > self.MAX_TEXT", {"len(a) <= self.MAX_TEXT"}),
        ("return a and not b", {"a or not b", "b"}),
        ("a.b = True", {"pass", "False"}),
        ("a = c()", set()),
        ("a()", {"pass"}),
        ("logger.info('a')", set()),
        ("a: Literal[1] = 2", {"3"}),
        ("assert a > 1", set()),
        ("'a'", set()),
        ("return f'{a + 1}'", set()),
        ("raise Refused('a', status=409)", {"410"}),
    ],
)
def test_what_is_changed(body: str, changed: set[str]) -> None:
    tree = ast.parse(f"X = 1\ndef f(a, b):\n  {body}\n")
    assert {ast.unparse(other) for _, other, _ in changes(tree)} == changed


def test_a_mutant_changes_one_place_and_no_line_number() -> None:
    path = next(ADDON.glob("wire/*progress.py")).relative_to(ADDON)
    lines = [
        (ast.unparse(node), node.lineno)
        for node in ast.walk(ast.parse((ADDON / path).read_bytes()))
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef)
    ]
    for mutant in list(mutants_of(path))[::9]:
        made = [
            (ast.unparse(node), node.lineno)
            for node in ast.walk(mutant.tree())
            if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        ]
        assert [line for _, line in made] == [line for _, line in lines]
        assert made != lines


def test_tests_run_the_quick_ones_first_and_one_row_of_each_table_before_the_second() -> None:
    names = ["a::t[1]", "a::t[2]", "b::u", "b::slow", "c::other"]
    lines = Coverage(names, [0.1, 0.2, 0.3, 9.0, 0.0], ran={("f", 1): array("H", range(4))})
    ran = lines.of([("f", 1)])
    assert [names[test] for test in lines.in_turn(ran, 99)] == [
        *("a::t[1]", "b::u", "b::slow", "a::t[2]")
    ]
    assert [names[test] for test in lines.in_turn(ran, 1)] == ["a::t[1]", "b::u"]


def test_rows_that_were_not_run_follow_those_of_their_table() -> None:
    names = ["a::t[1]", "a::t[2]", "a::t[3]", "b::u", "c::other[1]", "c::other[2]"]
    lines = Coverage(names, [0.1] * 6, ran={("f", 1): array("H", [0, 3])})
    lines.others = {"a::t": [1, 2], "c::other": [5]}
    ran = lines.in_turn(lines.of([("f", 1)]), 99)
    assert [names[test] for test in ran] == ["a::t[1]", "b::u", "a::t[2]", "a::t[3]"]
