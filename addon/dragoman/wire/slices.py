"""Long work, cut into slices: a generator that yields wherever it may be interrupted.

It yields nothing and returns its result.  Each step is small, some milliseconds at most,
whatever the whole is; so who runs it can let others have their turn in between, see
`proxy.run_slices`, or can run it through at once (`drained`).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Slices = Generator[None, None, T]

_AT_ONCE = 500
"""Members of a list that are let go of in one step."""


def drained(work: Slices[T]) -> T:
    """The result of work that is done at once."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def emptied(members: list[Any]) -> Slices[None]:
    """Let go of the members of a list: of a long one, all at once takes tenths of a second."""
    while members:
        del members[-_AT_ONCE:]
        yield
