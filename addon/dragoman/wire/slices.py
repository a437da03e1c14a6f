"""Long work as a generator that yields wherever it may be interrupted, and returns its result.

Each step takes some milliseconds at most, so the caller can let others run in between
(`proxy.run_slices`), or run it at once (`drained`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Slices = Generator[None, None, T]

_AT_ONCE = 500


def drained(work: Slices[T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def emptied(members: list[Any]) -> Slices[None]:
    """Free the members of a list in steps: all at once takes tenths of a second for a long one."""
    while members:
        del members[-_AT_ONCE:]
        yield
