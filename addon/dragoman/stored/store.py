"""The protocol of the stores (`proxy.stored.open_store`).

A store keeps entries: bytes under a name, of whose meaning it knows nothing.  Everything belongs to
an owner: a hash of a credential, a host and a base path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class StoreError(Exception):
    """The store cannot be read or written now; the message is for the log."""


class StoreFull(StoreError):  # noqa: N818 - the name says what is the matter
    """There is no room on its disk: nothing can be written, nor deleted."""


class NotOpened(StoreError):  # noqa: N818 - the name says what is the matter
    """The store could not be opened, which was logged the first time."""


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
        self, owner: str, name: str, blob: bytes, now: float, keeps: Sequence[str] = ()
    ) -> None:
        """Keep `blob`, in place of what was kept under this name. When this returns, it is safe
        even if the process is killed. `keeps` are the names of the entries that it continues: their
        time begins anew. `now` is in Unix seconds."""

    def get(self, owner: str, names: Sequence[str], now: float) -> list[bytes | None]:
        """The entries with these names; None for one that is missing or too old."""

    def delete(self, owner: str, name: str) -> bool:
        """Whether there was something to delete."""

    def close(self) -> None:
        """Called once, after all other calls."""
