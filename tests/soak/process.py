"""A mitmdump that is measured: its memory, and the CPU time it took."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from pathlib import Path

from tests.live.mitmdump import Mitmdump

MEGABYTE = 1024 * 1024


class Measured(Mitmdump):
    """A running mitmdump, and what the system tells of its process."""

    @property
    def memory(self) -> float:
        """Megabytes that the process occupies."""
        pid = self._process.pid
        statm = Path(f"/proc/{pid}/statm")
        if statm.exists():
            return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=True)
        return int(told.stdout) / 1024

    def settle(self) -> None:
        """Have it let go of memory that it does not need; `settle.py` must be loaded."""
        with urllib.request.urlopen(f"{self.url}/settled", timeout=60):
            pass

    @property
    def cpu_time(self) -> float:
        """Seconds of CPU time that the process has used; 0 where the system has no /proc."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        if not stat.exists():
            return 0.0
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
