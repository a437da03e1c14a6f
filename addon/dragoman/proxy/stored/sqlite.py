"""Responses in one SQLite file, which several processes may share.

When `put` returns, its data is written to the file or its write-ahead log: a killed process loses
nothing.  Nothing waits for the disk (synchronous=NORMAL), so a power cut may lose the last
seconds, but damages nothing.  A put takes less than a millisecond, unless it finds 4 MB in the
log: SQLite then moves them into the file, which waits for the disk.  Blobs are not compressed:
zlib takes several times as long as writing.  Each put removes about as many bytes as it adds, of
what is too old or too much; freed pages are used again, and if there are many, the file shrinks
some pages at each put.  Deleted data is overwritten (secure_delete), and `delete` empties the log
into the file before it returns. (While another process reads, that is done when one of them next
uses the file.)
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...stored.store import NO_PARTS, Parts, StoreError
from .limits import FULL, MAX_ADDRESSES, Evictions, Limits
from .sqlite_file import DAMAGED, SMALL, code, connect, in_words, make, number, transaction

BUSY = 2.0
"""Seconds to wait for a process that writes."""
PRUNED = 64
"""Responses a put may remove; a large put more, as needed for its room."""
AT_ONCE = 500
"""Values of a statement: some builds of SQLite take at most 999."""
BATCH = 16
"""Of an owner, looked up at once."""
READING = 500
"""Milliseconds to wait for a process that reads."""
SPARE_PAGES, VACUUMED_PAGES = 1024, 64


class Sqlite:
    def __init__(self, path: Path, bounds: Limits) -> None:
        """Makes the file and its folder if needed, for the user alone. Raises `StoreError` if that
        fails, or if the file is something else."""
        self._path = path
        self._bounds = bounds
        self._evictions = Evictions(FULL)
        self._forgets = False
        """Whether the log may hold deleted data."""
        self._damaged = ""
        with self._errors():
            make(path)
            self._db = connect(path, BUSY)
            self._page_size = number(self._db, "PRAGMA page_size")
            self._secret: bytes = self._db.execute("SELECT secret FROM secret").fetchone()[0]

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
        dead = self._bounds.dead(now)
        mine, name = _bytes(owner), _bytes(response_id)
        with self._errors(), transaction(self._db) as db:
            for some in _some(keeps):
                db.execute(
                    "UPDATE responses SET used = ? WHERE owner = ? AND used > ? "
                    f"AND id IN ({_marks(some)})",
                    (now, mine, dead, *some),
                )
            db.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (mine, name))
            evicted = self._prune(mine, len(blob) + self._lacking(mine, own), dead)
            key = db.execute(
                "INSERT INTO responses (owner, id, used) VALUES (?, ?, ?)", (mine, name, now)
            ).lastrowid
            db.execute("INSERT INTO blobs (key, blob) VALUES (?, ?)", (key, blob))
            self._add_parts(mine, key, own)
        self._evictions.note(evicted, now)
        if self._forgets:
            self._forget(0)

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        mine, dead = _bytes(owner), self._bounds.dead(now)
        query = (
            "SELECT blob FROM responses JOIN blobs USING (key) "
            "WHERE owner = ? AND id = ? AND used > ?"
        )
        with self._errors(), transaction(self._db, "BEGIN") as db:
            rows = [db.execute(query, (mine, _bytes(name), dead)).fetchone() for name in ids]
        if self._forgets:
            self._forget(0)
        return [row[0] if row else None for row in rows]

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        mine, query = _bytes(owner), "SELECT blob FROM parts WHERE owner = ? AND digest = ?"
        with self._errors(), transaction(self._db, "BEGIN") as db:
            rows = [db.execute(query, (mine, _bytes(name))).fetchone() for name in digests]
        return [row[0] if row else None for row in rows]

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        mine, dead, found = _bytes(owner), self._bounds.dead(now), 0
        with self._errors(), transaction(self._db, "BEGIN") as db:
            for some in _some(ids):
                found += db.execute(
                    "SELECT count(*) FROM responses WHERE owner = ? AND used > ? "
                    f"AND id IN ({_marks(some)})",
                    (mine, dead, *some),
                ).fetchone()[0]
        return found

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        del parts  # the file knows
        with self._errors(), transaction(self._db) as db:
            deleted = db.execute(
                "DELETE FROM responses WHERE owner = ? AND id = ?",
                (_bytes(owner), _bytes(response_id)),
            ).rowcount
        if deleted:
            self._forget(READING)
        return deleted > 0

    def limit(self, days: float, max_bytes: int) -> None:
        self._bounds = Limits.of(days, max_bytes)

    def remember(self, address: str, speaks: str, now: float) -> None:
        with self._errors(), transaction(self._db) as db:
            db.execute("DELETE FROM addresses WHERE address = ?", (address,))
            if speaks:
                db.execute("INSERT INTO addresses VALUES (?, ?, ?)", (address, speaks, now))
            db.execute(
                "DELETE FROM addresses WHERE used <= ? OR address IN "
                "(SELECT address FROM addresses ORDER BY used DESC LIMIT -1 OFFSET ?)",
                (self._bounds.dead(now), MAX_ADDRESSES),
            )

    def remembered(self, address: str, now: float) -> str:
        query = "SELECT speaks FROM addresses WHERE address = ? AND used > ?"
        with self._errors(), transaction(self._db, "BEGIN") as db:
            row = db.execute(query, (address, self._bounds.dead(now))).fetchone()
        if row is None:
            return ""
        self.remember(address, row[0], now)
        return str(row[0])

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _prune(self, owner: bytes, size: int, dead: float) -> int:
        """Remove what is too old, and then the least recently used, to make room for `size` bytes
        of this owner. How many went before their time."""
        old = "SELECT key FROM responses WHERE used <= ? ORDER BY used, key LIMIT ?"
        self._remove(self._db.execute(old, (dead, PRUNED)).fetchall())
        evicted, bound = 0, self._bounds.size - size
        own = "SELECT key FROM responses WHERE owner = ? ORDER BY used, key LIMIT ?"
        while self._used() > bound and evicted < PRUNED + size // SMALL:
            who = self._fullest(owner, size)
            keys = self._db.execute(own, (who, BATCH)).fetchall()
            if not keys:
                break
            for key in keys:
                self._remove([key])
                evicted += 1
                if self._used() <= bound:
                    break
        free = number(self._db, "PRAGMA freelist_count")
        if free > max(SPARE_PAGES, number(self._db, "PRAGMA page_count") // 4):
            for _ in range(VACUUMED_PAGES):  # Python 3.11 does one at a time, whatever is asked
                self._db.execute("PRAGMA incremental_vacuum(1)").fetchall()
        return evicted

    def _lacking(self, owner: bytes, parts: Mapping[str, bytes]) -> int:
        """Bytes of `parts` that are new."""
        query = "SELECT count(*) FROM parts WHERE owner = ? AND digest = ?"
        return sum(
            len(blob)
            for digest, blob in parts.items()
            if not self._db.execute(query, (owner, _bytes(digest))).fetchone()[0]
        )

    def _add_parts(self, owner: bytes, key: int | None, parts: Mapping[str, bytes]) -> None:
        for digest, blob in parts.items():
            name = _bytes(digest)
            self._db.execute(
                "INSERT OR IGNORE INTO parts (owner, digest, blob) VALUES (?, ?, ?)",
                (owner, name, blob),
            )
            self._db.execute(
                "INSERT INTO uses SELECT ?, key FROM parts WHERE owner = ? AND digest = ?",
                (key, owner, name),
            )

    def _remove(self, keys: list[tuple[int]]) -> None:
        self._db.executemany("DELETE FROM responses WHERE key = ?", keys)

    def _fullest(self, owner: bytes, size: int) -> bytes:
        """Who makes room for `size` bytes of `owner`: itself if it then has more than its share,
        else the largest."""
        mine = self._db.execute("SELECT size FROM owners WHERE owner = ?", (owner,)).fetchone()
        owners = number(self._db, "SELECT count(*) FROM owners") + (mine is None)
        if mine and mine[0] + size > self._bounds.size / owners:
            return owner
        most = self._db.execute("SELECT owner FROM owners ORDER BY size DESC LIMIT 1").fetchone()
        return bytes(most[0]) if most else owner

    def _used(self) -> int:
        """Bytes in use, known to SQLite without a search."""
        pages = number(self._db, "PRAGMA page_count") - number(self._db, "PRAGMA freelist_count")
        return pages * self._page_size

    def _forget(self, wait: int) -> None:
        """Remove deleted data from the log, too: its place in the file is overwritten when the log
        is moved there. That waits for a process that reads: for so many milliseconds now, else
        until this store is next used."""
        with self._errors():
            self._db.execute(f"PRAGMA busy_timeout = {wait}")
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._db.execute(f"PRAGMA busy_timeout = {round(BUSY * 1000)}")
        self._forgets = bool(busy)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Any fault within becomes a `StoreError`. A damaged file is left as it is."""
        if self._damaged:
            raise StoreError(self._damaged)
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            words = in_words(self._path, error)
            if code(error) in DAMAGED:
                self._damaged = words
            raise StoreError(words) from None


def _some(ids: Sequence[str]) -> Iterator[list[bytes]]:
    for begin in range(0, len(ids), AT_ONCE):
        yield [_bytes(name) for name in ids[begin : begin + AT_ONCE]]


def _marks(values: Sequence[bytes]) -> str:
    return ", ".join("?" * len(values))


def _bytes(text: str) -> bytes:
    """An id is any text a client sent, even with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
