"""How long responses are kept, and how many bytes of them."""

from __future__ import annotations

from dataclasses import dataclass

from ...state.store import StoreError

MAX_ADDRESSES = 4096
"""Upstreams' addresses that are remembered; some 200 bytes each, and hardly anybody uses ten."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The options ``dragoman_store_days`` and ``dragoman_store_max``."""

    seconds: float
    size: int

    def dead(self, now: float) -> float:
        """What was last used then, or before, is too old at `now`."""
        return now - self.seconds

    def admit(self, blob: bytes) -> None:
        """Raises `StoreError` for one that is too large even if nothing else is kept."""
        if len(blob) > self.size:
            raise StoreError(
                f"a response of {len(blob)} bytes is not kept: "
                f"it is larger than dragoman_store_max ({self.size})"
            )
