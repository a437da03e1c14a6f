"""The protocol of the stores (`proxy.stored.open_store`).

A store keeps entries: bytes under a name, of whose meaning it knows nothing.  Everything belongs to
an owner: a hash of a credential, a host and a base path.  An entry may have parts, which it shares
with others of its owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

PART = "part:"
"""How the name of a part begins; a digest of its bytes follows."""
Parts = Mapping[str, bytes]
NO_PARTS: Parts = {}


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
        name: str,
        blob: bytes,
        now: float,
        keeps: Sequence[str] = (),
        *,
        parts: Parts = NO_PARTS,
    ) -> None:
        """Keep `blob`, in place of what was kept under this name. When this returns, it is safe
        even if the process is killed. `keeps` are the names of the entries that it continues, and
        of their parts: their time begins anew. `now` is in Unix seconds.

        Each of the `parts`, by its name, is kept once for an owner, as long as an entry has it.
        """

    def get(self, owner: str, names: Sequence[str], now: float) -> list[bytes | None]:
        """The entries and parts with these names; None for one that is missing or too old."""

    def delete(self, owner: str, name: str, parts: Sequence[str] = ()) -> bool:
        """Whether there was something to delete; `parts` are the names of its parts, which are
        deleted, too, if no other entry has them."""

    def close(self) -> None:
        """Called once, after all other calls."""
