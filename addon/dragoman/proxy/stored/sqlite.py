"""Responses in one SQLite file, which several processes may share, or in SQLite's memory.

When `put` returns, its data is written to the file or its write-ahead log: a killed process loses
nothing.  Nothing waits for the disk (synchronous=NORMAL), so a power cut may lose the last
seconds, but damages nothing.  A put takes less than a millisecond, unless it finds 4 MB in the
log: SQLite then moves them into the file, which waits for the disk.  Blobs are not compressed:
zlib takes several times as long as writing.  Each put removes about as many bytes as it adds, of
what is too old or too much; freed pages are used again, and if there are many, the file shrinks
some pages at each put.  Deleted data is overwritten (secure_delete), and `delete` empties the log
into the file (`_empty_log`).

A file of another version of Dragoman is left as it is, and one is made beside it: were it renamed,
a process that has it open would use the log of the new one, by its name.  Triggers keep the table
of owners right.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...stored.store import Limits, StoreError, StoreFull
from .evictions import EvictionLog

APPLICATION = 0x44524147  # "DRAG"
"""SQLite's `application_id`."""
VERSION = 2
"""Of the schema: SQLite's `user_version`."""
_MEMORY = Path(":memory:")
HEADER = 100
"""Bytes: SQLite overwrites a shorter file as if it were empty."""
BUSY, READING = 2.0, 0.5
"""Seconds to wait for a process that writes, and for one that reads."""
LOG = 8 * 1024 * 1024
"""Bytes of the log on disk after it has been moved into the file."""
CACHE = 256
"""Kilobytes of pages in memory: data is rarely read again."""
SMALL = 200
"""Bytes of a response at least."""
PRUNED = 64
"""Responses a put may remove; a large put more, as needed for its room."""
SPARE_PAGES, VACUUMED_PAGES = 1024, 64
_abandoned: list[sqlite3.Connection] = []
"""Those that are never closed."""
logger = logging.getLogger(__name__)

