"""Runs tests against a mutant, in a process that ends with it.

All tests are collected once.  For a mutant that process is forked, the changed functions get their
new code, and the tests that run the changed line run until one fails.  What runs when a module is
imported has done so by then: for such a mutant the tests are collected anew, with the changed file.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from hypothesis import Phase, settings

from .changes import ADDON, Mutant
from .coverage import codes_in

MEMORY = 4 * 1024**3
"""Bytes more than at the start: a mutant that takes them is noticed."""
_NOTICED = 3


class UnpatchableError(Exception):
    """The functions of a mutant cannot get their code in a running process."""


class Collected:
    """A plugin: collects the tests, and gives them to `work` in the place of running them."""

    def __init__(self, work: Callable[[Collected], None]) -> None:
        self._work = work
        self.items: list[pytest.Item] = []
        self._passed = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Generated input is the same each time, and what fails need not be made smaller."""
        settings.register_profile(
            "mutants",
            settings.get_profile("enough"),
            derandomize=True,
            database=None,
            phases=(Phase.explicit, Phase.generate),
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = session.items
        self._work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._passed &= not report.failed

    def passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        self._passed = True
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return self._passed

    def notice(self, numbers: list[int], seconds: list[float]) -> bool:
        """Whether one of these tests fails, or takes many times as long as it did."""
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        for place, number in enumerate(numbers):
            signal.setitimer(signal.ITIMER_PROF, 10 + 20 * seconds[number])
            signal.alarm(600)
            following = self.items[numbers[place + 1]] if place + 1 < len(numbers) else None
            if not self.passes(self.items[number], following):
                return True
        return False


def collect(paths: list[str], work: Callable[[Collected], None]) -> None:
    """Exits if the tests cannot be collected."""
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-m", "not slow", *paths]
    if pytest.main(arguments, plugins=[Collected(work)]):
        os._exit(_NOTICED)


def functions_of_addon() -> dict[str, list[FunctionType]]:
    """By their files."""
    gc.unfreeze()
    found: dict[str, list[FunctionType]] = {}
    for value in gc.get_objects():
        if isinstance(value, FunctionType) and value.__code__.co_filename.startswith(str(ADDON)):
            found.setdefault(value.__code__.co_filename, []).append(value)
    gc.freeze()
    return found


def patches(mutant: Mutant, functions: list[FunctionType]) -> list[tuple[FunctionType, CodeType]]:
    """The functions that change, with their new code."""
    codes: dict[tuple[str, int], list[CodeType]] = {}
    for code in codes_in(compile(mutant.tree(), mutant.file, "exec")):
        codes.setdefault((code.co_qualname, code.co_firstlineno), []).append(code)
    found = []
    for function in functions:
        old = function.__code__
        new = codes.get((old.co_qualname, old.co_firstlineno), [])
        if old in new:
            continue
        if len(new) != 1 or len(new[0].co_freevars) != len(old.co_freevars):
            raise UnpatchableError(mutant)
        found.append((function, new[0]))
    return found


def noticed_in_fork(work: Callable[[], bool]) -> bool:
    """Whether `work`, in a process of its own, says so, or breaks it."""
    if not (child := os.fork()):
        quiet = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(quiet, standard)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        status = _NOTICED
        try:
            status = _NOTICED if work() else 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def import_changed(mutant: Mutant) -> None:
    """From here on an import of the mutant's file gives the changed module."""
    code_of = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path == mutant.file:
            return compile(mutant.tree(), mutant.file, "exec")
        return code_of(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
