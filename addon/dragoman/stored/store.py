"""The protocol of the stores (`proxy.stored.open_store`).

A store keeps bytes and knows nothing of their meaning.  Everything belongs to an owner: a hash of
a credential, a host and a base path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Parts = Mapping[str, bytes | None]
NO_PARTS: Parts = {}


class StoreError(Exception):
    """The store cannot be read or written now; the message is for the log."""


class NotOpened(StoreError):  # noqa: N818 - the name says what is the matter
    """It could not be opened; that was logged the first time."""


class Store(Protocol):
    """Called in one thread, perhaps another than the one that made it. Methods may raise
    `StoreError`, and nothing else."""

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
        """Keep `blob`, in place of what was kept under this id; it is safe when this returns
        (a process that is killed after it loses nothing).  `keeps` are the ids of those
        that `blob` continues: their time begins anew.  `now` is in Unix seconds.

        `parts` are kept once for all of an owner's that have them, and as long as any has;
        None: a part that is kept already, and that one of `keeps` has.
        """

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        """None for one that is not there, or too old."""

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        """None for one that is not there."""

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        """How many of these different ids are kept."""

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        """Whether there was something to delete; `parts` are the digests of its parts, which are
        deleted, too, if no other response has them."""

    def limit(self, days: float, max_bytes: int) -> None:
        """New limits; called in any thread, and does not block."""

    def remember(self, address: str, speaks: str, now: float) -> None:
        """Keep which API the upstream at an address (a hash) speaks, for as long as a response;
        forget it for an empty text."""

    def remembered(self, address: str, now: float) -> str:
        """What was remembered last, whose time begins anew; or ""."""

    def close(self) -> None:
        """Called once, after all other calls."""
