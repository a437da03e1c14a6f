"""The protocol of the stores (`proxy.stored.open_store`).

A store keeps bytes and knows nothing of their meaning.  Everything belongs to an owner: a hash of
a credential, a host and a base path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Parts = Mapping[str, bytes | None]
NO_PARTS: Parts = {}
MAX_ADDRESSES = 4096
"""Upstreams' addresses that are remembered, of some 200 bytes each; the least recently used goes
first."""


class StoreError(Exception):
    """The store cannot be read or written now; the message is for the log."""


class NotOpened(StoreError):  # noqa: N818 - the name says what is the matter
    """It could not be opened; that was logged the first time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The options ``dragoman_store_days`` and ``dragoman_store_max``."""

    days: float
    max_bytes: int

    @property
    def seconds(self) -> float:
        return self.days * 86400

    def expiry(self, now: float) -> float:
        """What was last used then or before is too old."""
        return now - self.seconds

    def admit(self, *blobs: bytes) -> None:
        """Raises `StoreError` for a response that is larger than the whole store."""
        size = sum(map(len, blobs))
        if size > self.max_bytes:
            raise StoreError(
                f"a response of {size} bytes is not kept: "
                f"it is larger than dragoman_store_max ({self.max_bytes})"
            )


class Store(Protocol):
    """Called in one thread, perhaps another than the one that made it. Methods may raise
    `StoreError`, and nothing else."""

    limits: Limits
    """May be replaced in any thread."""

    def secret(self) -> bytes:
        """The random key of the owners' hashes, the same for all who share the store."""

    def put(
        self,
        owner: str,
        response_id: str,
        blob: bytes,
        now: float,
        keeps: Sequence[str] = (),
        *,
        parts: Parts = NO_PARTS,
    ) -> None:
        """Keep `blob`, in place of what was kept under this id. When this returns, it is safe even
        if the process is killed. `keeps` are the ids of the responses that `blob` continues: their
        time begins anew. `now` is in Unix seconds.

        Each of the `parts` is kept once for an owner, as long as one of its responses has it; None
        stands for a part that one of `keeps` has, and that is kept already.
        """

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        """None for a response that is missing or too old."""

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        """None for a missing part."""

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        """How many of these different ids are kept."""

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        """Whether there was something to delete; `parts` are the digests of its parts, which are
        deleted, too, if no other response has them."""

    def remember(self, address: str, speaks: str, now: float) -> None:
        """Keep which API the upstream at an address (a hash) speaks, for as long as a response;
        forget it for an empty text."""

    def remembered(self, address: str, now: float) -> str:
        """What was remembered last, whose time begins anew; or ""."""

    def close(self) -> None:
        """Called once, after all other calls."""
