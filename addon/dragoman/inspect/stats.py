"""Counts over all flows: a table of counters, as metrics have them.

Flows are counted by mitmproxy's thread and read by others, so `Stats` returns a frozen `Snapshot`.
Memory is bounded: times are counted in buckets, and names beyond a limit count as ``other``.
"""

from __future__ import annotations

import math
import operator
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..notes import CURED, REPAIRED, Evidence, TurnFacts, printable
from .exchange import Exchange
from .outcome import Ending, Job, Outcome

Model = tuple[str, str]
"""A host and a model."""
_MODEL = ("host", "model")
_FORM = ("format", "form")
FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "flows": ("Flows that have ended.", ("job", *_MODEL, "streamed", "outcome")),
    "notes": ("What else was done, by what it was.", ("what",)),
    "failures": ("Flows that failed, by the reason.", ("reason",)),
    "tokens": ("Tokens that upstreams counted.", (*_MODEL, "direction")),
    "tool_turns": ("Turns for which tools were declared.", _MODEL),
    "calls": ("Calls in such turns.", _MODEL),
    "refused_calls": (
        "Calls whose arguments are no JSON, or such as their schema refuses.",
        _MODEL,
    ),
    "silent_turns": ("Turns with neither answer nor call.", _MODEL),
    "leaked_calls": (
        "Calls that leaked and were repaired, by their format and how their name was found.",
        (*_MODEL, *_FORM),
    ),
}
"""What is counted, in the words of the metrics: its name, help and labels."""
Time = Literal["first token", "longest silence", "duration"]
TIMES: dict[Time, str] = {
    "first token": "From the request to the first token.",
    "longest silence": "The longest wait of a stream.",
    "duration": "From the request to the end.",
}
MAX_NAMES = 64
"""Different names of one kind (hosts, models, notes, reasons)."""
MAX_MODELS = 256
OTHER = "other"
BAR = 10
"""Characters of a bar."""
BOUNDS = (
    *(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5),
    *(10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0),
)
"""The upper limits of a histogram's buckets, in seconds; one more has none."""

OutcomeLabel = Literal["clean", "repaired"] | Ending
_OUTCOMES: dict[OutcomeLabel, str] = {
    "repaired": "repaired",
    "clean": "clean",
    "left": "text with markers left",
    "cut": "cut off",
    "empty": "no answer, no call",
    "failed": "failed",
    "unread": "no reply of an LLM",
}
"""The outcomes that the table lists, and their names there."""
_CHANGES = frozenset({"dropped", "left out", "took out", "joined", "added finish_reason"})
"""What repair notes of a reply that it changed without making a call."""


@dataclass(frozen=True, slots=True)
class Histogram:
    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """By bucket."""
    sum: float = 0.0
    longest: float = 0.0

    def with_time(self, seconds: float | None) -> Histogram:
        """With one more time, if it is known."""
        if seconds is None or not math.isfinite(seconds):
            return self
        seconds = max(0.0, seconds)  # a clock may have been set back
        counts = list(self.counts)
        counts[bisect_left(BOUNDS, seconds)] += 1
        return Histogram(tuple(counts), self.sum + seconds, max(self.longest, seconds))

    def __add__(self, other: Histogram) -> Histogram:
        counts = tuple(map(operator.add, self.counts, other.counts))
        return Histogram(counts, self.sum + other.sum, max(self.longest, other.longest))

    @property
    def total(self) -> int:
        return sum(self.counts)

    def quantile(self, part: float) -> float:
        """Interpolated within a bucket."""
        wanted = part * self.total
        below, low = 0, 0.0
        for count, bound in zip(self.counts, (*BOUNDS, math.inf), strict=True):
            high = min(bound, self.longest)
            if count and below + count >= wanted:
                return min(high, low + (high - low) * (wanted - below) / count)
            below, low = below + count, high
        return self.longest


