"""Makes, opens and upgrades the SQLite file of a store.

Additions to the schema are made in an old file as well, whose version stays: an earlier Dragoman
can still use it, and triggers keep the added tables right.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from ...stored.store import StoreError

LOG = 8 * 1024 * 1024
"""Bytes of the log on disk after it has been moved into the file."""
APPLICATION = 0x44524147  # "DRAG"
"""SQLite's `application_id`."""
VERSION = 1
SMALL = 200
"""Bytes of a response at least."""
HEADER = 100
"""Bytes: SQLite overwrites a shorter file as if it were empty."""
CACHE = 256
"""Kilobytes of pages in memory: data is rarely read again."""
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
CLEARED_PAGES = 20_000
"""Free pages cut off an old file: earlier versions did not overwrite deleted data."""

_SCHEMA = (
    # The blobs are apart, as a change of `used` rewrites a row.
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
_ADDED = (
    # The bytes of each owner: one who fills the store loses responses of its own.
    "CREATE TABLE owners (owner BLOB PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX owners_size ON owners (size)",
    "CREATE INDEX responses_owner_used ON responses (owner, used)",
    f"INSERT INTO owners SELECT owner, sum(length(blob) + {SMALL}) FROM responses "
    "JOIN blobs USING (key) GROUP BY owner",
    "CREATE TRIGGER blobs_counted AFTER INSERT ON blobs BEGIN "
    "INSERT OR IGNORE INTO owners SELECT owner, 0 FROM responses WHERE key = NEW.key; "
    f"UPDATE owners SET size = size + length(NEW.blob) + {SMALL} "
    "WHERE owner = (SELECT owner FROM responses WHERE key = NEW.key); END",
    "CREATE TRIGGER responses_counted BEFORE DELETE ON responses BEGIN "
    f"UPDATE owners SET size = size - {SMALL} "
    "- coalesce((SELECT length(blob) FROM blobs WHERE key = OLD.key), 0) WHERE owner = OLD.owner; "
    "DELETE FROM owners WHERE owner = OLD.owner AND size <= 0; END",
    # What several responses of an owner have in common, and which have it.
    "CREATE TABLE parts (key INTEGER PRIMARY KEY, owner BLOB NOT NULL, digest BLOB NOT NULL, "
    "blob BLOB NOT NULL, UNIQUE (owner, digest))",
    "CREATE TABLE uses (response INTEGER, part INTEGER, PRIMARY KEY (response, part)) "
    "WITHOUT ROWID",
    "CREATE INDEX uses_part ON uses (part)",
    "CREATE TRIGGER responses_unused AFTER DELETE ON responses "
    "BEGIN DELETE FROM uses WHERE response = OLD.key; END",
    "CREATE TRIGGER uses_deleted AFTER DELETE ON uses "
    "WHEN NOT EXISTS (SELECT 1 FROM uses WHERE part = OLD.part) "
    "BEGIN DELETE FROM parts WHERE key = OLD.part; END",
    "CREATE TRIGGER parts_counted AFTER INSERT ON parts BEGIN "
    "UPDATE owners SET size = size + length(NEW.blob) WHERE owner = NEW.owner; END",
    "CREATE TRIGGER parts_deleted AFTER DELETE ON parts BEGIN "
    "UPDATE owners SET size = size - length(OLD.blob) WHERE owner = OLD.owner; "
    "DELETE FROM owners WHERE owner = OLD.owner AND size <= 0; END",
)
_ADDRESSES = (
    # Which API an upstream speaks.
    "CREATE TABLE IF NOT EXISTS addresses "
    "(address TEXT PRIMARY KEY, speaks TEXT NOT NULL, used REAL NOT NULL)"
)


def open_file(path: Path, busy: float) -> sqlite3.Connection:
    """A connection to the file, which is made if it is missing; `busy`: seconds to wait for another
    process that writes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A file that exists is opened by SQLite alone: to close it would end the locks that this
    # process has on it (https://sqlite.org/howtocorrupt.html, 2.2).
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path.resolve(), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if 0 < path.stat().st_size < HEADER:
        raise StoreError(f"{path} is no SQLite file; set dragoman_store to another one.")
    deadline = time.monotonic() + busy
    while True:
        db = sqlite3.connect(path, timeout=busy, isolation_level=None, check_same_thread=False)
        try:
            _prepare(db, path)
        except BaseException as error:
            db.close()
            # Of many that make the file at once, one in thousands gets this at once from
            # "PRAGMA journal_mode", whatever the timeout is.
            if code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    with transaction(db, "BEGIN"):
        new = not _version(db, path)
    if new:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(f"PRAGMA cache_size = {-CACHE}")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {LOG}")
    db.execute("PRAGMA secure_delete = ON")
    with transaction(db, "BEGIN IMMEDIATE"):  # of an old file, too: it may be read-only
        if not _version(db, path):
            for statement in _SCHEMA:
                db.execute(statement)
            db.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
        db.execute(_ADDRESSES)
        if not number(db, "SELECT count(*) FROM sqlite_master WHERE name = 'owners'"):
            for statement in _ADDED:
                db.execute(statement)
            for _ in range(min(CLEARED_PAGES, number(db, "PRAGMA freelist_count"))):
                db.execute("PRAGMA incremental_vacuum(1)").fetchall()


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The version of the schema; 0 for an empty file. Raises `StoreError` for a foreign file. In a
    transaction: another process may be making the schema."""
    application = number(db, "PRAGMA application_id")
    version = number(db, "PRAGMA user_version")
    if application == APPLICATION and version == VERSION:
        return version
    if application == APPLICATION:
        raise StoreError(
            f"{path} was written by another version of Dragoman (its schema is {version}, not "
            f"{VERSION}); use that one, or set dragoman_store to another file."
        )
    if application or version or number(db, "SELECT count(*) FROM sqlite_master"):
        raise StoreError(
            f"{path} is a database of something else; set dragoman_store to another file."
        )
    return 0


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, begin: str) -> Iterator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite has ended it by itself after some errors
            db.execute("ROLLBACK")
        raise


def number(db: sqlite3.Connection, query: str) -> int:
    (number,) = db.execute(query).fetchone()
    return int(number)


def code(error: BaseException) -> int:
    """SQLite's primary result code, or 0."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def in_words(path: Path, error: Exception) -> str:
    if code(error) in DAMAGED:
        return (
            f"{path} is damaged or no SQLite file ({error}); move it away, and a new one is "
            "made, or set dragoman_store to another file."
        )
    return (
        f"cannot use {path} ({error}); if that lasts, set dragoman_store to a file that you may "
        "write to, to memory or to off."
    )
