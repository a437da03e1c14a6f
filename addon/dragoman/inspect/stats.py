"""Counts over all flows: what came of them, what was done to them, how long they took.

Flows are added by mitmproxy's thread and read by others, so `Stats` hands out frozen
`Totals`.  The invariant: memory is bounded however many flows, hosts and models there
are; latencies are counted in buckets, and names beyond a limit count as ``other``.
"""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ..notes import Evidence, printable
from .exchange import Job
from .turn_figures import TurnFigures

MAX_NAMES = 64
"""Different names of one kind (hosts, models, notes, reasons of failure)."""
MAX_FLOW_KINDS = 1024
"""Different combinations of names that flows are counted by."""
OTHER = "other"
BOUNDS = (
    *(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5),
    *(10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0),
)
"""Seconds up to which each bucket of a histogram counts; one more has no limit."""

Outcome = Literal["clean", "repaired", "failed"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One flow that has ended."""

    job: Job
    host: str
    model: str
    streamed: bool
    status: int
    """Of the reply that the client received; 0: none."""
    forms: Mapping[str, int]
    """Repaired calls by the form of their header."""
    notes: Mapping[str, int]
    """How often something else was done, by what it was."""
    failed: str
    """Why the flow failed: a code; empty: it did not."""
    input_tokens: int | None
    output_tokens: int | None
    first_token: float | None
    """Seconds from the request; None: there was none, or it is not known."""
    longest_silence: float | None
    duration: float
    """Seconds from the request to the end of the reply."""
    parsed: bool
    """Whether the reply was one of an LLM, as far as it could be read."""
    turn: TurnFigures = field(default_factory=TurnFigures)

    @property
    def outcome(self) -> Outcome:
        if self.failed or not 200 <= self.status < 400:
            return "failed"
        return "repaired" if self.forms else "clean"


def counted(evidence: Evidence) -> tuple[dict[str, int], dict[str, int]]:
    """The repaired calls by the form of their header, and all other notes by what they say."""
    forms: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for (what, detail), count in evidence.notes.items():
        if what == "read":
            # "name (form)"; a long name has no room for its form behind it.
            form = detail.rpartition(" (")[2].removesuffix(")") if detail.endswith(")") else OTHER
            forms[form] += count
        else:
            notes[what] += count
    return dict(forms), dict(notes)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often a time was how long."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """By bucket, the last without a limit."""
    sum: float = 0.0
    longest: float = 0.0

    @property
    def total(self) -> int:
        return sum(self.counts)

    def quantile(self, part: float) -> float:
        """The time within which `part` of all lie, as far as the buckets tell."""
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
    """What flows are counted by."""

    job: Job
    host: str
    model: str
    streamed: bool
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything counted up to a moment."""

    flows: Mapping[FlowKind, int]
    forms: Mapping[str, int]
    notes: Mapping[str, int]
    failures: Mapping[str, int]
    input_tokens: int
    output_tokens: int
    unread: int
    """Replies that were none of an LLM."""
    first_token: Histogram
    longest_silence: Histogram
    duration: Histogram
    hosts: Mapping[tuple[str, str], TurnFigures]
    """By host and model."""

    def flows_where(self, **wanted: object) -> int:
        """How many flows have all these members of their `FlowKind`."""
        return sum(
            count
            for kind, count in self.flows.items()
            if all(getattr(kind, name) == value for name, value in wanted.items())
        )

    def rows(self) -> list[list[str]]:
        """A table for a person: what, and how much or how often."""
        total = sum(self.flows.values())
        rows = [
            ["flows", str(total)],
            ["streams", str(self.flows_where(streamed=True))],
            ["whole replies", str(self.flows_where(streamed=False))],
            ["bridged", str(self.flows_where(job="bridge"))],
            ["repaired", str(self.flows_where(outcome="repaired"))],
            ["clean", str(self.flows_where(outcome="clean"))],
            ["failed", str(self.flows_where(outcome="failed"))],
            ["no reply of an LLM", str(self.unread)],
            ["tokens in", str(self.input_tokens)],
            ["tokens out", str(self.output_tokens)],
            ["calls repaired", str(sum(self.forms.values()))],
        ]
        for (host, model), turns in sorted(self.hosts.items()):
            rows.append([f"{host} · {model}", _in_words(turns)])
        rows += _listed("call read from", self.forms)
        rows += _listed("note", self.notes)
        rows += _listed("failure", self.failures)
        rows += _times("first token", self.first_token)
        rows += _times("longest silence", self.longest_silence)
        return rows + _times("duration", self.duration)


def _in_words(turns: TurnFigures) -> str:
    leaked = ", ".join(f"{count} {name}" for name, count in sorted(turns.leaked.items()))
    parts = [
        f"{turns.turns} turns with tools",
        f"{turns.calls} calls",
        f"{sum(turns.leaked.values())} leaked" + (f" ({leaked})" if leaked else ""),
        f"{turns.refused} with arguments that are refused",
        f"{turns.silent} turns without answer and call",
    ]
    return " · ".join(parts)


def _listed(what: str, counts: Mapping[str, int]) -> list[list[str]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [[f"{what}: {name}", str(count)] for name, count in ordered]


def _times(what: str, times: Histogram) -> list[list[str]]:
    if not times.total:
        return []
    parts = [("p50", times.quantile(0.5)), ("p95", times.quantile(0.95)), ("max", times.longest)]
    return [[what, " · ".join(f"{name} {seconds:.2f} s" for name, seconds in parts)]]


def aligned(rows: Iterable[list[str]]) -> str:
    """A table of two columns as text."""
    rows = list(rows)
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


@dataclass(slots=True)
class _Names:
    """A counter of so many different names."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, count: int = 1) -> str:
        """Count under `name`, or under the name that stands for all further ones."""
        name = printable(name)
        if name not in self.counts and len(self.counts) >= MAX_NAMES:
            name = OTHER
        self.counts[name] += count
        return name

    def add_all(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.add(name, count)


@dataclass(slots=True)
class _Times:
    """A histogram that grows."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float | None) -> None:
        if seconds is None or not math.isfinite(seconds):
            return
        seconds = max(0.0, seconds)  # a clock may have been set back
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds
        self.longest = max(self.longest, seconds)

    def frozen(self) -> Histogram:
        return Histogram(tuple(self.counts), self.sum, self.longest)


class Stats:
    """Adds flows up; may be read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flows: Counter[FlowKind] = Counter()
        self._turns: dict[tuple[str, str], TurnFigures] = {}
        self._hosts, self._models = _Names(), _Names()
        self._forms, self._notes, self._failures = _Names(), _Names(), _Names()
        self._input_tokens = self._output_tokens = self._unread = 0
        self._first_token, self._silence, self._duration = _Times(), _Times(), _Times()

    def add(self, flow: Summary) -> None:
        """Count a flow, once, at its end."""
        with self._lock:
            self._add_kind(flow)
            self._forms.add_all(flow.forms)
            self._notes.add_all(flow.notes)
            if flow.outcome == "failed":
                self._failures.add(flow.failed or f"HTTP {flow.status}")
            self._input_tokens += max(0, flow.input_tokens or 0)
            self._output_tokens += max(0, flow.output_tokens or 0)
            self._unread += not flow.parsed
            self._first_token.add(flow.first_token)
            self._silence.add(flow.longest_silence)
            self._duration.add(flow.duration)

    def _add_kind(self, flow: Summary) -> None:
        host, model = self._hosts.add(flow.host), self._models.add(flow.model)
        kind = FlowKind(flow.job, host, model, flow.streamed, flow.outcome)
        if kind not in self._flows and len(self._flows) >= MAX_FLOW_KINDS:
            kind = FlowKind(flow.job, OTHER, OTHER, flow.streamed, flow.outcome)
        self._flows[kind] += 1
        if flow.turn.turns:
            self._add_turn((host, model), flow.turn)

    def _add_turn(self, at: tuple[str, str], turn: TurnFigures) -> None:
        if at not in self._turns and len(self._turns) >= MAX_FLOW_KINDS:
            at = OTHER, OTHER
        self._turns[at] = self._turns.get(at, TurnFigures()) + turn

    def totals(self) -> Totals:
        """Everything counted so far."""
        with self._lock:
            return Totals(
                MappingProxyType(dict(self._flows)),
                MappingProxyType(dict(self._forms.counts)),
                MappingProxyType(dict(self._notes.counts)),
                MappingProxyType(dict(self._failures.counts)),
                self._input_tokens,
                self._output_tokens,
                self._unread,
                self._first_token.frozen(),
                self._silence.frozen(),
                self._duration.frozen(),
                MappingProxyType(dict(self._turns)),
            )
