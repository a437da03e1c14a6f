"""How long responses are kept, and how many bytes of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...stored.store import StoreError

logger = logging.getLogger(__name__)

QUIET = 60.0
"""Seconds between two lines of the log: a full store forgets something at each put."""
MAX_ADDRESSES = 4096
"""Upstreams' addresses that are remembered, of some 200 bytes each."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The options ``dragoman_store_days`` and ``dragoman_store_max``."""

    seconds: float
    size: int

    @classmethod
    def of(cls, days: float, max_bytes: int) -> Limits:
        return cls(seconds=days * 86400, size=max_bytes)

    def dead(self, now: float) -> float:
        """What was last used then or before is too old."""
        return now - self.seconds

    def admit(self, *blobs: bytes) -> None:
        """Raises `StoreError` for one that is larger than the whole store."""
        size = sum(map(len, blobs))
        if size > self.size:
            raise StoreError(
                f"a response of {size} bytes is not kept: "
                f"it is larger than dragoman_store_max ({self.size})"
            )


class Evictions:
    """Logs what a store forgets before its time."""

    def __init__(self, message: str) -> None:
        """`message` has a ``%d`` for how many there were since it was logged last."""
        self._message = message
        self._count = 0
        self._logged = float("-inf")

    def note(self, count: int, now: float) -> None:
        self._count += count
        if self._count and abs(now - self._logged) >= QUIET:
            logger.warning(self._message, self._count)
            self._count = 0
            self._logged = now


FULL = "The store is full: %d kept responses were forgotten before their time (dragoman_store_max)."