@dataclass(frozen=True, slots=True)
class Snapshot:
    counts: Mapping[str, Mapping[tuple[str, ...], int]]
    """By family, and by the values of its labels."""
    times: Mapping[Model, Mapping[Time, Histogram]]

    def by(self, family: str, *labels: str) -> Counter[Any]:
        """The sums of a family by the values of one label, or by tuples of several."""
        values = operator.itemgetter(*map(FAMILIES[family][1].index, labels))
        sums: Counter[Any] = Counter()
        for each, number in self.counts[family].items():
            sums[values(each)] += number
        return sums


class Stats:
    """May be read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in FAMILIES}
        self._times: dict[Model, dict[Time, Histogram]] = {}
        self._names: defaultdict[str, set[str]] = defaultdict(set)

    def add(
        self,
        exchange: Exchange,
        turn: TurnFacts,
        *,
        host: str,
        model: str,
        duration: float | None = None,
    ) -> None:
        """Count a flow that has ended, after `duration` seconds if that is known."""
        evidence, timing = exchange.evidence, exchange.timing
        outcome, notes = exchange.outcome_by(turn), _other_notes(evidence)
        times: dict[Time, float | None] = {"duration": duration}
        if timing is not None:
            times = {
                "first token": timing.moment(turn.upstream.first_token, "upstream"),
                "longest silence": timing.longest_silence,
                "duration": timing.ended if duration is None else duration,
            }
        tokens = {"input": turn.upstream.input_tokens, "output": turn.upstream.output_tokens}
        with self._lock:
            pair = self._pair(host, model)
            label = _outcome_label(exchange.job, outcome, evidence)
            self._count("flows", exchange.job, *pair, "yes" if timing else "no", label)
            for (leaked_as, form), number in evidence.forms.items():
                self._count("leaked_calls", *pair, leaked_as, self._name("form", form), by=number)
            for what, number in notes.items():
                self._count_name("notes", what, number)
            if outcome.ending == "failed":
                self._count_name("failures", outcome.reason)
            for direction, of_flow in tokens.items():
                self._count("tokens", *pair, direction, by=max(0, of_flow or 0))
            if exchange.has_tools and turn.upstream.parsed:
                self._count("tool_turns", *pair)
                self._count("calls", *pair, by=len(turn.client.calls))
                self._count("refused_calls", *pair, by=evidence.refused_calls)
                self._count("silent_turns", *pair, by=outcome.ending == "empty")
            for time, seconds in times.items():
                self._times[pair][time] = self._times[pair][time].with_time(seconds)

    def _pair(self, host: str, model: str) -> Model:
        """The labels of a model, or `OTHER` for both if there are too many."""
        pair = self._name("host", host), self._name("model", model)
        if pair not in self._times:
            if len(self._times) >= MAX_MODELS:
                pair = OTHER, OTHER
            self._times.setdefault(pair, dict.fromkeys(TIMES, Histogram()))
            for family in ("tool_turns", "calls", "refused_calls", "silent_turns"):
                self._count(family, *pair, by=0)
        return pair

    def _name(self, kind: str, name: str) -> str:
        """`name`, or `OTHER` if there are too many of its kind."""
        names, name = self._names[kind], printable(name)
        if name not in names and len(names) >= MAX_NAMES:
            return OTHER
        names.add(name)
        return name

    def _count_name(self, family: str, name: str, by: int = 1) -> None:
        self._count(family, self._name(family, name), by=by)

    def _count(self, family: str, *labels: str, by: int = 1) -> None:
        self._counts[family][labels] += by

    def snapshot(self) -> Snapshot:
        with self._lock:
            counts = {family: dict(counts) for family, counts in self._counts.items()}
            return Snapshot(counts, {model: dict(times) for model, times in self._times.items()})


def _other_notes(evidence: Evidence) -> Counter[str]:
    """How often something was done, other than to make a call."""
    notes: Counter[str] = Counter()
    for (what, _), number in evidence.cures.items():
        notes[f"{CURED} {what.rstrip(':')}"] += number
    for (what, _), number in evidence.notes.items():
        if what != REPAIRED:
            notes[what.rstrip(":")] += number
    return notes


def _outcome_label(job: Job, outcome: Outcome, evidence: Evidence) -> OutcomeLabel:
    """Only an answer or a call is clean, or repaired."""
    if outcome.ending != "answered":
        return outcome.ending
    changed = job == "repair" and not _CHANGES.isdisjoint(_other_notes(evidence))
    return "repaired" if evidence.calls or changed else "clean"


def rows(snapshot: Snapshot) -> list[list[str]]:
    """A table for a person."""
    streamed, outcomes = snapshot.by("flows", "streamed"), snapshot.by("flows", "outcome")
    tokens, leaked = snapshot.by("tokens", "direction"), snapshot.by("leaked_calls", *_FORM)
    counts = {
        "flows": streamed.total(),
        "streams": streamed["yes"],
        "whole replies": streamed["no"],
        "bridged": snapshot.by("flows", "job")["bridge"],
        **{name: outcomes[label] for label, name in _OUTCOMES.items()},
        "tokens in": tokens["input"],
        "tokens out": tokens["output"],
        "calls repaired": leaked.total(),
    }
    table = [[name, str(number)] for name, number in counts.items()]
    forms = {f"{leaked_as}, {form}": number for (leaked_as, form), number in leaked.items()}
    table += _listed("call read from", forms)
    table += _listed("note", snapshot.by("notes", "what"))
    table += _listed("failure", snapshot.by("failures", "reason"))
    for what in TIMES:
        table += _times(what, sum((times[what] for times in snapshot.times.values()), Histogram()))
    flows = snapshot.by("flows", *_MODEL)
    return table + [_model_row(snapshot, model, flows[model]) for model in snapshot.times]


def _listed(what: str, counts: Mapping[str, int]) -> list[list[str]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [[f"{what}: {name}", str(count)] for name, count in ordered]


def _times(what: str, times: Histogram) -> list[list[str]]:
    if not times.total:
        return []
    parts = [("p50", times.quantile(0.5)), ("p95", times.quantile(0.95)), ("max", times.longest)]
    return [[what, " · ".join(f"{name} {seconds:.2f} s" for name, seconds in parts)]]


def _model_row(snapshot: Snapshot, model: Model, flows: int) -> list[str]:
    def count(family: str, *labels: str) -> int:
        return snapshot.counts[family][(*model, *labels)]

    parts = [
        f"flows {flows}",
        f"tokens in {count('tokens', 'input')}",
        f"tokens out {count('tokens', 'output')}",
    ]
    if (first := snapshot.times[model]["first token"]).total:
        parts.append(f"first token p50 {first.quantile(0.5):.2f} s")
    if turns := count("tool_turns"):
        leaked = Counter[str]()
        for (*of_model, leaked_as, _), number in snapshot.counts["leaked_calls"].items():
            leaked[leaked_as] += number if tuple(of_model) == model else 0
        leaked = +leaked
        by_format = ", ".join(f"{number} {name}" for name, number in sorted(leaked.items()))
        share = min(1.0, sum(leaked.values()) / max(1, count("calls")))
        full = max(1, round(share * BAR))
        parts += [
            f"turns with tools {turns}",
            f"calls {count('calls')}",
            f"leaked {sum(leaked.values())}" + (f" ({by_format})" if leaked else ""),
            *([f"{'█' * full}{'░' * (BAR - full)} {share:.0%} of its calls"] if leaked else []),
            f"refused arguments {count('refused_calls')}",
            f"no answer, no call {count('silent_turns')}",
        ]
    return [" ".join(model).rstrip(), " · ".join(parts)]


def aligned(rows: Iterable[list[str]]) -> str:
    rows = list(rows)
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
