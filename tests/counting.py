"""What work costs in calls, which are as many on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

_NO_CALLS = {"<listcomp>", "<setcomp>", "<dictcomp>"}
"""Since Python 3.12, a comprehension runs in the frame that it stands in."""


def calls_of(work: Callable[[], object], *, in_c: bool = True) -> int:
    """How many functions `work` calls, those of Python and, if wanted, those in C."""
    count = 0

    def counted(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        if event == "call":
            count += frame.f_code.co_name not in _NO_CALLS
        elif event == "c_call":
            count += in_c

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
