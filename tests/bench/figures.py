"""What was measured, what it means, and whether that is enough to say so.

Everything is measured in rounds, in each of which both sides have their turn, in an
order that is drawn.  A round gives one pair; the effect is the median over the pairs,
and its interval is what 95 % of resampled rounds give.  Where the goal lies inside the
interval nothing is concluded.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

By = Literal["ratio", "times less", "difference", "value"]
RESAMPLES = 2000
INCONCLUSIVE = "no conclusion: spread larger than the difference"


@dataclass(frozen=True, slots=True)
class Samples:
    """One side: a figure of each round, and all that was measured, where that is more."""

    rounds: Sequence[float]
    all: Sequence[float] = ()

    @classmethod
    def of(cls, seconds: Sequence[float], scale: float) -> Samples:
        """Seconds in another unit."""
        return cls([value * scale for value in seconds])

    @property
    def median(self) -> float:
        return median(self.all or self.rounds)

    @property
    def p99(self) -> float:
        return quantile(self.all or self.rounds, 0.99)


def quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[round(part * (len(ordered) - 1))]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached."""

    limit: float
    low: float | None = None
    """The least there may be as well, where both are limited."""
    at_least: bool = False

    def verdict(self, low: float, high: float) -> str:
        """What an effect that lies somewhere from `low` to `high` says."""
        if self.at_least:
            low, high, limit = -high, -low, -self.limit
        else:
            limit = self.limit
        if high <= limit and (self.low is None or low >= self.low):
            return "met"
        outside = low > limit or (self.low is not None and high < self.low)
        return "missed" if outside else INCONCLUSIVE

    def __str__(self) -> str:
        if self.low is not None:
            return f"{self.low:g} to {self.limit:g}"
        return f"{'at least' if self.at_least else 'at most'} {self.limit:g}"


_COMPARE: dict[By, Callable[[float, float], float]] = {
    "ratio": lambda ours, theirs: ours / theirs,
    "times less": lambda ours, theirs: theirs / ours,
    "difference": lambda ours, theirs: ours - theirs,
    "value": lambda ours, _: ours,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    what: str
    unit: str
    baseline: Samples | None
    measured: Samples
    by: By
    """How both are compared; a `value` stands for itself."""
    goal: Goal | None
    against: str = "plain"

    @property
    def effect(self) -> tuple[float, float, float]:
        """The median, and from where to where it may lie."""
        theirs = self.baseline.rounds if self.baseline else [0.0] * len(self.measured.rounds)
        compare = _COMPARE[self.by]
        pairs = [compare(a, b) for a, b in zip(self.measured.rounds, theirs, strict=True)]
        rng = random.Random(len(pairs))
        medians = [median(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES)]
        return median(pairs), quantile(medians, 0.025), quantile(medians, 0.975)

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        if len(self.measured.rounds) < 3:
            return INCONCLUSIVE
        return self.goal.verdict(*self.effect[1:])


@dataclass(frozen=True, slots=True)
class Missing:
    """A row that could not be measured."""

    what: str
    why: str
    failed: bool = False
    """Whether something went wrong that should not."""
