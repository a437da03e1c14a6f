"""The back-ends of the store, each real, as the tests of their common contract use them.

A back-end brings the time with it, so that a test can let a month pass: the two that are
told the time are told another one, and of what Redis keeps each key's time is shortened.
"""

from __future__ import annotations

import importlib
import itertools
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from dragoman.proxy.stored.open_store import open_store
from dragoman.stored.store import Limits, Store

MB = 1024 * 1024
OWNER = "a" * 64
NOW = 1_700_000_000.0


class Backend:
    """Where stores are opened that all share what they keep (but for those in memory)."""

    shared = True
    bounded = True
    """Whether `max_bytes` means something to it."""

    def __init__(self, value: str, confdir: Path) -> None:
        self.value = value
        self.confdir = confdir
        self.now = time.time()
        self._opened: list[Store] = []

    def open(self, *, days: float = 30, max_bytes: int = 64 * MB) -> Store:
        store = open_store(self.value, confdir=self.confdir, limits=Limits(days, max_bytes))
        self._opened.append(store)
        return store

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def clear(self) -> None:
        """As if nothing had been kept; stores that are open are closed."""
        for store in self._opened:
            store.close()
        self._opened.clear()


class MemoryBackend(Backend):
    shared = False

    def __init__(self, confdir: Path) -> None:
        super().__init__("memory", confdir)


class SqliteBackend(Backend):
    def __init__(self, confdir: Path) -> None:
        super().__init__("", confdir)
        self._root = confdir
        self._numbers = itertools.count(1)

    def clear(self) -> None:
        super().clear()
        self.confdir = self._root / str(next(self._numbers))


class RedisBackend(Backend):
    bounded = False

    def __init__(self, url: str, confdir: Path) -> None:
        super().__init__(url, confdir)
        self._redis: Any = importlib.import_module("redis").Redis.from_url(url)
        self._redis.flushall()

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        for key in self._redis.keys("*"):
            if (left := self._redis.pttl(key)) >= 0:
                self._redis.pexpire(key, left - round(seconds * 1000))

    def clear(self) -> None:
        super().clear()
        self._redis.flushall()


def file_store(path: Path | str, **bounds: float) -> Store:
    days, size = bounds.get("days", 30), int(bounds.get("max_bytes", 64 * MB))
    return open_store(str(path), confdir=Path("/nonexistent"), limits=Limits(days, size))


def assert_whole(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (lonely,) = db.execute(
            "SELECT count(*) FROM responses LEFT JOIN blobs USING (key) WHERE blob IS NULL"
        ).fetchone()
        (left,) = db.execute(
            "SELECT count(*) FROM blobs LEFT JOIN responses USING (key) WHERE id IS NULL"
        ).fetchone()
        assert (lonely, left) == (0, 0)
