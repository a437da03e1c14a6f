"""Responses in one SQLite file, which several mitmproxy may share.

What `put` has returned for is in the file or in its write-ahead log, both written: a
process that is killed loses nothing.  Nothing waits for the disk (synchronous=NORMAL), so
a power cut may lose the last seconds; it damages nothing.

A put takes well under a millisecond, because moving the log into the file, which does wait
for the disk, is left to a thread.  Blobs are not compressed: zlib would take several times
as long as writing does.  Each put removes, of what is too old or too much, about as many
bytes as it brings, and the pages that become free are used again: the file stays at its
bound.  Should many be free at once, the file is made smaller, some pages at each put.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from ...state.store import StoreError
from .bounds import MAX_ADDRESSES, Bounds

BUSY = 2.0
"""Seconds to wait for another process that writes."""
LOG = 4 * 1024 * 1024
"""Bytes that are put before the log is moved into the file."""
STALL = 4 * LOG
"""Bytes that are put while the log is still being moved: then a put waits, so that it ends."""
APPLICATION = 0x44524147  # "DRAG"
"""SQLite's `application_id`: the file is one of ours."""
VERSION = 1
PRUNED = 64
"""How many a put may remove; a large one, as many more as may have to make room for it."""
SMALL = 200
"""Bytes: what is kept of a response takes no less."""
HEADER = 100
"""Bytes: SQLite takes a file that is shorter for an empty one, and writes over it."""
SPARE_PAGES, VACUUMED_PAGES = 1024, 64
CACHE = 256
"""Kilobytes of pages in memory: what is put is hardly ever read again."""

_SCHEMA = (
    # The blobs are apart, for to change `used` rewrites a row.
    "CREATE TABLE responses (key INTEGER PRIMARY KEY, owner BLOB NOT NULL, id BLOB NOT NULL, "
    "used REAL NOT NULL, UNIQUE (owner, id))",
    "CREATE INDEX responses_used ON responses (used)",
    "CREATE TABLE blobs (key INTEGER PRIMARY KEY, blob BLOB NOT NULL)",
    "CREATE TRIGGER responses_deleted AFTER DELETE ON responses "
    "BEGIN DELETE FROM blobs WHERE key = OLD.key; END",
    "CREATE TABLE secret (secret BLOB NOT NULL)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_ADDRESSES = (
    # Made in older files as well: who does not know this table does not look at it.
    "CREATE TABLE IF NOT EXISTS addresses "
    "(address TEXT PRIMARY KEY, speaks TEXT NOT NULL, used REAL NOT NULL)"
)


