"""Which tests run which lines of the addon: tests are run once, and what they run is kept.

Of a long table some rows are run; the others count as tests of all that these run.  It is kept in
`.mutants/` until a file of the addon, of the tests or of the fixtures changes.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from .changes import ADDON, ROOT

Line = tuple[str, int]
KEPT = ROOT / ".mutants"
ROWS = 16
"""Of each table are run to find out which lines it runs."""
_TOOL = 1
"""`sys.monitoring.COVERAGE_ID`."""


@dataclass
class Coverage:
    tests: list[str] = field(default_factory=list)
    """By their node ids."""
    seconds: list[float] = field(default_factory=list)
    """What each takes, of CPU."""
    failed: list[int] = field(default_factory=list)
    ran: dict[Line, array[int]] = field(default_factory=dict)
    """The tests that have run a line."""
    others: dict[str, list[int]] = field(default_factory=dict)
    """By their table: the rows that were not run."""
    imported: set[Line] = field(default_factory=set)
    """The lines that run before any test does."""

    def of(self, lines: Iterable[Line]) -> set[int]:
        return {test for line in lines for test in self.ran.get(line, ())}

    def of_file(self, file: str) -> set[int]:
        return self.of(line for line in self.ran if line[0] == file)

    def in_turn(self, tests: Set[int], seconds: float) -> list[int]:
        """These tests, the quick ones first, and one row of each table before the second row of
        any; then the other rows of their tables.  No more of them than run in so many seconds."""
        tables: dict[str, list[int]] = {}
        for test in sorted(tests, key=self.seconds.__getitem__):
            tables.setdefault(table_of(self.tests[test]), []).append(test)
        ran = [(turn, row) for table in tables.values() for turn, row in enumerate(table)]
        others = [
            (turn, row) for table in tables for turn, row in enumerate(self.others.get(table, ()))
        ]
        rows = [
            row
            for each in (ran, others)
            for _, row in sorted(each, key=lambda row: (row[0], self.seconds[row[1]]))
        ]
        chosen, spent = [], 0.0
        for test in rows:
            spent += self.seconds[test]
            if spent > seconds:
                break
            chosen.append(test)
        return chosen


class Recorder:
    """Notes lines of the addon as they run, each once until it is asked for them."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        monitoring = sys.monitoring
        monitoring.use_tool_id(_TOOL, "mutants")
        monitoring.register_callback(_TOOL, monitoring.events.LINE, self._noted)

    def everywhere(self) -> None:
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.LINE)

    def within(self, functions: Iterable[FunctionType]) -> None:
        for function in functions:
            for code in codes_in(function.__code__):
                sys.monitoring.set_local_events(_TOOL, code, sys.monitoring.events.LINE)

    def _noted(self, code: CodeType, line: int) -> object:
        self._lines.append((code.co_filename, line))
        return sys.monitoring.DISABLE

    def taken(self) -> set[Line]:
        lines = set(self._lines)
        self._lines.clear()
        sys.monitoring.restart_events()
        return lines

    @staticmethod
    def stop() -> None:
        sys.monitoring.set_events(_TOOL, 0)
        sys.monitoring.free_tool_id(_TOOL)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


def recorded(
    items: list[pytest.Item],
    imported: set[Line],
    functions: list[FunctionType],
    run: Callable[[pytest.Item, pytest.Item | None], bool],
) -> Coverage:
    """Runs tests in a process of their own; `run` says whether one has passed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        if not (child := os.fork()):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            made = Coverage(imported=imported)
            recorder = Recorder()
            recorder.within(functions)
            made.tests = [item.nodeid for item in items]
            made.seconds = [0.0] * len(items)
            chosen = _some_of_each_table(made)
            for number, following in pairwise([*chosen, None]):
                began = time.process_time()
                passed = run(items[number], None if following is None else items[following])
                made.seconds[number] = time.process_time() - began
                made.failed += [] if passed else [number]
                for line in recorder.taken():
                    made.ran.setdefault(line, array("H")).append(number)
            recorder.stop()
            for name, rows in made.others.items():
                ran = [each for each in chosen if table_of(made.tests[each]) == name]
                for number in rows:
                    made.seconds[number] = sum(made.seconds[each] for each in ran) / len(ran)
            # What counts calls counts the recorder's, too.
            made.failed = [number for number in made.failed if not run(items[number], None)]
            path.write_bytes(pickle.dumps(made))
            os._exit(0)
        os.waitpid(child, 0)
        return pickle.loads(path.read_bytes())


def _some_of_each_table(made: Coverage) -> list[int]:
    """Rows that lie far apart; the others of their table are noted."""
    tables: dict[str, list[int]] = {}
    for number, name in enumerate(made.tests):
        tables.setdefault(table_of(name), []).append(number)
    for name, rows in tables.items():
        some = rows[:: -(-len(rows) // ROWS)]
        tables[name], others = some, sorted({*rows}.difference(some))
        if others:
            made.others[name] = others
    return sorted(number for rows in tables.values() for number in rows)


def table_of(name: str) -> str:
    """The test of which a row has this name."""
    return name.partition("[")[0]


def kept(key: str) -> Coverage | None:
    path = KEPT / key
    return pickle.loads(path.read_bytes()) if path.exists() else None


def keep(key: str, lines: Coverage) -> None:
    KEPT.mkdir(exist_ok=True)
    for path in KEPT.iterdir():
        path.unlink()
    (KEPT / key).write_bytes(pickle.dumps(lines))


def key_of(folders: Iterable[Path]) -> str:
    """Of all that the tests in these folders may read."""
    paths = [ADDON.parent, ROOT / "fixtures", *folders, *(ROOT / "tests").glob("*.py")]
    key = hashlib.sha256(sys.version.encode())
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                key.update(f"{file.relative_to(ROOT)} ".encode() + file.read_bytes())
    return key.hexdigest()[:16]