_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
"""A disk without room for more, or a user's quota."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_SCHEMA = (
    # The blobs are apart, as a change of `used` rewrites a row.
    "CREATE TABLE responses (key INTEGER PRIMARY KEY, owner BLOB NOT NULL, id BLOB NOT NULL, "
    "used REAL NOT NULL, UNIQUE (owner, id))",
    "CREATE INDEX responses_used ON responses (used)",
    "CREATE TABLE blobs (key INTEGER PRIMARY KEY, blob BLOB NOT NULL)",
    "CREATE TRIGGER responses_deleted AFTER DELETE ON responses "
    "BEGIN DELETE FROM blobs WHERE key = OLD.key; END",
    "CREATE TABLE secret (secret BLOB NOT NULL)",
    # The bytes of each owner: one who fills the store loses responses of its own.
    "CREATE TABLE owners (owner BLOB PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX owners_size ON owners (size)",
    "CREATE INDEX responses_owner_used ON responses (owner, used)",
    "CREATE TRIGGER blobs_counted AFTER INSERT ON blobs BEGIN "
    "INSERT OR IGNORE INTO owners SELECT owner, 0 FROM responses WHERE key = NEW.key; "
    f"UPDATE owners SET size = size + length(NEW.blob) + {SMALL} "
    "WHERE owner = (SELECT owner FROM responses WHERE key = NEW.key); END",
    "CREATE TRIGGER responses_counted BEFORE DELETE ON responses BEGIN "
    f"UPDATE owners SET size = size - {SMALL} "
    "- coalesce((SELECT length(blob) FROM blobs WHERE key = OLD.key), 0) WHERE owner = OLD.owner; "
    "DELETE FROM owners WHERE owner = OLD.owner AND size <= 0; END",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_EVICT = """DELETE FROM responses WHERE key = (SELECT key FROM responses
WHERE owner = (SELECT owner FROM owners ORDER BY size DESC LIMIT 1) ORDER BY used, key LIMIT 1)"""


class _OtherSchemaError(Exception):
    """The file is of another version of Dragoman."""


class Sqlite:
    def __init__(self, path: Path | None, limits: Limits) -> None:
        """Makes the file and its folder if needed, for the user alone; None: it is in memory.
        Raises `StoreError` if that fails, or if the file is something else."""
        self.limits = limits
        self._path = path or _MEMORY
        self._evictions = EvictionLog()
        self._log_has_deleted = False
        self._damaged = ""
        with self._errors():
            if path and _beside(path).exists():
                self._path = _beside(path)
            try:
                self._db = _open(self._path, BUSY)
            except _OtherSchemaError:
                logger.warning(
                    "%s was written by another version of Dragoman and is left as it is: what it "
                    "keeps is not found any more. Responses are kept in %s from now on.",
                    self._path,
                    _beside(self._path).name,
                )
                self._path = _beside(self._path)
                self._db = _open(self._path, BUSY)
            self._begin()

    def _begin(self) -> None:
        self._page_size = _number(self._db, "PRAGMA page_size")
        self._secret: bytes = self._db.execute("SELECT secret FROM secret").fetchone()[0]
        self._files = {path: _identity(path) for path in _files(self._path)}

    def secret(self) -> bytes:
        with self._errors():
            self._follow_file()
        return self._secret

    def _follow_file(self) -> None:
        """Use the file that has the name now: it may have been deleted or replaced.  What the old
        one has left beside it would be taken for the new one's."""
        if self._path == _MEMORY or _identity(self._path) == self._files[self._path]:
            return
        logger.warning(
            "%s was deleted or replaced while it was in use: what it kept is not found any more. "
            "From now on responses are kept in the file of that name, which is made if it is "
            "missing.",
            self._path,
        )
        for path, identity in self._files.items():
            if path != self._path and _identity(path) == identity:
                path.unlink(missing_ok=True)
        _abandon(self._db)
        self._db = _open(self._path, BUSY)
        self._begin()

    def put(
        self, owner: str, name: str, blob: bytes, now: float, keeps: Sequence[str] = ()
    ) -> None:
        size = len(blob)
        if size > self.limits.max_bytes:
            raise StoreError(
                f"a response of {size} bytes is not kept: "
                f"it is larger than dragoman_store_max ({self.limits.max_bytes})"
            )
        mine, row_id, expiry = _bytes(owner), _bytes(name), now - self.limits.seconds
        with self._transaction("BEGIN IMMEDIATE") as db:
            db.executemany(
                "UPDATE responses SET used = ? WHERE owner = ? AND id = ? AND used > ?",
                [(now, mine, _bytes(kept), expiry) for kept in keeps],
            )
            db.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (mine, row_id))
            evicted = self._prune(size, expiry)
            row = (mine, row_id, now)
            key = db.execute("INSERT INTO responses (owner, id, used) VALUES (?, ?, ?)", row)
            db.execute("INSERT INTO blobs (key, blob) VALUES (?, ?)", (key.lastrowid, blob))
        self._evictions.add(evicted, now)

    def get(self, owner: str, names: Sequence[str], now: float) -> list[bytes | None]:
        mine, expiry = _bytes(owner), now - self.limits.seconds
        query = (
            "SELECT blob FROM responses JOIN blobs USING (key) "
            "WHERE owner = ? AND id = ? AND used > ?"
        )
        with self._transaction("BEGIN") as db:
            rows = [db.execute(query, (mine, _bytes(name), expiry)).fetchone() for name in names]
        return [row[0] if row else None for row in rows]

    def delete(self, owner: str, name: str) -> bool:
        query = "DELETE FROM responses WHERE owner = ? AND id = ?"
        with self._transaction("BEGIN IMMEDIATE") as db:
            deleted = db.execute(query, (_bytes(owner), _bytes(name))).rowcount
        if deleted:
            self._empty_log(READING)
        return deleted > 0

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _prune(self, size: int, expiry: float) -> int:
        """Remove what is too old, and then, to make room for `size` bytes, what the owner who has
        the most has not used for the longest time. How many went before their time."""
        old = "SELECT key FROM responses WHERE used <= ? ORDER BY used, key LIMIT ?"
        self._db.execute(f"DELETE FROM responses WHERE key IN ({old})", (expiry, PRUNED))
        evicted, bound = 0, self.limits.max_bytes - size
        while self._used() > bound and evicted < PRUNED + size // SMALL:
            if not self._db.execute(_EVICT).rowcount:
                break
            evicted += 1
        pages, free = self._pages()
        if free > max(SPARE_PAGES, pages // 4):
            for _ in range(VACUUMED_PAGES):  # Python 3.11 does one at a time, whatever is asked
                self._db.execute("PRAGMA incremental_vacuum(1)").fetchall()
        return evicted

    def _used(self) -> int:
        """Bytes in use, known to SQLite without a search."""
        pages, free = self._pages()
        return (pages - free) * self._page_size

    def _pages(self) -> tuple[int, int]:
        """All pages of the file, and the free ones."""
        return _number(self._db, "PRAGMA page_count"), _number(self._db, "PRAGMA freelist_count")

    def _empty_log(self, wait: float) -> None:
        """Remove deleted data from the log, too: its place in the file is overwritten when the log
        is moved there. That waits for a process that reads: for so many seconds now, else until
        this store is next used."""
        with self._errors():
            self._db.execute(f"PRAGMA busy_timeout = {round(wait * 1000)}")
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._db.execute(f"PRAGMA busy_timeout = {round(BUSY * 1000)}")
        self._log_has_deleted = bool(busy)

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._errors():
            self._follow_file()
            with _transaction(self._db, begin):
                yield self._db
        if self._log_has_deleted:
            self._empty_log(0)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Any fault within becomes a `StoreError`. A damaged file is left as it is."""
        if self._damaged:
            raise StoreError(self._damaged)
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            words = (
                f"cannot use {self._path} ({error}); if that lasts, set dragoman_store to a file "
                "that you may write to, to memory or to off."
            )
            if _code(error) in _DAMAGED:
                words = self._damaged = (
                    f"{self._path} is damaged or no SQLite file ({error}); move it away, and a "
                    "new one is made, or set dragoman_store to another file."
                )
            if getattr(error, "sqlite_errorcode", 0) in _FULL:
                raise StoreFull(words) from None
            raise StoreError(words) from None


def _files(path: Path) -> list[Path]:
    """The file, its log, and the index of that."""
    return [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))]


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _abandon(db: sqlite3.Connection) -> None:
    """A connection to a file that has lost its name.  Closed, it would delete the log of the file
    that has the name now, unless it is told not to (Python 3.12)."""
    if sys.version_info >= (3, 12):
        db.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)
        db.close()
    else:
        _abandoned.append(db)


def _bytes(text: str) -> bytes:
    """An id is any text a client sent, even with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _make(path: Path) -> None:
    """The file and its folder, if they are missing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A file that exists is opened by SQLite alone: to close it would end the locks that this
    # process has on it (https://sqlite.org/howtocorrupt.html, 2.2).
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if 0 < path.stat().st_size < HEADER:
        raise StoreError(f"{path} is no SQLite file; set dragoman_store to another one.")


def _open(path: Path, busy: float) -> sqlite3.Connection:
    """A connection to the file, which is made if it is missing; `busy`: seconds to wait for another
    process that writes."""
    if path != _MEMORY:
        _make(path)
    deadline = time.monotonic() + busy
    while True:
        db = sqlite3.connect(path, timeout=busy, isolation_level=None, check_same_thread=False)
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


def _beside(path: Path) -> Path:
    """The file of this version, where `path` has one of another."""
    return path.with_name(f"{path.name}.schema{VERSION}")


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    with _transaction(db, "BEGIN"):
        new = not _version(db, path)
    if new:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA cache_size = {-CACHE}")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {LOG}")
    db.execute("PRAGMA secure_delete = ON")
    with _transaction(db, "BEGIN IMMEDIATE"):  # of an old file, too: it may be read-only
        if not _version(db, path):
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The version of the schema; 0 for an empty file. Raises `_OtherSchemaError`, or `StoreError`
    for a foreign file. In a transaction: another process may be making the schema."""
    application = _number(db, "PRAGMA application_id")
    version = _number(db, "PRAGMA user_version")
    if application == APPLICATION and version == VERSION:
        return version
    if application == APPLICATION:
        raise _OtherSchemaError
    if application or version or _number(db, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(
            f"{path} is a database of something else; set dragoman_store to another file."
        )
    return 0


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has ended it by itself after some errors
            db.execute("ROLLBACK")
        raise


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _code(error: BaseException) -> int:
    """SQLite's primary result code, or 0."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
