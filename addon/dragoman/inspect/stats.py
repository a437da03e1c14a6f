"""Counts over all flows.

Flows are added by mitmproxy's thread and read by others, so `Stats` returns frozen `Totals`.
Memory is bounded: latencies are counted in buckets, and names beyond a limit count as ``other``.
"""

from __future__ import annotations

import math
import operator
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from ..notes import REPAIRED, Evidence, printable
from .exchange import Job
from .outcome import Ending, Outcome
from .turn_figures import TurnFigures

MAX_NAMES = 64
"""Different names of one kind (hosts, models, notes, reasons)."""
MAX_FLOW_KINDS = 1024
MAX_MODELS = 256
"""Different combinations of a host and a model."""
OTHER = "other"
TOKENS_IN, TOKENS_OUT = "tokens in", "tokens out"
BOUNDS = (
    *(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5),
    *(10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0),
)
"""The upper limits of a histogram's buckets, in seconds; one more has none."""

Result = Literal["clean", "repaired"] | Ending
_OUTCOMES: dict[Result, str] = {
    "repaired": "repaired",
    "clean": "clean",
    "cut": "cut off",
    "empty": "no answer, no call",
    "failed": "failed",
}
"""Those that the table lists, and their names there."""
_CHANGES = frozenset({"dropped", "took out", "joined", "added finish_reason"})
"""What repair notes of a reply that it changed without making a call."""


@dataclass(frozen=True, slots=True)
class EndedFlow:
    """What is counted of a flow."""

    job: Job
    host: str
    model: str
    streamed: bool
    outcome: Outcome
    forms: Mapping[str, int]
    """Repaired calls by their format and form."""
    notes: Mapping[str, int]
    """Other notes by what was done."""
    input_tokens: int | None
    output_tokens: int | None
    first_token: float | None
    """Seconds from the request; None if unknown."""
    longest_silence: float | None
    duration: float
    parsed: bool
    """Whether the reply was an LLM's."""
    turn: TurnFigures = field(default_factory=TurnFigures)

    @property
    def result(self) -> Result:
        """Only an answer or a call is clean, or repaired."""
        if self.outcome.ending == "answered":
            changed = self.job == "repair" and not _CHANGES.isdisjoint(self.notes)
            return "repaired" if self.forms or changed else "clean"
        return self.outcome.ending


def counted(evidence: Evidence) -> tuple[dict[str, int], dict[str, int]]:
    """The `EndedFlow.forms` and `EndedFlow.notes` of a flow."""
    notes: Counter[str] = Counter()
    for (what, _), count in evidence.notes.items():
        if what != REPAIRED:
            notes[what.rstrip(":")] += count
    return {", ".join(form): count for form, count in evidence.forms.items()}, dict(notes)


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
class FlowKind:
    job: Job
    host: str
    model: str
    streamed: bool
    outcome: Result


Time = Literal["first token", "longest silence", "duration"]
TIMES: tuple[Time, ...] = get_args(Time)


