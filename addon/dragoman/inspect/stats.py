"""Counts over all flows: one table, `ROWS`, of which the metrics, the command `dragoman.stats` and
the table at mitmdump's end are three views.

Flows are counted by mitmproxy's thread and read by others, so `Stats` returns a frozen `Snapshot`.
Memory is bounded: times are counted in buckets, and names beyond a limit count as ``other``.
"""

from __future__ import annotations

import math
import operator
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..notes import CURED, REPAIRED, Evidence, TurnFacts, printable
from ..repair.events import Drop
from .exchange import Exchange
from .outcome import Ending, Job, Outcome

Model = tuple[str, str]
"""A host and a model."""
Counts = Mapping[tuple[str, ...], int]
"""By the values of a row's labels."""
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


@dataclass(frozen=True, slots=True)
class EndedFlow:
    """What is counted of a flow."""

    exchange: Exchange
    turn: TurnFacts
    outcome: Outcome
    model: Model

    @property
    def has_tools(self) -> bool:
        return bool(self.exchange.has_tools) and self.turn.upstream.parsed

    @property
    def labels(self) -> tuple[str, ...]:
        exchange, outcome = self.exchange, self.outcome
        label = _outcome_label(exchange.job, outcome, exchange.evidence)
        return exchange.job, *self.model, "yes" if exchange.timing else "no", label


def _with_tools(number: Callable[[EndedFlow], int]) -> Callable[[EndedFlow], Counts]:
    """Counted of each model, but only turns for which tools were declared."""
    return lambda flow: {flow.model: number(flow) if flow.has_tools else 0}


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is counted: a family of the metrics, and its lines in the table."""

    help: str
    """In the words of the metrics, as its labels."""
    labels: tuple[str, ...]
    of: Callable[[EndedFlow], Counts]
    """What a flow adds."""
    of_model: str = ""
    """Its name in the line of a host and a model."""
    sums: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lines of the table, by their names: all, or what has this value of a label."""
    each: tuple[str, ...] = ()
    """The name of further lines, one for each value of the labels that follow."""


_MODEL, _FORM = ("host", "model"), ("format", "form")
ROWS = {
    "flows": Row(
        "Flows that have ended.",
        ("job", *_MODEL, "streamed", "outcome"),
        lambda flow: {flow.labels: 1},
        sums={
            "flows": (),
            "streams": ("streamed", "yes"),
            "whole replies": ("streamed", "no"),
            "bridged": ("job", "bridge"),
            **{f"flows: {name}": ("outcome", label) for label, name in _OUTCOMES.items()},
        },
    ),
    "tokens": Row(
        "Tokens that upstreams counted.",
        (*_MODEL, "direction"),
        lambda flow: {
            (*flow.model, "input"): max(0, flow.turn.upstream.input_tokens or 0),
            (*flow.model, "output"): max(0, flow.turn.upstream.output_tokens or 0),
        },
        sums={"tokens in": ("direction", "input"), "tokens out": ("direction", "output")},
    ),
    "tool_turns": Row(
        "Turns for which tools were declared.", _MODEL, _with_tools(lambda _: 1), "turns with tools"
    ),
    "calls": Row(
        "Calls in such turns.",
        _MODEL,
        _with_tools(lambda flow: len(flow.turn.client.calls)),
        "calls",
    ),
    "leaked_calls": Row(
        "Calls that leaked and were repaired, by their format and how their name was found.",
        (*_MODEL, *_FORM),
        lambda flow: {(*flow.model, *form): n for form, n in flow.exchange.evidence.forms.items()},
        "calls repaired",
        {"calls repaired": ()},
        ("call read from", *_FORM),
    ),
    "refused_calls": Row(
        "Calls whose arguments are no JSON, or such as their schema refuses.",
        _MODEL,
        _with_tools(lambda flow: flow.exchange.evidence.refused_calls),
        "refused arguments",
    ),
    "silent_turns": Row(
        "Turns with neither answer nor call.",
        _MODEL,
        _with_tools(lambda flow: flow.outcome.ending == "empty"),
        "no answer, no call",
    ),
    "unknown_shapes": Row(
        "Calls in a shape that no format has, by the shape, without names and values.",
        ("shape",),
        lambda flow: _shapes(flow.exchange.evidence),
        each=("shape unknown", "shape"),
    ),
    "notes": Row(
        "What else was done, by what it was.",
        ("what",),
        lambda flow: {(what,): n for what, n in _other_notes(flow.exchange.evidence).items()},
        each=("note", "what"),
    ),
    "failures": Row(
        "Flows that failed, by the reason.",
        ("reason",),
        lambda flow: {(flow.outcome.reason,): 1} if flow.outcome.ending == "failed" else {},
        each=("failure", "reason"),
    ),
}
"""By the name of the metric.  All that shows counts reads this table."""
Time = Literal["first token", "longest silence", "duration"]
TIMES: dict[Time, str] = {
    "first token": "From the request to the first token.",
    "longest silence": "The longest wait of a stream.",
    "duration": "From the request to the end.",
}


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
        values = operator.itemgetter(*map(ROWS[family].labels.index, labels))
        sums: Counter[Any] = Counter()
        for each, number in self.counts[family].items():
            sums[values(each)] += number
        return sums

    def sum(self, family: str, label: str = "", value: str = "") -> int:
        """Of a family, or of what has this value of a label."""
        return self.by(family, label)[value] if label else sum(self.counts[family].values())