class Sqlite:
    """A `Store` in a file."""

    def __init__(self, path: Path, bounds: Bounds) -> None:
        """The file, and its folder, are made if they are not there, for the user alone.

        Raises `StoreError` if that cannot be, or if the file is something else.
        """
        self._path = path
        self._bounds = bounds
        self._written = 0
        self._left: Future[int] = Future()
        self._left.set_result(0)
        with self._errors():
            _make(path)
            self._db = _open(path)
            self._page_size = _number(self._db, "PRAGMA page_size")
            self._secret: bytes = self._db.execute("SELECT secret FROM secret").fetchone()[0]
        self._background = ThreadPoolExecutor(1, thread_name_prefix="dragoman-store")

    def secret(self) -> bytes:
        return self._secret

    def put(
        self, owner: str, response_id: str, blob: bytes, now: float, keeps: Sequence[str] = ()
    ) -> None:
        self._bounds.admit(blob)
        dead = self._bounds.dead(now)
        mine, name = _bytes(owner), _bytes(response_id)
        with self._errors(), _transaction(self._db) as db:
            db.executemany(
                "UPDATE responses SET used = ? WHERE owner = ? AND id = ? AND used > ?",
                [(now, mine, _bytes(kept_id), dead) for kept_id in keeps],
            )
            db.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (mine, name))
            self._prune(len(blob), dead)
            key = db.execute(
                "INSERT INTO responses (owner, id, used) VALUES (?, ?, ?)", (mine, name, now)
            ).lastrowid
            db.execute("INSERT INTO blobs (key, blob) VALUES (?, ?)", (key, blob))
        self._empty_log(len(blob) + self._page_size * (4 + len(keeps)))

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        mine, dead = _bytes(owner), self._bounds.dead(now)
        query = (
            "SELECT blob FROM responses JOIN blobs USING (key) "
            "WHERE owner = ? AND id = ? AND used > ?"
        )
        with self._errors(), _transaction(self._db, "BEGIN") as db:
            rows = [db.execute(query, (mine, _bytes(name), dead)).fetchone() for name in ids]
        return [row[0] if row else None for row in rows]

    def delete(self, owner: str, response_id: str) -> bool:
        with self._errors(), _transaction(self._db) as db:
            deleted = db.execute(
                "DELETE FROM responses WHERE owner = ? AND id = ?",
                (_bytes(owner), _bytes(response_id)),
            ).rowcount
        return deleted > 0

    def remember(self, address: str, speaks: str, now: float) -> None:
        with self._errors(), _transaction(self._db) as db:
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
        with self._errors(), _transaction(self._db, "BEGIN") as db:
            row = db.execute(query, (address, self._bounds.dead(now))).fetchone()
        if row is None:
            return ""
        self.remember(address, row[0], now)
        return str(row[0])

    def close(self) -> None:
        self._background.shutdown()
        with self._errors():
            self._db.close()

    def _prune(self, size: int, dead: float) -> None:
        """Make room for `size` bytes: remove what is too old, and then, as far as needed, what
        was used the longest ago."""
        bound = self._bounds.size - size
        oldest = self._db.execute(
            "SELECT key, used FROM responses WHERE used <= ? ORDER BY used, key LIMIT ?",
            (math.inf if self._used() > bound else dead, PRUNED + size // SMALL),
        ).fetchall()
        for key, used in oldest:
            if used > dead and self._used() <= bound:
                break
            self._db.execute("DELETE FROM responses WHERE key = ?", (key,))
        free = _number(self._db, "PRAGMA freelist_count")
        if free > max(SPARE_PAGES, _number(self._db, "PRAGMA page_count") // 4):
            for _ in range(VACUUMED_PAGES):  # Python 3.11 does one at a time, whatever is asked
                self._db.execute("PRAGMA incremental_vacuum(1)").fetchall()

    def _used(self) -> int:
        """Bytes of the file that hold something.  SQLite has these numbers at hand."""
        pages = _number(self._db, "PRAGMA page_count") - _number(self._db, "PRAGMA freelist_count")
        return pages * self._page_size

    def _empty_log(self, size: int) -> None:
        """Have the log moved into the file if enough is in it; `size` is about what came.

        A log begins anew only after all of it was moved.  While much is put without a pause
        that never is so, unless a put waits.
        """
        self._written += size
        if self._written < (LOG if self._left.done() else STALL):
            return
        self._written = 0
        behind = self._left.result() * self._page_size > STALL
        self._left = self._background.submit(_checkpoint, self._path)
        if behind:
            self._left.result()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Whatever goes wrong within is a `StoreError`."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            raise StoreError(_in_words(self._path, error)) from None


def _make(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # One that is there must not be opened but by SQLite: to close it would end the locks
    # that this process has of it (https://sqlite.org/howtocorrupt.html, 2.2).
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if 0 < path.stat().st_size < HEADER:
        raise StoreError(f"{path} is no SQLite file; set dragoman_store to another one.")


def _open(path: Path) -> sqlite3.Connection:
    """A connection to the file, which is ours from then on."""
    deadline = time.monotonic() + BUSY
    while True:
        db = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, path)
        except BaseException as error:
            db.close()
            # Of many that make the file at once, one in thousands gets this at once from
            # "PRAGMA journal_mode", whatever the timeout is.
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    with _transaction(db, "BEGIN"):
        new = not _version(db, path)
    if new:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA cache_size = {-CACHE}")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")  # the thread does it
    db.execute(f"PRAGMA journal_size_limit = {2 * LOG}")
    with _transaction(db):  # of an old file, too: it shows whether it can be written
        if not _version(db, path):
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
        db.execute(_ADDRESSES)


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Of the schema; 0 for an empty file.  Raises `StoreError` for what is not to be touched.

    Within a transaction: another process may be making the schema.
    """
    application = _number(db, "PRAGMA application_id")
    version = _number(db, "PRAGMA user_version")
    if application == APPLICATION and version == VERSION:
        return version
    if application == APPLICATION:
        raise StoreError(
            f"{path} was written by another version of Dragoman (its schema is {version}, not "
            f"{VERSION}); use that one, or set dragoman_store to another file."
        )
    if application or version or _number(db, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(
            f"{path} is a database of something else; set dragoman_store to another file."
        )
    return 0


@contextlib.contextmanager
def _transaction(
    db: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE"
) -> Iterator[sqlite3.Connection]:
    """All of what is done within, or nothing."""
    db.execute(begin)
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has ended it by itself after some errors
            db.execute("ROLLBACK")
        raise


def _checkpoint(path: Path) -> int:
    """Move the log into the file; how many pages the log had.

    If that cannot be done now, it is tried again; what is wrong shows at the next put.
    """
    existing = f"{path.resolve().as_uri()}?mode=rw"
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(existing, uri=True)) as db,
    ):
        _, pages, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(pages)
    return 0


def _number(db: sqlite3.Connection, query: str) -> int:
    (number,) = db.execute(query).fetchone()
    return int(number)


def _bytes(text: str) -> bytes:
    """An id is whatever a client sent, lone surrogates and all."""
    return text.encode("utf-8", "surrogatepass")


def _code(error: BaseException) -> int:
    """SQLite's primary result code, or 0."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _in_words(path: Path, error: Exception) -> str:
    if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return (
            f"{path} is damaged or no SQLite file ({error}); move it away, and a new one is "
            "made, or set dragoman_store to another file."
        )
    return (
        f"cannot use {path} ({error}); if that lasts, set dragoman_store to a file that you may "
        "write to, to memory or to off."
    )
