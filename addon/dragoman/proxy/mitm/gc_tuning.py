"""Memory that ended flows leave, given back when no stream runs.

mitmproxy's flows are reference cycles: what passed in an ended one stays until Python's
collector comes, and that is for hundreds of them at once.  So it is called here, where it
makes no stream wait.  What has been loaded at the start stays for good, and is put out of
its sight: a look at everything would take a tenth of a second, one at the rest takes a
fraction of a millisecond.  None of this is for a mitmproxy with a view, which keeps flows.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Callable

PAUSE = 0.1
"""Seconds from the end of a flow until it is collected."""
SHARE = 0.01
"""The part of the time that this may take, however much there is to look at."""


def spare_what_is_loaded() -> None:
    """Once, when mitmproxy runs: a script that is loaded anew comes later than flows."""
    if not gc.get_freeze_count():
        gc.freeze()


class Collector:
    """Collects what ended flows leave."""

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        """`is_quiet`: whether no stream runs."""
        self._is_quiet = is_quiet
        self._timer: asyncio.TimerHandle | None = None
        self._not_before = 0.0

    def ended(self) -> None:
        """A flow has ended."""
        if self._timer is None:
            delay = max(PAUSE, self._not_before - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._collect)

    def stop(self) -> None:
        """mitmproxy ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _collect(self) -> None:
        self._timer = None
        if not self._is_quiet():
            return  # the end of what runs comes here as well
        began = time.monotonic()
        gc.collect()
        _give_back()
        ended = time.monotonic()
        self._not_before = ended + (ended - began) / SHARE


def _give_back() -> None:
    """Have the C library return what is free to the system; only glibc keeps much of it."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return
    trim(0)
