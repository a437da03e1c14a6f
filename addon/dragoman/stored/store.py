"""What a store of responses has to do; `proxy.stored.open_store` holds those there are.

A store keeps bytes and knows nothing of what they mean.  Whatever it is asked, it is
asked for one owner: a hash that stands for a credential, a host and a base path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Parts = Mapping[str, bytes | None]
"""By digest, a short text without blanks."""
NO_PARTS: Parts = {}


class StoreError(Exception):
    """The store cannot be read or written now; the message is for the log."""


class NotOpened(StoreError):  # noqa: N818 - the name says what is the matter
    """It could not be opened; that was said when it was tried first, and once is enough."""


class Store(Protocol):
    """Called in one thread, which need not be the one that made it.  Every method may
    raise `StoreError`, and nothing else."""

    def secret(self) -> bytes:
        """The key of the owners' hashes: made at random once, the same ever after and for
        all who share the store."""

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
        that `blob` goes on from: their time begins anew.  `now` is in Unix seconds.

        `parts` are kept once for all of an owner's that have them, and as long as any has;
        None stands for one that is there, and that one of `keeps` has.
        """

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        """What is kept of each; None for one that is not there, or too old."""

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        """What is kept of each; None for one that is not there."""

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        """How many of these, which are all different, are kept."""

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        """Whether there was something to delete; `parts` are the digests of those it has,
        which are deleted, too, if no other has them."""

    def limit(self, days: float, max_bytes: int) -> None:
        """Other bounds from now on; called in any thread, and waits for nothing."""

    def remember(self, address: str, speaks: str, now: float) -> None:
        """Keep which API the upstream at an address speaks, for as long as a response is kept;
        forget it for an empty text.  `address` is a hash."""

    def remembered(self, address: str, now: float) -> str:
        """What `remember` was given for it last, whose time begins anew; or nothing."""

    def close(self) -> None:
        """The store is not used any more."""
