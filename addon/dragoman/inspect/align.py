"""Which of two sequences' elements stand side by side.

Both sides of a reply keep their order, so equal elements that occur once on each side
are anchors, and runs of equals grow from them; what lies between is left to be placed
by what it carries.  A client's frame stands behind the upstream frame that brought the
last of its text: the text is searched in the upstream's, from where the one before was
found and not far, so the work is linear.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..repair.formats import MARKUP
from ..wire.json_codec import dumps

_REACH = 2048
"""Characters of the upstream's text that are passed over at most in search of a text."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Elements `left[a:b]` beside `right[c:d]`; equal ones, or two sides of a difference."""

    same: bool
    a: int
    b: int
    c: int
    d: int


def stretches(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Stretch]:
    """Both sequences from start to end, as equal and different stretches by turns."""
    pairs = _grown(left, right, _anchors(left, right))
    found: list[Stretch] = []
    a = c = 0
    for i, j, length in pairs:
        if i > a or j > c:
            found.append(Stretch(False, a, i, c, j))
        found.append(Stretch(True, i, i + length, j, j + length))
        a, c = i + length, j + length
    if a < len(left) or c < len(right):
        found.append(Stretch(False, a, len(left), c, len(right)))
    return found


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of equals that occur once on each side, the longest chain that keeps order."""
    once_left, once_right = _once(left), _once(right)
    pairs = [(i, once_right[x]) for x, i in once_left.items() if x in once_right]
    piles: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        pile = bisect_right(piles, j)
        before.append(tops[pile - 1] if pile else -1)
        piles[pile : pile + 1] = [j]
        tops[pile : pile + 1] = [at]
    chain: list[tuple[int, int]] = []
    at = tops[-1] if tops else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _once(elements: Sequence[Hashable]) -> dict[Hashable, int]:
    """Where the elements stand that occur once."""
    places: dict[Hashable, int] = {}
    for index, element in enumerate(elements):
        places[element] = -1 if element in places else index
    return {element: index for element, index in places.items() if index >= 0}


def _grown(
    left: Sequence[Hashable], right: Sequence[Hashable], anchors: list[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """Runs of equals: from the start, around each anchor, and up to the end."""
    runs: list[tuple[int, int, int]] = []
    a = c = 0
    for i, j in [(0, 0), *anchors, (len(left), len(right))]:
        if i < a or j < c:
            continue
        start = 0
        while i - start > a and j - start > c and left[i - start - 1] == right[j - start - 1]:
            start += 1
        end = 0
        while i + end < len(left) and j + end < len(right) and left[i + end] == right[j + end]:
            end += 1
        if start + end:
            _append(runs, (i - start, j - start, start + end))
            a, c = i + end, j + end
    return runs


def _append(runs: list[tuple[int, int, int]], run: tuple[int, int, int]) -> None:
    i, j, length = runs[-1] if runs else (0, 0, 0)
    if runs and (i + length, j + length) == run[:2]:
        runs[-1] = (i, j, length + run[2])
    else:
        runs.append(run)


def behind(upstream: Sequence[str], client: Sequence[str | None]) -> list[int]:
    """For each client frame how many upstream frames it stands behind, by what they carry.

    A frame that carries nothing (None: nothing, and it opens nothing) stands with the next
    that does, behind it all if none follows.
    """
    text = MARKUP.sub(lambda match: "\0" * len(match[0]), "".join(upstream))
    ends = list(accumulate(map(len, upstream)))
    position = 0
    places: list[int] = []
    waiting = 0
    for carried in client:
        if not carried:
            waiting += 1
            continue
        found, length = _find(text, carried, position)
        if found >= 0:
            position = found + length
        place = min(bisect_right(ends, position - 1) + 1, len(upstream)) if position else 0
        places += [place] * (waiting + 1)
        waiting = 0
    return places + [len(upstream)] * waiting


def _find(text: str, carried: str, start: int) -> tuple[int, int]:
    """Where a text stands, and its length there: custom input is a JSON string upstream."""
    found = text.find(carried, start, start + len(carried) + _REACH)
    if found >= 0:
        return found, len(carried)
    escaped = dumps(carried)[1:-1].decode()
    return text.find(escaped, start, start + len(escaped) + _REACH), len(escaped)
