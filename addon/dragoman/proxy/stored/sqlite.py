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

from ...stored.store import MAX_ADDRESSES, NO_PARTS, Limits, Parts, StoreError
from .evictions import EvictionLog
from .sqlite_file import DAMAGED, SMALL, code, in_words, number, open_file, transaction

BUSY = 2.0
"""Seconds to wait for a process that writes."""
PRUNED = 64
"""Responses a put may remove; a large put more, as needed for its room."""
READING = 500
"""Milliseconds to wait for a process that reads."""
SPARE_PAGES, VACUUMED_PAGES = 1024, 64


class Sqlite:
    def __init__(self, path: Path, limits: Limits) -> None:
        """Makes the file and its folder if needed, for the user alone. Raises `StoreError` if that
        fails, or if the file is something else."""
        self.limits = limits
        self._path = path
        self._evictions = EvictionLog()
        self._log_has_deleted = False
        """Whether the log may hold deleted data."""
        self._damaged = ""
        with self._errors():
            self._db = open_file(path, BUSY)
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
        own = {_bytes(digest): part for digest, part in parts.items() if part is not None}
        self.limits.admit(blob, *own.values())
        expiry = self.limits.expiry(now)
        mine, name = _bytes(owner), _bytes(response_id)
        with self._transaction("BEGIN IMMEDIATE") as db:
            db.executemany(
                "UPDATE responses SET used = ? WHERE owner = ? AND id = ? AND used > ?",
                [(now, mine, _bytes(kept_id), expiry) for kept_id in keeps],
            )
            db.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (mine, name))
            evicted = self._prune(mine, len(blob) + self._new_bytes(mine, own), expiry)
            row = (mine, name, now)
            key = db.execute("INSERT INTO responses (owner, id, used) VALUES (?, ?, ?)", row)
            db.execute("INSERT INTO blobs (key, blob) VALUES (?, ?)", (key.lastrowid, blob))
            new = [(mine, digest, part) for digest, part in own.items()]
            db.executemany(
                "INSERT OR IGNORE INTO parts (owner, digest, blob) VALUES (?, ?, ?)", new
            )
            db.executemany(
                "INSERT INTO uses SELECT ?, key FROM parts WHERE owner = ? AND digest = ?",
                [(key.lastrowid, mine, digest) for digest in own],
            )
        self._evictions.add(evicted, now)
        if self._log_has_deleted:
            self._empty_log(0)

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        query = (
            "SELECT blob FROM responses JOIN blobs USING (key) "
            "WHERE owner = ? AND id = ? AND used > ?"
        )
        blobs = self._select(query, owner, ids, self.limits.expiry(now))
        if self._log_has_deleted:
            self._empty_log(0)
        return blobs

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        query = "SELECT blob FROM parts WHERE owner = ? AND digest = ?"
        return self._select(query, owner, digests)

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        query = "SELECT id FROM responses WHERE owner = ? AND id = ? AND used > ?"
        found = self._select(query, owner, ids, self.limits.expiry(now))
        return len(found) - found.count(None)

    def _select(
        self, query: str, owner: str, names: Sequence[str], *expiry: float
    ) -> list[bytes | None]:
        """The value that `query` gives for each name."""
        mine = _bytes(owner)
        with self._transaction("BEGIN") as db:
            rows = [db.execute(query, (mine, _bytes(name), *expiry)).fetchone() for name in names]
        return [row[0] if row else None for row in rows]

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        del parts  # the file knows
        query = "DELETE FROM responses WHERE owner = ? AND id = ?"
        with self._transaction("BEGIN IMMEDIATE") as db:
            deleted = db.execute(query, (_bytes(owner), _bytes(response_id))).rowcount
        if deleted:
            self._empty_log(READING)
        return deleted > 0

    def remember(self, address: str, speaks: str, now: float) -> None:
        with self._transaction("BEGIN IMMEDIATE") as db:
            db.execute("DELETE FROM addresses WHERE address = ?", (address,))
            if speaks:
                db.execute("INSERT INTO addresses VALUES (?, ?, ?)", (address, speaks, now))
            db.execute(
                "DELETE FROM addresses WHERE used <= ? OR address IN "
                "(SELECT address FROM addresses ORDER BY used DESC LIMIT -1 OFFSET ?)",
                (self.limits.expiry(now), MAX_ADDRESSES),
            )

    def remembered(self, address: str, now: float) -> str:
        query = "SELECT speaks FROM addresses WHERE address = ? AND used > ?"
        with self._transaction("BEGIN") as db:
            row = db.execute(query, (address, self.limits.expiry(now))).fetchone()
        if row is None:
            return ""
        self.remember(address, row[0], now)
        return str(row[0])

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _prune(self, owner: bytes, size: int, expiry: float) -> int:
        """Remove what is too old, and then the least recently used, to make room for `size` bytes
        of this owner. How many went before their time."""
        old = "SELECT key FROM responses WHERE used <= ? ORDER BY used, key LIMIT ?"
        self._db.execute(f"DELETE FROM responses WHERE key IN ({old})", (expiry, PRUNED))
        oldest = "SELECT key FROM responses WHERE owner = ? ORDER BY used, key LIMIT 1"
        evicted, bound = 0, self.limits.max_bytes - size
        while self._used() > bound and evicted < PRUNED + size // SMALL:
            query = f"DELETE FROM responses WHERE key = ({oldest})"
            if not self._db.execute(query, (self._fullest(owner, size),)).rowcount:
                break
            evicted += 1
        free = number(self._db, "PRAGMA freelist_count")
        if free > max(SPARE_PAGES, number(self._db, "PRAGMA page_count") // 4):
            for _ in range(VACUUMED_PAGES):  # Python 3.11 does one at a time, whatever is asked
                self._db.execute("PRAGMA incremental_vacuum(1)").fetchall()
        return evicted

    def _new_bytes(self, owner: bytes, parts: Mapping[bytes, bytes]) -> int:
        """Bytes of the `parts` that are not kept yet."""
        query = "SELECT 1 FROM parts WHERE owner = ? AND digest = ?"
        return sum(
            len(part)
            for digest, part in parts.items()
            if self._db.execute(query, (owner, digest)).fetchone() is None
        )

    def _fullest(self, owner: bytes, size: int) -> bytes:
        """Who makes room for `size` bytes of `owner`: itself if it then has more than its share,
        else the largest."""
        mine = self._db.execute("SELECT size FROM owners WHERE owner = ?", (owner,)).fetchone()
        owners = number(self._db, "SELECT count(*) FROM owners") + (mine is None)
        if mine and mine[0] + size > self.limits.max_bytes / owners:
            return owner
        most = self._db.execute("SELECT owner FROM owners ORDER BY size DESC LIMIT 1").fetchone()
        return bytes(most[0]) if most else owner

    def _used(self) -> int:
        """Bytes in use, known to SQLite without a search."""
        pages = number(self._db, "PRAGMA page_count") - number(self._db, "PRAGMA freelist_count")
        return pages * self._page_size

    def _empty_log(self, wait: int) -> None:
        """Remove deleted data from the log, too: its place in the file is overwritten when the log
        is moved there. That waits for a process that reads: for so many milliseconds now, else
        until this store is next used."""
        with self._errors():
            self._db.execute(f"PRAGMA busy_timeout = {wait}")
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._db.execute(f"PRAGMA busy_timeout = {round(BUSY * 1000)}")
        self._log_has_deleted = bool(busy)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._errors(), transaction(self._db, begin):
            yield self._db

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


def _bytes(text: str) -> bytes:
    """An id is any text a client sent, even with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
