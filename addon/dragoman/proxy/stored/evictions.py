"""Logs what a store forgets before its time."""

from __future__ import annotations

import logging

logger = logging.getLogger(__name__)

QUIET = 60.0
"""Seconds between two lines of the log: a full store forgets something at each put."""
FULL = "The store is full: %d kept responses were forgotten before their time (dragoman_store_max)."


class EvictionLog:
    def __init__(self, message: str = FULL) -> None:
        """`message` has a ``%d`` for the evictions since the last line."""
        self._message = message
        self._count = 0
        self._logged = float("-inf")

    def add(self, count: int, now: float) -> None:
        self._count += count
        if self._count and abs(now - self._logged) >= QUIET:
            logger.warning(self._message, self._count)
            self._count = 0
            self._logged = now
