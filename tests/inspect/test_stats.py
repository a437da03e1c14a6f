"""Counts: they add up, whatever comes, and stay small."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inspect.outcome import Outcome
from dragoman.inspect.stats import (
    BOUNDS,
    MAX_FLOW_KINDS,
    MAX_MODELS,
    MAX_NAMES,
    OTHER,
    EndedFlow,
    Stats,
    aligned,
    counted,
)
from dragoman.notes import Evidence
from dragoman.repair.call_builder import CallBuilder
from dragoman.repair.call_namer import CallNamer
from dragoman.repair.call_rule import CallRule
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.formats.kimi_k2 import KIMI_K2
from dragoman.repair.formats.kimi_k2_names import header_of


def summary(**changes: Any) -> EndedFlow:
    values: dict[str, Any] = {
        "job": "repair",
        "host": "api.example.com",
        "model": "kimi-k2.5",
        "streamed": True,
        "outcome": Outcome("answered", "text"),
        "forms": {},
        "notes": {},
        "input_tokens": None,
        "output_tokens": None,
        "first_token": None,
        "longest_silence": None,
        "duration": 1.0,
        "parsed": True,
    }
    return EndedFlow(**(values | changes))


def table(stats: Stats) -> dict[str, str]:
    return dict(stats.totals().rows())


def test_flows_are_counted_by_what_came_of_them() -> None:
    stats = Stats()
    stats.add(summary())
    stats.add(summary(forms={"native id": 2}, job="bridge", streamed=False))
    stats.add(summary(outcome=Outcome("failed", "rate_limit_exceeded")))
    stats.add(summary(outcome=Outcome("failed", "refused by Dragoman: x"), parsed=False))
    stats.add(summary(outcome=Outcome("cut", "max tokens"), forms={"native id": 0}))
    stats.add(summary(outcome=Outcome("empty", "no answer, no call")))
    stats.add(summary(notes={"dropped": 1}))  # a stray marker
    stats.add(summary(notes={"left as text": 1}))
    stats.add(summary(notes={"dropped": 1}, job="bridge"))  # a tool that no chat host has
    rows = table(stats)
    assert (rows["flows"], rows["streams"], rows["whole replies"]) == ("9", "8", "1")
    assert (rows["clean"], rows["repaired"], rows["failed"]) == ("3", "2", "2")
    assert rows["cut off"] == rows["no answer, no call"] == "1"
    assert (rows["bridged"], rows["calls repaired"]) == ("2", "2")
    assert rows["call read from: native id"] == "2"
    assert rows["failure: rate_limit_exceeded"] == rows["failure: refused by Dragoman"] == "1"
    assert rows["no reply of an LLM"] == "1"


def test_tokens_add_up_and_unknown_ones_count_nothing() -> None:
    stats = Stats()
    for read, wrote in ((10, 2), (None, 3), (5, None), (-4, 0)):
        stats.add(summary(input_tokens=read, output_tokens=wrote))
    stats.add(summary(host="other", model="m", input_tokens=4, first_token=1.0))
    rows = table(stats)
    assert (rows["tokens in"], rows["tokens out"]) == ("19", "5")
    assert rows["other m"] == "flows 1 · tokens in 4 · tokens out 0 · first token p50 0.88 s"


@given(st.lists(st.floats(0, 700), min_size=1, max_size=60))
def test_quantiles_are_right_to_a_bucket(times: list[float]) -> None:
    stats = Stats()
    for seconds in times:
        stats.add(summary(first_token=seconds))
    found = stats.totals().times("first token")
    exact = sorted(times)[math.ceil(0.5 * len(times)) - 1]
    low = max((0.0, *(bound for bound in BOUNDS if bound < exact)))
    high = min((math.inf, *(bound for bound in BOUNDS if bound >= exact)))
    assert low <= found.quantile(0.5) <= high
    assert found.total == len(times)
    assert found.longest == max(times)
    assert found.sum == pytest.approx(statistics.fsum(times))
    assert found.quantile(0.5) <= found.quantile(0.95) <= found.longest


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, None])
def test_a_time_that_is_none_is_not_counted(seconds: float | None) -> None:
    stats = Stats()
    stats.add(summary(first_token=seconds))
    assert stats.totals().times("first token").total == 0
    assert "first token" not in table(stats)


def test_memory_is_bounded_and_nothing_goes_uncounted() -> None:
    stats = Stats()
    for n in range(MAX_FLOW_KINDS * 3):
        names = {"host": f"host{n % 97}", "model": f"model{n}"}
        stats.add(summary(**names, notes={f"note{n}": 1}, outcome=Outcome("failed", f"code{n}")))
    totals = stats.totals()
    assert len(totals.flows) <= MAX_FLOW_KINDS + 6
    assert len(totals.models) <= MAX_MODELS + 1
    assert totals.count("flows") == MAX_FLOW_KINDS * 3
    assert max(len(totals.notes), len(totals.failures)) <= MAX_NAMES + 1
    for counts in (totals.flows, totals.notes, totals.failures):
        assert sum(counts.values()) == MAX_FLOW_KINDS * 3
    assert totals.notes[OTHER] == MAX_FLOW_KINDS * 3 - MAX_NAMES


def test_what_was_counted_before_does_not_change() -> None:
    stats = Stats()
    stats.add(summary())
    before = stats.totals()
    rows = before.rows()
    stats.add(summary(forms={"native id": 1}))
    assert before.rows() == rows


def test_names_of_others_cannot_break_the_table() -> None:
    stats = Stats()
    stats.add(summary(host="\x1b[2J\n", model="\ud800" * 10_000, notes={"a\nb": 1}))
    assert all(cell.isprintable() for row in stats.totals().rows() for cell in row)
    assert len(aligned(stats.totals().rows()).split("\n")) == len(stats.totals().rows())


def test_forms_are_read_from_the_evidence_of_repair() -> None:
    evidence = Evidence()
    tools = DeclaredTools({"bash": {}, "x" * 120: {}})
    namer = CallNamer(tools)
    namer.begin(KIMI_K2, CallRule("any"))
    calls = CallBuilder(evidence, 0, tools)
    for header in ("functions.bash:0", "bash:1", "functions.bash:2", f"{'x' * 120}:3", "odd.one:1"):
        for start in namer.header(header_of(header, tools, arguments=True)) or ():
            calls.start(start)
    evidence.note("dropped", "a marker", 3)
    forms, notes = counted(evidence)
    assert forms == {
        "kimi_k2, native id": 2,
        "kimi_k2, name:index": 2,
        "kimi_k2, name:index, tool not declared": 1,
    }
    assert notes == {"dropped": 3}
