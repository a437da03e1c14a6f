"""The processes of a benchmark: the upstream, and the proxies that are measured.

Where the machine has more than one core, the proxies have the last one for themselves,
and everything else the others.
"""

from __future__ import annotations

import compileall
import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.live.mitmdump import ADDON, ROOT
from tests.soak.process import MEGABYTE, Measured

PLAIN = ROOT / "tests" / "soak" / "plain.py"
SETTLE = ROOT / "tests" / "soak" / "settle.py"


def keep_off_the_proxies_core() -> None:
    """To be called by what is not measured."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-1] or cores)


def give_own_core(pid: int) -> None:
    """To be called for what is measured."""
    os.sched_setaffinity(pid, {max(os.cpu_count() or 1, 1) - 1})


def write_bytecode() -> None:
    """Have the addon's there, as after its first start: compiling takes as long as importing,
    and megabytes.  Python may have been told not to write it (PYTHONDONTWRITEBYTECODE)."""
    compileall.compile_dir(ADDON.parent, quiet=1)


def cpu_clock(pid: int) -> int:
    """The clock of the CPU time that a process has used, with all its threads."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(f"the system does not tell the CPU time of process {pid}")
    return clock.value


def memory_of(pid: int) -> float:
    """Megabytes that a process occupies."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


class Proxy(Measured):
    """A mitmdump that is measured."""

    def __init__(self, confdir: Path, upstream: str, *options: str, plain: bool = False) -> None:
        """With Dragoman, bridging all that asks for the Responses API, or `plain`."""
        write_bytecode()
        chosen = plain or any("dragoman_bridge=" in option for option in options)
        bridge = () if chosen else ("--set", "dragoman_bridge=~all")
        scripts = (PLAIN if plain else ADDON, SETTLE)
        mode = ("--mode", f"reverse:{upstream}")
        super().__init__(confdir, *mode, *bridge, *options, scripts=scripts)
        give_own_core(self.pid)
        self._clock = cpu_clock(self.pid)

    @property
    def cpu_time(self) -> float:
        """Seconds, to the microsecond: `/proc` counts hundredths."""
        return time.clock_gettime(self._clock)

    @property
    def pid(self) -> int:
        return self._process.pid


class Upstream:
    """`tests.bench.upstream`, running."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.upstream"], cwd=ROOT, stdout=subprocess.PIPE
        )
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
