"""The store in a file: shared, killed, full, damaged, in the way, and small again."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from mitmproxy.exceptions import OptionsError

from dragoman.proxy.stored import sqlite
from dragoman.proxy.stored.open_store import FILE, open_store
from dragoman.stored.store import Limits, StoreError
from tests.live.mitmdump import ROOT
from tests.stored.backends import MB, NOW, OWNER, SqliteBackend, assert_whole, file_store


@pytest.fixture
def fast_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY", 0.1)


class Writer:
    """A process of `tests.stored.writer`, which waits for `go`."""

    def __init__(self, confdir: Path, name: str, count: int, size: int) -> None:
        arguments = [str(confdir), name, str(count), str(size)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.stored.writer", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip("\n")

    def go(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def rest(self) -> list[str]:
        """What it prints until its end; a line that was cut off does not count."""
        assert self.process.stdout
        lines = self.process.stdout.readlines()
        self.process.wait(30)
        return [line.rstrip("\n") for line in lines if line.endswith("\n")]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def write() -> Iterator[Callable[..., Writer]]:
    """Starts a writer, which does not outlive the test."""
    started: list[Writer] = []

    def write(confdir: Path, name: str, count: int, size: int) -> Writer:
        started.append(Writer(confdir, name, count, size))
        return started[-1]

    yield write
    for writer in started:
        writer.kill()


@pytest.mark.slow
def test_kill_9_in_the_middle_loses_nothing_that_was_put(
    tmp_path: Path, write: Callable[..., Writer]
) -> None:
    """Time and again on the same file, and in the middle of moving the log into it, too."""
    printed: list[str] = []
    secrets = set()
    for turn in range(6):
        writer = write(tmp_path, f"resp_{turn}", 10_000, 60_000)
        writer.go()
        secrets.add(writer.line())
        printed += [writer.line() for _ in range(100)]
        time.sleep(turn * 0.003)
        os.kill(writer.process.pid, 9)
        printed += writer.rest()
        store = file_store(tmp_path / FILE, max_bytes=1 << 30)
        found = store.get(OWNER, printed, time.time())
        lost = [
            name
            for name, blob in zip(printed, found, strict=True)
            if blob is None or not blob.startswith(name.encode()) or len(blob) < 60_000
        ]
        assert lost == []
        store.close()
        assert_whole(tmp_path / FILE)
    assert len(printed) >= 600
    assert len(secrets) == 1


@pytest.mark.slow
def test_processes_that_start_at_once_share_one_new_file(
    tmp_path: Path, write: Callable[..., Writer]
) -> None:
    for round_ in range(3):
        confdir = tmp_path / str(round_)
        writers = [write(confdir, f"resp_{number}", 100, 20_000) for number in range(4)]
        for writer in writers:
            writer.go()
        outputs = [writer.rest() for writer in writers]
        assert [writer.process.returncode for writer in writers] == [0] * 4
        assert len({secret for secret, *_ in outputs}) == 1
        names = [name for _, *names in outputs for name in names]
        assert len(names) == 400
        store = file_store(confdir / FILE)
        assert None not in store.get(OWNER, names, time.time())
        store.close()
        assert_whole(confdir / FILE)


def test_the_file_stays_at_its_bound(files: SqliteBackend) -> None:
    store = files.open(max_bytes=4 * MB)
    path = files.confdir / FILE
    for number in range(600):
        size = [2_000, 20_000, 60_000, 700_000][number % 4]
        store.put(OWNER, f"resp_{number}", os.urandom(size), NOW + number)
    store.close()
    assert 3 * MB < path.stat().st_size < 6 * MB
    assert_whole(path)


def test_many_small_ones_make_room_for_a_large_one(files: SqliteBackend) -> None:
    store = files.open(max_bytes=4 * MB)
    for number in range(10_000):
        store.put(OWNER, f"resp_{number}", b"small", NOW + number)
    store.put(OWNER, "resp_large", os.urandom(3 * MB), NOW + 10_000)
    store.close()
    assert (files.confdir / FILE).stat().st_size < 4.5 * MB


def test_what_is_too_old_leaves_the_file_and_the_file_gets_smaller(files: SqliteBackend) -> None:
    store = files.open(days=1)
    path = files.confdir / FILE
    for number in range(500):
        store.put(OWNER, f"resp_{number}", os.urandom(50_000), NOW + number)
    for number in range(200):
        store.put(OWNER, f"resp_new_{number}", b"new", NOW + 90_000 + number)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM responses").fetchone() == (200,)
    store.close()
    assert path.stat().st_size < 15 * MB


def test_a_lower_bound_is_reached_with_time(files: SqliteBackend) -> None:
    store = files.open(max_bytes=64 * MB)
    for number in range(500):
        store.put(OWNER, f"resp_{number}", os.urandom(50_000), NOW + number)
    store.close()
    store = files.open(max_bytes=2 * MB)
    for number in range(500, 520):
        store.put(OWNER, f"resp_{number}", b"small", NOW + number)
    names = [f"resp_{number}" for number in range(520)]
    kept = [blob is not None for blob in store.get(OWNER, names, NOW + 520)]
    assert 45 < sum(kept) < 65
    assert kept == sorted(kept)


def test_the_log_is_moved_into_the_file_while_the_store_is_in_use(files: SqliteBackend) -> None:
    store = files.open()
    for number in range(120):
        store.put(OWNER, f"resp_{number}", os.urandom(60_000), NOW)
    assert (files.confdir / FILE).stat().st_size > 2 * MB


def test_the_log_does_not_grow_with_what_is_put(files: SqliteBackend) -> None:
    store = files.open(max_bytes=1 << 30)
    log = files.confdir / f"{FILE}-wal"
    largest = 0
    for number in range(2000):
        store.put(OWNER, f"resp_{number}", os.urandom(60_000), NOW)
        largest = max(largest, log.stat().st_size)
    assert largest < 8 * MB


def test_a_store_is_used_in_another_thread_than_made_it(files: SqliteBackend) -> None:
    store = files.open()
    found: list[list[bytes | None]] = []

    def use() -> None:
        store.put(OWNER, "resp_1", b"blob", NOW)
        found.append(store.get(OWNER, ["resp_1"], NOW))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert found == [[b"blob"]]


def test_a_closed_store_says_so(files: SqliteBackend) -> None:
    store = files.open()
    store.close()
    with pytest.raises(StoreError):
        store.get(OWNER, ["resp_1"], NOW)
    store.close()


@pytest.mark.usefixtures("fast_busy")
def test_one_who_keeps_the_file_locked_is_an_error_that_passes(files: SqliteBackend) -> None:
    store = files.open()
    with closing(sqlite3.connect(files.confdir / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked"):
            store.put(OWNER, "resp_1", b"blob", NOW)
        with pytest.raises(OptionsError, match="locked"):
            files.open()
        assert store.get(OWNER, ["resp_1"], NOW) == [None]
    store.put(OWNER, "resp_1", b"blob", NOW)


def test_a_full_disk_is_an_error_and_harms_nothing(tmp_path: Path) -> None:
    """The limit of a process on the size of files stands for the disk."""
    program = (
        "import os, resource, sys\n"
        "from pathlib import Path\n"
        "sys.path.insert(0, 'addon')\n"
        "from dragoman.proxy.stored.open_store import open_store\n"
        "from dragoman.stored.store import Limits, StoreFull\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))\n"
        "store = open_store('', confdir=Path(sys.argv[1]), limits=Limits(30, 1 << 30))\n"
        "kept = 0\n"
        "for number in range(200):\n"
        "    try:\n"
        "        store.put('a' * 64, f'resp_{number}', os.urandom(50_000), 1e9)\n"
        "        kept += 1\n"
        "    except StoreFull as error:\n"
        "        assert 'cannot use' in str(error), error\n"
        "found = store.get('a' * 64, [f'resp_{n}' for n in range(200)], 1e9)\n"
        "assert 0 < kept < 200\n"
        "assert sum(blob is not None for blob in found) == kept\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    assert_whole(tmp_path / FILE)


@pytest.mark.parametrize("value", ["", "memory", "./file.sqlite3"])
def test_without_sqlite3_it_says_what_to_do(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    monkeypatch.delitem(sys.modules, "dragoman.proxy.stored.sqlite")
    with pytest.raises(OptionsError, match=r"has no sqlite3.* redis:// URL or to off"):
        open_store(value, confdir=tmp_path, limits=Limits(30, MB))
    assert list(tmp_path.iterdir()) == []


def test_damage_that_was_seen_ends_all_writing(tmp_path: Path) -> None:
    path = tmp_path / "damaged.db"
    store = file_store(path)
    for number in range(500):
        store.put(OWNER, f"resp_{number}", os.urandom(2000), NOW)
    store.close()
    store = file_store(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for place in range(40_960, size - 4096, 8192):
            file.seek(place)
            file.write(os.urandom(4096))
    with pytest.raises(StoreError, match="damaged"):
        store.get(OWNER, [f"resp_{number}" for number in range(500)], NOW)
    before = path.read_bytes()
    for number in range(20):
        with pytest.raises(StoreError, match="damaged"):
            store.put(OWNER, f"resp_new_{number}", bytes(2000), NOW)
    store.close()
    assert path.read_bytes() == before