@dataclass(frozen=True, slots=True)
class ModelFigures:
    counts: Mapping[str, int] = field(default_factory=Counter)
    times: Mapping[Time, Histogram] = field(
        default_factory=lambda: dict.fromkeys(TIMES, Histogram())
    )
    turns: TurnFigures = field(default_factory=TurnFigures)

    def with_flow(self, flow: EndedFlow) -> ModelFigures:
        tokens = {TOKENS_IN: flow.input_tokens, TOKENS_OUT: flow.output_tokens}
        counts = {"flows": 1} | {what: max(0, count or 0) for what, count in tokens.items()}
        seconds = zip(TIMES, (flow.first_token, flow.longest_silence, flow.duration), strict=True)
        return ModelFigures(
            {what: self.counts.get(what, 0) + count for what, count in counts.items()},
            {what: self.times[what].with_time(time) for what, time in seconds},
            self.turns + flow.turn,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    flows: Mapping[FlowKind, int]
    forms: Mapping[str, int]
    notes: Mapping[str, int]
    failures: Mapping[str, int]
    models: Mapping[tuple[str, str], ModelFigures]
    """By host and model."""
    unread: int
    """Replies that were no LLM's."""

    def count(self, what: str) -> int:
        """Of all models."""
        return sum(figures.counts.get(what, 0) for figures in self.models.values())

    def times(self, what: Time) -> Histogram:
        """Of all models."""
        return sum((figures.times[what] for figures in self.models.values()), Histogram())

    def rows(self) -> list[list[str]]:
        """A table for a person."""
        streams: Counter[bool] = Counter()
        jobs: Counter[str] = Counter()
        outcomes: Counter[str] = Counter()
        for kind, count in self.flows.items():
            streams[kind.streamed] += count
            jobs[kind.job] += count
            outcomes[kind.outcome] += count
        counts = {
            "flows": streams.total(),
            "streams": streams[True],
            "whole replies": streams[False],
            "bridged": jobs["bridge"],
            **{name: outcomes[outcome] for outcome, name in _OUTCOMES.items()},
            "no reply of an LLM": self.unread,
            **{what: self.count(what) for what in (TOKENS_IN, TOKENS_OUT)},
            "calls repaired": sum(self.forms.values()),
        }
        rows = [[name, str(count)] for name, count in counts.items()]
        rows += _listed("call read from", self.forms)
        rows += _listed("note", self.notes)
        rows += _listed("failure", self.failures)
        for what in TIMES:
            rows += _times(what, self.times(what))
        rows += [_model_row(*name, figures) for name, figures in self.models.items()]
        return rows


def _listed(what: str, counts: Mapping[str, int]) -> list[list[str]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [[f"{what}: {name}", str(count)] for name, count in ordered]


def _times(what: str, times: Histogram) -> list[list[str]]:
    if not times.total:
        return []
    parts = [("p50", times.quantile(0.5)), ("p95", times.quantile(0.95)), ("max", times.longest)]
    return [[what, " · ".join(f"{name} {seconds:.2f} s" for name, seconds in parts)]]


def _model_row(host: str, model: str, figures: ModelFigures) -> list[str]:
    parts = [f"{what} {count}" for what, count in figures.counts.items()]
    if (first := figures.times["first token"]).total:
        parts.append(f"first token p50 {first.quantile(0.5):.2f} s")
    if (turns := figures.turns).turns:
        leaked = ", ".join(f"{count} {name}" for name, count in sorted(turns.leaked.items()))
        parts += [
            f"turns with tools {turns.turns}",
            f"calls {turns.calls}",
            f"leaked {sum(turns.leaked.values())}" + (f" ({leaked})" if leaked else ""),
            f"refused arguments {turns.refused}",
            f"no answer, no call {turns.silent}",
        ]
    return [f"{host} {model}".rstrip(), " · ".join(parts)]


def aligned(rows: Iterable[list[str]]) -> str:
    rows = list(rows)
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


class _Names(Counter[str]):
    """A counter of at most `MAX_NAMES` names."""

    def add(self, name: str, count: int = 1) -> str:
        """Count under `name`, or under `OTHER`; returns which."""
        name = printable(name)
        if name not in self and len(self) >= MAX_NAMES:
            name = OTHER
        self[name] += count
        return name


class Stats:
    """May be read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flows: Counter[FlowKind] = Counter()
        self._hosts, self._models = _Names(), _Names()
        self._forms, self._notes, self._failures = _Names(), _Names(), _Names()
        self._figures: dict[tuple[str, str], ModelFigures] = {}
        self._unread = 0

    def add(self, flow: EndedFlow) -> None:
        with self._lock:
            host, model = self._hosts.add(flow.host), self._models.add(flow.model)
            kind = FlowKind(flow.job, host, model, flow.streamed, flow.result)
            if kind not in self._flows and len(self._flows) >= MAX_FLOW_KINDS:
                kind = replace(kind, host=OTHER, model=OTHER)
            self._flows[kind] += 1
            if (host, model) not in self._figures and len(self._figures) >= MAX_MODELS:
                host = model = OTHER
            figures = self._figures.get((host, model), ModelFigures())
            self._figures[host, model] = figures.with_flow(flow)
            for names, counts in ((self._forms, flow.forms), (self._notes, flow.notes)):
                for name, count in counts.items():
                    names.add(name, count)
            if flow.outcome.ending == "failed":
                self._failures.add(flow.outcome.reason)
            self._unread += not flow.parsed

    def totals(self) -> Totals:
        with self._lock:
            return Totals(
                dict(self._flows),
                dict(self._forms),
                dict(self._notes),
                dict(self._failures),
                dict(self._figures),
                self._unread,
            )
