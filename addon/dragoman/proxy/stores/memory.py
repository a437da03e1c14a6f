"""Responses in memory, for as long as the process lives.

The invariant: the entries are in the order of their last use, and their sizes, with what
an entry itself takes, are at most the bound.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from .bounds import MAX_ADDRESSES, Bounds

ENTRY = 500
"""About what an entry takes beside its id and its blob; the names are Python's."""
_Key = tuple[str, str]


class Memory:
    """A `Store` that ends with its process."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._secret = secrets.token_bytes(32)
        self._entries: dict[_Key, tuple[float, bytes]] = {}  # that used the longest ago first
        self._size = 0
        self._addresses: dict[str, tuple[float, str]] = {}  # that used the longest ago first

    def secret(self) -> bytes:
        return self._secret

    def put(
        self, owner: str, response_id: str, blob: bytes, now: float, keeps: Sequence[str] = ()
    ) -> None:
        self._bounds.admit(blob)
        for kept_id in keeps:
            kept = self._remove((owner, kept_id))
            if kept is not None and kept[0] > self._bounds.dead(now):
                self._add((owner, kept_id), now, kept[1])
        self._remove((owner, response_id))
        self._add((owner, response_id), now, blob)
        self._prune(now)

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        dead = self._bounds.dead(now)
        found = (self._entries.get((owner, response_id)) for response_id in ids)
        return [entry[1] if entry and entry[0] > dead else None for entry in found]

    def delete(self, owner: str, response_id: str) -> bool:
        return self._remove((owner, response_id)) is not None

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
        self._addresses.clear()
        self._entries.clear()
        self._size = 0

    def _add(self, key: _Key, used: float, blob: bytes) -> None:
        self._entries[key] = used, blob
        self._size += _size(key, blob)

    def _remove(self, key: _Key) -> tuple[float, bytes] | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size -= _size(key, entry[1])
        return entry

    def _prune(self, now: float) -> None:
        """The newest, which `put` has just promised to keep, stays."""
        dead = self._bounds.dead(now)
        while len(self._entries) > 1:
            oldest, (used, _) = next(iter(self._entries.items()))
            if used > dead and self._size <= self._bounds.size:
                return
            self._remove(oldest)


def _size(key: _Key, blob: bytes) -> int:
    return len(blob) + len(key[1]) + ENTRY
