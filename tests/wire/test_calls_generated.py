"""Every way of saying one call or two, with what is then to be told of them.

The ways are those of hosts: the index given, missing or always 0; the ids distinct, shared
or missing; the name in the head or in every delta; the head with the first of the
arguments or without any.  Two calls of one function that differ neither in index nor in
id, the second without any arguments, are ambiguous: they are one call.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

import pytest

from ..bridge.replying import Run, call, calls, chunk, ended, run

ARGUMENTS = ('{"n":[1,{"a":"}{"}]}', '{"m":"x"}')
NAMES = {"one function": ("echo", "echo"), "two functions": ("echo", "weather")}


@dataclass(frozen=True)
class Way:
    count: int
    names: str
    index: str
    ids: str
    every: bool
    """Whether the name (and the id) stands in every delta."""
    bare: bool
    """Whether the head comes without arguments."""
    cuts: int
    trailing: bool
    """Whether a last delta says nothing but what every delta says."""

    def deltas(self) -> list[dict[str, Any]]:
        return [delta for number in range(self.count) for delta in self.call(number)]

    def call(self, number: int) -> list[dict[str, Any]]:
        index = {"given": number, "missing": None, "repeated": 0}[self.index]
        call_id = {"distinct": f"c{number}", "shared": "c", "missing": None}[self.ids]
        name = NAMES[self.names][number]
        arguments = ARGUMENTS[number]
        size = -(-len(arguments) // self.cuts)
        pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
        pieces = ([""] if self.bare else []) + pieces + ([""] if self.trailing else [])
        told = [call(index, pieces[0], name=name, call_id=call_id)]
        for piece in pieces[1:]:
            head = {"name": name, "call_id": call_id} if self.every else {}
            told.append(call(index, piece, **head))
        return told


WAYS = [
    Way(*choices)
    for choices in itertools.product(
        (1, 2),
        NAMES,
        ("given", "missing", "repeated"),
        ("distinct", "shared", "missing"),
        (False, True),
        (False, True),
        (1, 5),
        (False, True),
    )
]


def heard(got: Run) -> list[tuple[str, Any]]:
    assert got.response["status"] == "completed"
    return [(item["name"], json.loads(item["arguments"])) for item in got.output]


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True], ids=["chunk by chunk", "in one chunk"])
@pytest.mark.parametrize("count", [1, 2])
def test_every_way_of_saying_calls_is_those_calls(count: int, together: bool) -> None:
    wrong = []
    for way in WAYS:
        if way.count != count:
            continue
        deltas = way.deltas()
        values = [calls(*deltas)] if together else [calls(delta) for delta in deltas]
        got = heard(run([*values, *ended("tool_calls")]))
        if got != list(zip(NAMES[way.names], map(json.loads, ARGUMENTS), strict=True))[:count]:
            wrong.append((way, got))
    assert wrong == []


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("ids", ["distinct", "shared", "missing"])
def test_calls_that_are_mixed_are_told_apart_by_their_index(names: str, ids: str) -> None:
    for every, bare in itertools.product((False, True), repeat=2):
        way = Way(2, names, "given", ids, every, bare, 3, False)
        mixed = itertools.zip_longest(way.call(0), way.call(1))
        if ids == "shared" and not bare and names == "one function":
            continue  # the second head may as well be more of the first call
        values = [calls(*(delta for delta in pair if delta)) for pair in mixed]
        got = heard(run([*values, *ended("tool_calls")]))
        assert [arguments for _, arguments in got] == [*map(json.loads, ARGUMENTS)], way


def test_a_second_head_without_arguments_that_differs_in_nothing_is_no_call() -> None:
    head = call(0, "", name="echo", call_id="c")
    got = run([calls(head), calls(call(0, ARGUMENTS[0])), calls(head), *ended("tool_calls")])
    assert heard(got) == [("echo", json.loads(ARGUMENTS[0]))]
    assert "skipped head of a call like the one before" in got.noted


@pytest.mark.parametrize("cuts", [["mcp__files__", "read"], ["mcp", "__files", "__r", "ead"]])
@pytest.mark.parametrize("index", [0, None])
def test_a_name_that_is_cut_over_deltas_is_one(cuts: list[str], index: int | None) -> None:
    heads = [calls(call(index, "", name=piece)) for piece in cuts]
    got = run([*heads, calls(call(index, "{}")), chunk(finish="tool_calls")])
    (item,) = got.output
    assert (item["name"], item["namespace"]) == ("read", "mcp__files")
