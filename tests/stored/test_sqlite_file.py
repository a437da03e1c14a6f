"""The SQLite file itself: who may read it, what is no store, damage, and what is deleted."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from mitmproxy.exceptions import OptionsError

from dragoman.proxy.stored.open_store import FILE
from dragoman.stored.store import StoreError
from tests.stored.backends import MB, NOW, OWNER, SqliteBackend, assert_whole, file_store


def test_files_are_for_the_user_alone(files: SqliteBackend, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.confdir = tmp_path / "new" / "folder"
        store = files.open()
        for number in range(10):
            store.put(OWNER, f"resp_{number}", os.urandom(MB), NOW)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.confdir.iterdir()}
    assert modes == {FILE: 0o600, f"{FILE}-wal": 0o600, f"{FILE}-shm": 0o600}
    assert stat.S_IMODE(files.confdir.stat().st_mode) == 0o700


def test_a_link_to_nowhere_makes_a_file_for_the_user_alone(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "target.db")
    before = os.umask(0)
    try:
        file_store(tmp_path / "link.db").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "target.db").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content", [b"no database, but text " * 100, b"x", b"x" * 99, b"x" * 300, bytes(8192)]
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(OptionsError, match=r"notes\.txt .* dragoman_store"):
        file_store(path)
    assert path.read_bytes() == content


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE cookies (name TEXT)")
        db.commit()
    before = path.read_bytes()
    with pytest.raises(OptionsError, match=r"other\.db is a database of something else"):
        file_store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 3])
def test_a_file_of_another_version_is_set_aside(
    tmp_path: Path, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "other.db"
    other_version(path, version)
    before = path.read_bytes()
    with ThreadPoolExecutor(8) as pool:
        stores = [each.result() for each in [pool.submit(file_store, path) for _ in range(8)]]
    assert stores[0].get(OWNER, ["resp_1"], NOW) == [None]
    for number, store in enumerate(stores):
        store.put(OWNER, f"now_{number}", b"x", NOW)
    names = [f"now_{number}" for number in range(8)]
    assert stores[0].get(OWNER, names, NOW) == [b"x"] * 8
    for store in stores:
        store.close()
    assert path.read_bytes() == before
    assert "are kept in other.db.schema2 from now on" in caplog.text
    caplog.clear()
    path.unlink()
    assert file_store(path).get(OWNER, names, NOW) == [b"x"] * 8
    assert caplog.text == ""


def other_version(path: Path, version: int) -> None:
    """A file with this version of the schema, and one response."""
    store = file_store(path)
    store.put(OWNER, "resp_1", b"kept before", NOW)
    store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("PRAGMA journal_mode = DELETE")


def test_damage_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    store = file_store(path)
    for number in range(500):
        store.put(OWNER, f"resp_{number}", bytes(2000), NOW)
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises((StoreError, OptionsError), match=r"damaged\.db .* move it away"):
        file_store(path).get(OWNER, ["resp_1"], NOW)


def unusable(folder: Path) -> Iterator[tuple[str, str]]:
    (folder / "file").write_text("")
    (folder / "folder.db").mkdir()
    yield "below a file", str(folder / "file" / "store.db")
    yield "a folder", str(folder / "folder.db")
    yield "in /proc", "/proc/nowhere/store.db"
    yield "with a NUL", "./a\0b"
    yield "of nobody", "~nobody-of-that-name/store.db"
    yield "too long", str(folder / ("x" * 5000 + ".db"))
    yield "a lone surrogate", str(folder / "\ud800.db")


def test_a_path_that_cannot_be_written_says_what_to_change(tmp_path: Path) -> None:
    for what, value in unusable(tmp_path):
        with pytest.raises(OptionsError, match=r"(?s)dragoman_store: .*memory"):
            file_store(value)
            pytest.fail(what)


@pytest.mark.parametrize(
    "value", ["on", "Memory", "none", "sqlite", "redis", "postgres://u:hunter2@host/db", "OFF"]
)
def test_what_is_no_store_is_not_taken_for_a_file(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionsError, match="set it to memory, off, a redis:// URL") as caught:
        file_store(value)
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


# What is deleted


SECRET = b"said in confidence"


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


@pytest.mark.parametrize("size", [10, 3_000, 300_000])
def test_what_is_deleted_is_gone_from_the_files(files: SqliteBackend, size: int) -> None:
    store = files.open()
    for number in range(20):
        store.put(OWNER, f"resp_{number}", os.urandom(size), NOW)
    store.put(OWNER, "resp_x", SECRET * (size // 10), NOW)
    store.put(OWNER, "resp_x", SECRET * (size // 5), NOW, ["resp_1"])  # in its place
    store.put(OWNER, "resp_y", b"stays " * size, NOW)
    assert SECRET in bytes_of(files.confdir)
    assert store.delete(OWNER, "resp_x")
    assert SECRET not in bytes_of(files.confdir)
    assert store.get(OWNER, ["resp_y"], NOW) == [b"stays " * size]
    assert_whole(files.confdir / FILE)


@pytest.mark.parametrize("use", ["get", "put"])
def test_while_another_reads_what_was_deleted_goes_with_the_next_use(
    files: SqliteBackend, use: str
) -> None:
    store = files.open()
    store.put(OWNER, "resp_x", SECRET, NOW)
    with closing(sqlite3.connect(files.confdir / FILE, isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM responses").fetchone()
        assert store.delete(OWNER, "resp_x")
        assert store.get(OWNER, ["resp_x"], NOW) == [None]
        assert SECRET in bytes_of(files.confdir)
        other.execute("COMMIT")
        if use == "get":
            store.get(OWNER, ["resp_y"], NOW)
        else:
            store.put(OWNER, "resp_y", b"blob", NOW)
        assert SECRET not in bytes_of(files.confdir)


@pytest.mark.parametrize("how", ["deleted", "deleted with its log", "replaced"])
def test_a_file_that_is_deleted_or_replaced_while_it_is_used_is_noticed(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = SqliteBackend(tmp_path)
    store, file = files.open(), tmp_path / FILE
    secret = store.secret()
    store.put(OWNER, "resp_1", b"before", NOW)
    if how == "replaced":
        (other := tmp_path / "other").mkdir()
        with closing(sqlite3.connect(file)) as db:
            db.execute("VACUUM INTO ?", (str(other / FILE),))
        (other / FILE).replace(file)
    else:
        for path in tmp_path.glob(f"{FILE}*" if "log" in how else FILE):
            path.unlink()
    assert (store.secret() == secret) == (how == "replaced")
    assert store.get(OWNER, ["resp_1"], NOW) == [b"before" if how == "replaced" else None]
    store.put(OWNER, "resp_2", b"after", NOW)
    assert files.open().get(OWNER, ["resp_2"], NOW) == [b"after"], "another process finds it"
    (said,) = [each for each in caplog.messages if "deleted or replaced" in each]
    assert str(file) in said
    store.close()
    assert_whole(file)
