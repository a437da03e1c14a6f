"""`make bench`: what Dragoman costs, side by side with what it is compared to.

    python -m tests.bench [--quick] [rows…]
    python -m tests.bench --smoke

Prints one table.  Everything is measured in rounds in which all sides have their turn; a
row whose spread is larger than what it has to show says so.  Meant for a quiet machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "addon"))

from tests.bench import cpu, delay, litellm, memory, stages, stalls, starting, turns
from tests.bench.bench import Bench, progress
from tests.bench.figures import Missing, Row
from tests.bench.processes import keep_off_the_proxies_core
from tests.bench.table import line, table

ROWS: dict[str, Callable[[Bench], Iterable[Row | Missing]]] = {
    "cpu": cpu.cpu,
    "cpu-paced": cpu.cpu_paced,
    "formats": cpu.formats,
    "litellm": litellm.litellm,
    "delay": delay.delay,
    "first-event": delay.first_event,
    "idle": memory.idle,
    "growth": memory.growth,
    "length": turns.length,
    "conversion": stages.conversion,
    "cure": stages.cure,
    "start": starting.start,
    "store": turns.store,
    "stalls": stalls.stalls,
    "native": stages.native,
    "native-cpu": cpu.native,
    "stages": stages.stages,
}
_TELLS = hasattr(os, "sched_setaffinity")
"""Whether this is Linux, which tells the CPU time of other processes."""
BUSY = 0.5
"""The load of a machine that is not quiet."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(ROWS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few rounds: shows that it works")
    parser.add_argument(
        "--smoke", action="store_true", help="the stages, and small stalls: shows that they run"
    )
    given = parser.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    if given.smoke:
        rows = [*stages.stages(), *stages.native(), *(_small_stalls() if _TELLS else ())]
        print(table(rows))
        return
    if not _TELLS:
        parser.error("needs Linux, which tells the CPU time of other processes; try --smoke")
    load = os.getloadavg()[0]
    if load > BUSY:
        progress(f"The machine is busy (load {load:.1f}): expect rows without a conclusion.")
    rows = run(given.rows or list(ROWS), quick=given.quick)
    print(table(rows))
    sys.exit(any(isinstance(row, Missing) and row.failed for row in rows))


def _small_stalls() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), quick=False)
        with bench.stack:
            rows = [*stalls.stalls(bench, stalls.SMOKE)]
            bench.check()
            return rows


def run(names: Sequence[str], *, quick: bool) -> list[Row | Missing]:
    """The rows with these names; what fails does not take the others with it."""
    keep_off_the_proxies_core()
    rows: list[Row | Missing] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), quick=quick)
        with bench.stack:
            for name in names:
                try:
                    for row in ROWS[name](bench):
                        rows.append(row)
                        progress(line(row))
                    bench.check()
                except (AssertionError, OSError, RuntimeError) as error:
                    traceback.print_exc()
                    rows.append(Missing(name, repr(error)[:100], failed=True))
    return rows


if __name__ == "__main__":
    main()
