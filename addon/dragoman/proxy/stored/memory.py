"""Responses in memory, for as long as the process lives.

The invariant: the entries of an owner are in the order of their last use, and the sizes of
all, with what an entry itself takes, are at most the bound.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...stored.store import NO_PARTS, Parts
from .limits import FULL, MAX_ADDRESSES, Evictions, Limits

ENTRY = 500
"""About what an entry takes beside its id and its blob; the names are Python's."""


@dataclass(frozen=True, slots=True)
class _Entry:
    used: float
    blob: bytes
    parts: tuple[str, ...]


@dataclass(slots=True)
class _Part:
    blob: bytes
    uses: int = 0


@dataclass(slots=True)
class _Owner:
    entries: dict[str, _Entry] = field(default_factory=dict)
    """Least recently used first."""
    parts: dict[str, _Part] = field(default_factory=dict)
    size: int = 0


class Memory:
    def __init__(self, bounds: Limits) -> None:
        self._bounds = bounds
        self._secret = secrets.token_bytes(32)
        self._owners: dict[str, _Owner] = {}
        self._size = 0
        self._evictions = Evictions(FULL)
        self._addresses: dict[str, tuple[float, str]] = {}  # that used the longest ago first

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
        self._bounds.admit(blob, *own.values())
        for kept_id in keeps:
            kept = self._entries(owner).get(kept_id)
            if kept is not None and kept.used > self._bounds.dead(now):
                entries = self._entries(owner)
                del entries[kept_id]
                entries[kept_id] = replace(kept, used=now)
        self._remove(owner, response_id)
        self._add(owner, response_id, _Entry(now, blob, tuple(own)), own)
        self._evictions.note(self._prune(owner, response_id, now), now)

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        dead = self._bounds.dead(now)
        entries = self._entries(owner)
        found = (entries.get(response_id) for response_id in ids)
        return [entry.blob if entry and entry.used > dead else None for entry in found]

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        known = self._owners.get(owner, _Owner()).parts
        return [known[digest].blob if digest in known else None for digest in digests]

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        return sum(blob is not None for blob in self.get(owner, ids, now))

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        del parts  # it knows
        return self._remove(owner, response_id) is not None

    def limit(self, days: float, max_bytes: int) -> None:
        self._bounds = Limits.of(days, max_bytes)

    def remember(self, address: str, speaks: str, now: float) -> None:
        self._addresses.pop(address, None)
        if speaks:
            self._addresses[address] = now, speaks
        if len(self._addresses) > MAX_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]

    def remembered(self, address: str, now: float) -> str:
        used, speaks = self._addresses.get(address, (now, ""))
        if used <= self._bounds.dead(now):
            speaks = ""
        self.remember(address, speaks, now)
        return speaks

    def close(self) -> None:
        self._owners.clear()
        self._addresses.clear()
        self._size = 0

    def _entries(self, owner: str) -> dict[str, _Entry]:
        known = self._owners.get(owner)
        return known.entries if known else {}

    def _add(self, owner: str, response_id: str, entry: _Entry, parts: Mapping[str, bytes]) -> None:
        mine = self._owners.setdefault(owner, _Owner())
        mine.entries[response_id] = entry
        size = _size(response_id, entry.blob)
        for digest, blob in parts.items():
            part = mine.parts.get(digest)
            if part is None:
                part = mine.parts[digest] = _Part(blob)
                size += _size(digest, blob)
            part.uses += 1
        mine.size += size
        self._size += size

    def _remove(self, owner: str, response_id: str) -> _Entry | None:
        entry = self._entries(owner).pop(response_id, None)
        if entry is not None:
            mine, size = self._owners[owner], _size(response_id, entry.blob)
            for digest in entry.parts:
                part = mine.parts[digest]
                part.uses -= 1
                if not part.uses:
                    size += _size(digest, part.blob)
                    del mine.parts[digest]
            mine.size -= size
            self._size -= size
            if not mine.entries:
                del self._owners[owner]
        return entry

    def _prune(self, owner: str, newest: str, now: float) -> int:
        """How many went before their time. The newest, just put, stays."""
        dead = self._bounds.dead(now)
        for who in list(self._owners):
            for name in [name for name, _ in self._aged(who, dead)]:
                if (who, name) != (owner, newest):
                    self._remove(who, name)
        evicted = 0
        while self._size > self._bounds.size:
            who = self._fullest(owner)
            names = [name for name in itertools.islice(self._entries(who), 2) if name != newest]
            if not names:
                break
            self._remove(who, names[0])
            evicted += 1
        return evicted

    def _aged(self, owner: str, dead: float) -> Iterator[tuple[str, _Entry]]:
        return itertools.takewhile(lambda item: item[1].used <= dead, self._entries(owner).items())

    def _fullest(self, owner: str) -> str:
        """Who makes room: `owner` if it has more than its share, else the largest."""
        mine = self._owners[owner]
        if len(mine.entries) > 1 and mine.size > self._bounds.size / len(self._owners):
            return owner
        return max(self._owners, key=lambda who: self._owners[who].size)


def _size(response_id: str, blob: bytes) -> int:
    return len(blob) + len(response_id) + ENTRY
