"""What work costs in calls, which are as many on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

from dragoman.repair.formats.formats_by_family import AUTO

AUTO.compile()  # else what compiles them first would count it

_NO_CALLS = {"<listcomp>", "<setcomp>", "<dictcomp>"}
"""Since Python 3.12, a comprehension runs in the frame that it stands in."""


def files_of(work: Callable[[], object]) -> set[str]:
    """The files of functions that `work` calls."""
    files: set[str] = set()

    def noted(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and not frame.f_code.co_filename.startswith("<"):
            files.add(frame.f_code.co_filename)

    _profiled(noted, work)
    return files


def calls_of(work: Callable[[], object], *, in_c: bool = True) -> int:
    """How many functions `work` calls, those of Python and, if wanted, those in C."""
    count = 0

    def counted(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        if event == "call":
            count += frame.f_code.co_name not in _NO_CALLS
        elif event == "c_call":
            count += in_c

    _profiled(counted, work)
    return count


def _profiled(
    profile: Callable[[FrameType, str, object], None], work: Callable[[], object]
) -> None:
    """Without collections of garbage, which come when they come: Hypothesis has them timed."""
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