class Stats:
    """May be read from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in ROWS}
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
        timing = exchange.timing
        times: dict[Time, float | None] = {"duration": duration}
        if timing is not None:
            times = {
                "first token": timing.moment(turn.upstream.first_token, "upstream"),
                "longest silence": timing.longest_silence,
                "duration": timing.ended if duration is None else duration,
            }
        with self._lock:
            pair = self._pair(host, model)
            flow = EndedFlow(exchange, turn, exchange.outcome_by(turn), pair)
            for name, row in ROWS.items():
                for values, number in row.of(flow).items():
                    bounded = map(self._name, row.labels, values)
                    self._counts[name][tuple(bounded)] += number
            for time, seconds in times.items():
                self._times[pair][time] = self._times[pair][time].with_time(seconds)

    def _pair(self, host: str, model: str) -> Model:
        """The labels of a model, or `OTHER` for both if there are too many."""
        pair = self._name("host", host), self._name("model", model)
        if pair not in self._times:
            if len(self._times) >= MAX_MODELS:
                pair = OTHER, OTHER
            self._times.setdefault(pair, dict.fromkeys(TIMES, Histogram()))
        return pair

    def _name(self, kind: str, name: str) -> str:
        """`name`, or `OTHER` if there are too many of its kind."""
        names, name = self._names[kind], printable(name)
        if name == OTHER or (name not in names and len(names) >= MAX_NAMES):
            return OTHER
        names.add(name)
        return name

    def snapshot(self) -> Snapshot:
        with self._lock:
            counts = {name: dict(counts) for name, counts in self._counts.items()}
            return Snapshot(counts, {model: dict(times) for model, times in self._times.items()})


def _shapes(evidence: Evidence) -> Counts:
    """The shapes of calls in no known format."""
    notes = evidence.notes.items()
    return {(shape,): number for (what, shape), number in notes if what == Drop.SHAPE.value}


def _other_notes(evidence: Evidence) -> Counter[str]:
    """How often something was done, other than to make a call."""
    notes: Counter[str] = Counter()
    for (what, _), number in evidence.cures.items():
        notes[f"{CURED} {what.rstrip(':')}"] += number
    for (what, _), number in evidence.notes.items():
        if what not in (REPAIRED, Drop.SHAPE.value):
            notes[what.rstrip(":")] += number
    return notes


def _outcome_label(job: Job, outcome: Outcome, evidence: Evidence) -> OutcomeLabel:
    """Only an answer or a call is clean, or repaired."""
    if outcome.ending != "answered":
        return outcome.ending
    changed = job == "repair" and evidence.changed
    return "repaired" if evidence.calls or changed else "clean"


def rows(snapshot: Snapshot) -> list[list[str]]:
    """The table for a person."""
    table: list[list[str]] = []
    for family, row in ROWS.items():
        for name, where in row.sums.items():
            table.append([name, str(snapshot.sum(family, *where))])
    for family, row in ROWS.items():
        if row.each:
            table += _listed(row.each[0], snapshot.by(family, *row.each[1:]))
    for what in TIMES:
        table += _times(what, sum((times[what] for times in snapshot.times.values()), Histogram()))
    return table + _model_rows(snapshot)


def _listed(what: str, counts: Mapping[Any, int]) -> list[list[str]]:
    """A line for each value, the most frequent first."""
    words = {each if isinstance(each, str) else ", ".join(each): n for each, n in counts.items()}
    ordered = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return [[f"{what}: {name}", str(count)] for name, count in ordered]


def _times(what: str, times: Histogram) -> list[list[str]]:
    if not times.total:
        return []
    parts = [("p50", times.quantile(0.5)), ("p95", times.quantile(0.95)), ("max", times.longest)]
    return [[what, " · ".join(f"{name} {seconds:.2f} s" for name, seconds in parts)]]


def _model_rows(snapshot: Snapshot) -> list[list[str]]:
    flows, tokens = snapshot.by("flows", *_MODEL), snapshot.by("tokens", *_MODEL, "direction")
    shown = {family: row.of_model for family, row in ROWS.items() if row.of_model}
    others = {name: snapshot.by(family, *_MODEL) for family, name in shown.items()}
    formats: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for (*model, name), number in sorted(snapshot.by("leaked_calls", *_MODEL, "format").items()):
        formats[tuple(model)].append(f"{number} {name}")
    table: list[list[str]] = []
    for model, times in snapshot.times.items():
        parts = [f"flows {flows[model]}"]
        parts += [f"tokens {way} {tokens[*model, f'{way}put']}" for way in ("in", "out")]
        if (first := times["first token"]).total:
            parts.append(f"first token p50 {first.quantile(0.5):.2f} s")
        if any(counts[model] for counts in others.values()):
            parts += [f"{name} {counts[model]}" for name, counts in others.items()]
        if model in formats:
            share = min(1.0, others["calls repaired"][model] / max(1, others["calls"][model]))
            full = max(1, round(share * BAR))
            bar, by_format = "█" * full + "░" * (BAR - full), ", ".join(formats[model])
            parts.append(f"{bar} {share:.0%} of its calls leaked ({by_format})")
        table.append([" ".join(model).rstrip(), " · ".join(parts)])
    return table


def aligned(rows: Iterable[list[str]]) -> str:
    rows = list(rows)
    width = max((len(row[0]) for row in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
