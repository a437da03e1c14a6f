"""Responses in memory, for as long as the process lives.

The invariant: the entries of an owner are in the order of their last use, and the sizes of
all, with what an entry itself takes, are at most the bound.
"""

from __future__ import annotations

import itertools
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...stored.store import MAX_ADDRESSES, NO_PARTS, Limits, Parts
from .evictions import EvictionLog

ENTRY = 500
"""About what an entry takes beside its id and its blob; the names are Python's."""


@dataclass(frozen=True, slots=True)
class _Entry:
    used: float
    blob: bytes
    parts: tuple[str, ...]


@dataclass(slots=True)
class _Owner:
    entries: dict[str, _Entry] = field(default_factory=dict)
    """Least recently used first."""
    parts: dict[str, bytes] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    """How many entries have each of the parts."""
    size: int = 0


class Memory:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._secret = secrets.token_bytes(32)
        self._owners: dict[str, _Owner] = {}
        """Those with entries."""
        self._evictions = EvictionLog()
        self._addresses: dict[str, tuple[float, str]] = {}
        """Least recently used first."""

    def secret(self) -> bytes:
        return self._secret

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
        own = {digest: part for digest, part in parts.items() if part is not None}
        self.limits.admit(blob, *own.values())
        entries = self._owner(owner).entries
        for kept_id in keeps:
            kept = entries.get(kept_id)
            if kept is not None and kept.used > self.limits.expiry(now):
                entries[kept_id] = replace(entries.pop(kept_id), used=now)
        self._remove(owner, response_id)
        self._remove_old(now)
        mine = self._owners.setdefault(owner, _Owner())
        mine.entries[response_id] = _Entry(now, blob, tuple(own))
        new = {digest: part for digest, part in own.items() if digest not in mine.parts}
        mine.parts |= new
        mine.uses.update(own.keys())
        mine.size += _size(response_id, blob) + sum(map(_size, new, new.values()))
        self._evictions.add(self._evict(owner, response_id), now)

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        expiry, entries = self.limits.expiry(now), self._owner(owner).entries
        found = map(entries.get, ids)
        return [entry.blob if entry and entry.used > expiry else None for entry in found]

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        return [self._owner(owner).parts.get(digest) for digest in digests]

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        return sum(blob is not None for blob in self.get(owner, ids, now))

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        del parts  # it knows
        return self._remove(owner, response_id)

    def remember(self, address: str, speaks: str, now: float) -> None:
        self._addresses.pop(address, None)
        if speaks:
            self._addresses[address] = now, speaks
        if len(self._addresses) > MAX_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]

    def remembered(self, address: str, now: float) -> str:
        used, speaks = self._addresses.get(address, (now, ""))
        if used <= self.limits.expiry(now):
            speaks = ""
        self.remember(address, speaks, now)
        return speaks

    def close(self) -> None:
        """Nothing is open."""

    def _owner(self, owner: str) -> _Owner:
        return self._owners.get(owner) or _Owner()

    def _remove(self, owner: str, response_id: str) -> bool:
        """Whether it was there."""
        mine = self._owner(owner)
        entry = mine.entries.pop(response_id, None)
        if entry is None:
            return False
        mine.size -= _size(response_id, entry.blob)
        for digest in entry.parts:
            mine.uses[digest] -= 1
            if not mine.uses[digest]:
                del mine.uses[digest]
                mine.size -= _size(digest, mine.parts.pop(digest))
        if not mine.entries:
            del self._owners[owner]
        return True

    def _remove_old(self, now: float) -> None:
        expiry = self.limits.expiry(now)
        for owner, mine in list(self._owners.items()):
            items = mine.entries.items()
            for name, _ in list(itertools.takewhile(lambda item: item[1].used <= expiry, items)):
                self._remove(owner, name)

    def _evict(self, owner: str, newest: str) -> int:
        """Make room; the `newest` entry, of `owner`, stays. How many went."""
        evicted = 0
        while sum(each.size for each in self._owners.values()) > self.limits.max_bytes:
            fullest = self._fullest(owner)
            oldest = next(iter(self._owners[fullest].entries))
            if (fullest, oldest) == (owner, newest):
                break
            self._remove(fullest, oldest)
            evicted += 1
        return evicted

    def _fullest(self, owner: str) -> str:
        """Who makes room: `owner` if it has more than its share, else the largest."""
        mine = self._owners[owner]
        if len(mine.entries) > 1 and mine.size > self.limits.max_bytes / len(self._owners):
            return owner
        return max(self._owners, key=lambda who: self._owners[who].size)


def _size(name: str, blob: bytes) -> int:
    return len(blob) + len(name) + ENTRY
