"""Counts: they add up, whatever comes, and stay small."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bridge.convert_recorded import convert_recorded
from dragoman.inspect.exchange import Exchange, Step, Timing
from dragoman.inspect.outcome import Job, Outcome
from dragoman.inspect.stats import (
    BOUNDS,
    MAX_MODELS,
    MAX_NAMES,
    OTHER,
    Histogram,
    Stats,
    Time,
    aligned,
    rows,
)
from dragoman.notes import Evidence, ReplyFacts, TurnFacts
from dragoman.repair.call_namer import CallNamer
from dragoman.repair.call_rule import CallRule
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.events import Whole
from dragoman.repair.formats.formats_by_family import ALL, NAMES
from dragoman.repair.formats.kimi_k2 import KIMI_K2
from dragoman.repair.formats.kimi_k2_names import header_of
from dragoman.reply.calls import Calls
from dragoman.wire.reply_bounds import Budget
from tests.repair.formats.test_all_formats import CALLS
from tests.repair.formats.turns import REQUEST
from tests.repair.streams import chunk, sse
from tests.repair.test_call_finder import MODELS

TEXT, EMPTY = Outcome("answered", "text"), Outcome("empty", "no answer, no call")
SAID = ReplyFacts(parsed=True)
NATIVE_ID = ("kimi_k2", "native id")
"""The format of a leaked call, and how its name was found."""


def count(
    stats: Stats,
    outcome: Outcome = TEXT,
    *,
    leaked: Sequence[tuple[str, str]] = (),
    notes: Mapping[str, int] | None = None,
    changed: bool = False,
    upstream: ReplyFacts = SAID,
    calls: int = 0,
    refused: int = 0,
    first_token: float | None = None,
    evidence: Evidence | None = None,
    job: Job = "repair",
    streamed: bool = True,
    has_tools: bool = False,
    host: str = "api.example.com",
    model: str = "kimi-k2.5",
) -> None:
    """Count a flow in which repair made the calls that `leaked`, and the client received `calls`,
    of which `refused` native ones have arguments that are refused."""
    evidence = evidence or Evidence()
    for form in leaked:
        evidence.call("bash", *form)
    for what, number in (notes or {}).items():
        evidence.note(what, "a detail", number)
    evidence.changed |= changed
    evidence.refused_calls += refused
    steps = () if first_token is None else (Step(first_token, 1, 1),)
    timing = Timing(steps) if streamed else None
    known: dict[str, Any] = {"evidence": evidence, "timing": timing, "has_tools": has_tools}
    exchange = Exchange(job, b"", b"", outcome=outcome, **known)
    client = ReplyFacts(parsed=True, calls=("bash",) * calls)
    turn = TurnFacts(replace(upstream, first_token=1), client)
    stats.add(exchange, turn, host=host, model=model, duration=1.0)


def table(stats: Stats) -> dict[str, str]:
    return dict(rows(stats.snapshot()))


def times(stats: Stats, what: Time) -> Histogram:
    return sum((each[what] for each in stats.snapshot().times.values()), Histogram())


def test_flows_are_counted_by_what_came_of_them() -> None:
    stats = Stats()
    count(stats)
    count(stats, leaked=[NATIVE_ID, NATIVE_ID], job="bridge", streamed=False)
    count(stats, Outcome("failed", "rate_limit_exceeded"))
    count(
        stats,
        Outcome("failed", "x (refused by Dragoman)", "refused by Dragoman"),
        upstream=ReplyFacts(),
    )
    count(stats, Outcome("unread", "no reply of an LLM"), upstream=ReplyFacts())
    count(stats, Outcome("cut", "max tokens"), notes={"dropped": 1}, changed=True)
    count(stats, EMPTY)
    count(stats, notes={"dropped": 1}, changed=True)  # a stray marker
    count(stats, notes={"left out": 1}, changed=True)  # a call that was sent natively, too
    count(stats, notes={"left as text": 1})
    count(stats, notes={"dropped": 1}, job="bridge")  # a tool that no chat host has
    told = table(stats)
    assert (told["flows"], told["streams"], told["whole replies"]) == ("11", "10", "1")
    ends = [told[f"flows: {end}"] for end in ("clean", "repaired", "failed", "cut off")]
    assert (ends, told["flows: no answer, no call"]) == (["3", "3", "2", "1"], "1")
    assert (told["bridged"], told["calls repaired"]) == ("2", "2")
    assert told["call read from: kimi_k2, native id"] == "2"
    assert (told["note: dropped"], told["note: left out"]) == ("3", "1")
    assert told["failure: rate_limit_exceeded"] == told["failure: refused by Dragoman"] == "1"
    assert told["flows: no reply of an LLM"] == "1"


@pytest.mark.parametrize(
    ("content", "changed"),
    [("a", False), ("a<|tool_call_end|>", True), ("`<|tool_call_end|>`", False)],
)
def test_repair_says_of_a_reply_without_calls_whether_it_changed_it(
    content: str, changed: bool
) -> None:
    evidence, stats = Evidence(), Stats()
    chat = sse([chunk({"content": content}), chunk({}, "stop")])
    tool = {"type": "function", "function": {"name": "bash"}}
    convert_recorded(chat, {"tools": [tool]}, "chat", evidence, 0)
    count(stats, evidence=evidence)
    assert table(stats)["flows: repaired"] == str(int(changed))


def test_tokens_add_up_and_unknown_ones_count_nothing() -> None:
    stats = Stats()
    for read, wrote in ((10, 2), (None, 3), (5, None), (-4, 0)):
        seen = ReplyFacts(parsed=True, input_tokens=read, output_tokens=wrote)
        count(stats, upstream=seen)
    seen = ReplyFacts(parsed=True, input_tokens=4)
    count(stats, upstream=seen, host="other", model="m", first_token=1.0)
    told = table(stats)
    assert (told["tokens in"], told["tokens out"]) == ("19", "5")
    assert told["other m"] == "flows 1 · tokens in 4 · tokens out 0 · first token p50 0.88 s"


def test_hosts_and_models_are_compared() -> None:
    stats = Stats()
    leaked = ("dsml", "plain name")
    count(stats, leaked=[leaked], calls=2, refused=1, has_tools=True)
    count(stats, EMPTY, leaked=[leaked], calls=1, has_tools=True)
    count(stats, host="other.example.com")
    told = table(stats)
    assert told["api.example.com kimi-k2.5"].endswith(
        "turns with tools 2 · calls 3 · calls repaired 2 · refused arguments 1 · "
        "no answer, no call 1 · ███████░░░ 67% of its calls leaked (2 dsml)"
    )
    assert "turns" not in told["other.example.com kimi-k2.5"]


@pytest.mark.parametrize("tools", [True, False])
def test_a_turn_is_one_with_tools_whose_reply_can_be_read(tools: bool) -> None:
    stats = Stats()
    count(stats, calls=1, has_tools=tools, upstream=ReplyFacts(parsed=not tools))
    counts = stats.snapshot().counts
    model = ("api.example.com", "kimi-k2.5")
    for family in ("tool_turns", "calls", "refused_calls", "silent_turns"):
        assert counts[family] == {model: 0}


@given(st.lists(st.floats(0, 700), min_size=1, max_size=60))
def test_quantiles_are_right_to_a_bucket(seconds: list[float]) -> None:
    stats = Stats()
    for time in seconds:
        count(stats, first_token=time)
    found = times(stats, "first token")
    exact = sorted(seconds)[math.ceil(0.5 * len(seconds)) - 1]
    low = max((0.0, *(bound for bound in BOUNDS if bound < exact)))
    high = min((math.inf, *(bound for bound in BOUNDS if bound >= exact)))
    assert low <= found.quantile(0.5) <= high
    assert found.total == len(seconds)
    assert found.longest == max(seconds)
    assert found.sum == pytest.approx(statistics.fsum(seconds))
    assert found.quantile(0.5) <= found.quantile(0.95) <= found.longest


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, None])
def test_a_time_that_is_none_is_not_counted(seconds: float | None) -> None:
    stats = Stats()
    count(stats, first_token=seconds)
    assert times(stats, "first token").total == 0
    assert "first token" not in table(stats)


def test_memory_is_bounded_and_nothing_goes_uncounted() -> None:
    stats = Stats()
    flows = MAX_MODELS * 12
    for n in range(flows):
        names = {"host": f"host{n % 97}", "model": f"model{n}"}
        count(stats, Outcome("failed", f"code{n}"), **names, notes={f"note{n}": 1})
    seen = stats.snapshot()
    assert max(len(seen.counts["flows"]), len(seen.times)) <= MAX_MODELS + 1
    assert max(len(seen.counts["notes"]), len(seen.counts["failures"])) <= MAX_NAMES + 1
    for family in ("flows", "notes", "failures"):
        assert sum(seen.counts[family].values()) == flows
    assert seen.counts["notes"][OTHER,] == flows - MAX_NAMES


def test_too_many_models_are_counted_under_neither_their_host_nor_their_name() -> None:
    stats = Stats()
    for n in range(2 * MAX_MODELS):
        count(stats, host=f"host{n // 32}", model=f"model{n % 32}", has_tools=True)
    seen = stats.snapshot()
    assert seen.by("flows", "host", "model")[OTHER, OTHER] == MAX_MODELS
    assert seen.counts["tool_turns"][OTHER, OTHER] == MAX_MODELS
    assert not any((host == OTHER) != (model == OTHER) for host, model in seen.times)


def test_what_was_counted_before_does_not_change() -> None:
    stats = Stats()
    count(stats)
    before = stats.snapshot()
    shown = rows(before)
    count(stats, leaked=[NATIVE_ID], first_token=1.0)
    assert rows(before) == shown


def test_names_of_others_cannot_break_the_table() -> None:
    stats = Stats()
    count(stats, host="\x1b[2J\n", model="\ud800" * 10_000, notes={"a\nb": 1})
    shown = rows(stats.snapshot())
    assert all(cell.isprintable() for row in shown for cell in row)
    assert len(aligned(shown).split("\n")) == len(shown)


def test_forms_are_read_from_the_evidence_of_repair() -> None:
    evidence = Evidence()
    tools = DeclaredTools({"bash": {}, "x" * 120: {}})
    namer = CallNamer(tools)
    namer.begin(KIMI_K2, CallRule("any"))
    calls = Calls(0, tools, ALL, evidence, Budget(), cut_names=True)
    for header in ("functions.bash:0", "bash:1", "functions.bash:2", f"{'x' * 120}:3", "odd.one:1"):
        if namer.takes(header_of(header, tools, arguments=True)):
            call = namer.call(Whole(["{}"]))
            assert call is not None
            calls.leaked(call)
    evidence.note("dropped", "a marker", 3)
    stats = Stats()
    count(stats, evidence=evidence)
    assert stats.snapshot().by("leaked_calls", "format", "form") == {
        ("kimi_k2", "native id"): 2,
        ("kimi_k2", "name:index"): 2,
        ("kimi_k2", "name:index, tool not declared"): 1,
    }
    assert stats.snapshot().by("notes", "what") == {"dropped": 3}


LS = '{"command": "ls"}'
LEAKS = CALLS | {
    "json": f'{{"name": "bash", "arguments": {LS}}}',
    "unknown": f"<use><name>bash</name><input>{LS}</input></use>",
}


def test_each_format_of_the_registry_is_named_and_a_shape_that_is_unknown_shown() -> None:
    stats = Stats()
    for name in NAMES:
        text, model, evidence = (
            LEAKS[name].replace("¦", ""),
            MODELS.get(name, "my-model"),
            Evidence(),
        )
        said = [chunk({"content": text}, model=model), chunk({}, "stop", model=model)]
        convert_recorded(sse(said), REQUEST | {"model": model}, "chat", evidence, 0)
        count(stats, evidence=evidence)
    assert stats.snapshot().by("leaked_calls", "format") == dict.fromkeys(NAMES, 1)
    told = table(stats)
    assert told["call read from: unknown, shape unknown"] == "1"
    shown = "<use><name>NAME</name><input>{KEY: VALUE}</input></use>"
    assert told[f"shape unknown: {shown}"] == "1"
    assert "bash" not in " ".join(told)
    assert "note: shape unknown" not in told
