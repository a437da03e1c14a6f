"""Whether the tests notice when the code says something else (`make mutants`).

Each mutant is one small change in the code (`changes.py` says which).  Of the tests of the rooms
below `proxy/`, and of those of `proxy/` that need no other process, those run that run its line,
until one fails: the quick ones first, of each table one row after the other, and at most so many
seconds of them; none that is marked as slow.  A mutant that they do not notice survives, and is
listed: a test is missing, or the change changes nothing that can be seen.

The same seed chooses the same mutants of the same code.  Needs Python 3.12 and Linux.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import sys
import tempfile
import time
from pathlib import Path

from .changes import ADDON, ROOT, Mutant, mutants_of
from .coverage import Coverage, Recorder, keep, kept, key_of, recorded
from .trial import (
    Collected,
    UnpatchableError,
    collect,
    functions_of_addon,
    import_changed,
    noticed_in_fork,
    patches,
)

ROOMS = ("wire", "repair", "reply", "chat", "responses", "messages", "bridge", "stored", "inspect")
TESTED = (*ROOMS, "proxy")


class Trials:
    """What becomes of each mutant: False where no test has noticed it."""

    def __init__(self, chosen: list[Mutant], seconds: float) -> None:
        self._chosen = chosen
        self._seconds = seconds
        self.noticed: dict[Mutant, bool] = {}
        self.passed_over: list[Mutant] = []
        """Those of proxy/ that no test here runs, but a real mitmdump may."""
        self.imported: list[Mutant] = []
        """Those that have run before the tests do."""
        self.lines = Coverage()
        self._out = os.fdopen(os.dup(1), "w")

    def run(self) -> None:
        """Also ends the process where the tests fail as the code is."""
        recorder = Recorder()
        recorder.everywhere()
        collect([str(ROOT / "tests" / room) for room in TESTED], lambda c: self._all(c, recorder))

    def _all(self, collected: Collected, recorder: Recorder) -> None:
        imported = {line for line in recorder.taken() if line[0].startswith(str(ADDON))}
        recorder.stop()
        functions = functions_of_addon()
        key = key_of(ROOT / "tests" / room for room in TESTED)
        lines = kept(key)
        if lines is None or lines.tests != [item.nodeid for item in collected.items]:
            began = time.monotonic()
            every = [function for found in functions.values() for function in found]
            lines = recorded(collected.items, imported, every, collected.passes)
            keep(key, lines)
            took = time.monotonic() - began
            self._say(f"{len(lines.tests)} tests, and which lines each runs: {took:.0f} s")
        if lines.failed:
            self._say("These tests fail as the code is, mend them first:")
            self._say("\n".join(lines.tests[number] for number in lines.failed))
            os._exit(1)
        self.lines = lines
        some = lines.in_turn({*range(len(lines.tests))}, 10)
        if noticed_in_fork(lambda: collected.notice(some, lines.seconds)):
            self._say("Tests fail here that pass alone.")
            os._exit(1)
        for mutant in self._chosen:
            self._try(mutant, collected, functions.get(mutant.file, []))

    def _try(self, mutant: Mutant, collected: Collected, functions: list) -> None:
        began = time.monotonic()
        lines = [(mutant.file, line) for line in mutant.lines]
        tests = self.lines.of(lines) or self.lines.of([(mutant.file, mutant.statement)])
        imported = any(
            (mutant.file, line) in self.lines.imported for line in (*mutant.lines, mutant.statement)
        )
        numbers = self.lines.in_turn(tests or self.lines.of_file(mutant.file), self._seconds)
        try:
            changed = patches(mutant, functions)
        except UnpatchableError:
            self.imported.append(mutant)
            return
        if not tests and not imported and mutant.path.parts[0] == "proxy":
            self.passed_over.append(mutant)
            return

        def notice() -> bool:
            for function, code in changed:
                function.__code__ = code
            return collected.notice(numbers, self.lines.seconds)

        noticed = noticed_in_fork(notice)
        if not noticed and imported:
            self.imported.append(mutant)
            return
        self._note(mutant, noticed, time.monotonic() - began, f"{len(tests)} tests run it")

    def anew(self) -> None:
        """Those that run when they are imported."""
        for mutant in self.imported:
            began = time.monotonic()
            numbers = self.lines.in_turn(self.lines.of_file(mutant.file), self._seconds)
            names = [self.lines.tests[number] for number in numbers]
            files = sorted({name.partition("::")[0] for name in names})

            def work(collected: Collected, names: list[str] = names) -> None:
                numbers = {item.nodeid: number for number, item in enumerate(collected.items)}
                chosen = [numbers[name] for name in names]
                seconds = [self._seconds] * len(collected.items)
                if collected.notice(chosen, seconds):
                    os._exit(1)

            def notice(mutant: Mutant = mutant, files: list[str] = files) -> bool:
                import_changed(mutant)
                collect(files, work)
                return False

            noticed = noticed_in_fork(notice)
            self._note(mutant, noticed, time.monotonic() - began, "imported anew")

    def _note(self, mutant: Mutant, noticed: bool, took: float, what: str) -> None:
        self.noticed[mutant] = noticed
        how = "died    " if noticed else "SURVIVED"
        self._say(f"{len(self.noticed):>4} {how} {took:4.1f} s  {mutant}  ({what})")

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Changes the code, and sees whether tests fail.")
    parser.add_argument("--seed", type=int, default=1, help="another one: other mutants")
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("--seconds", type=float, default=20, help="of tests for one mutant")
    parser.add_argument("rooms", nargs="*", default=ROOMS, help=f"{' '.join(TESTED)}, or a file")
    options = parser.parse_args()
    if sys.version_info < (3, 12):
        sys.exit("Which lines tests run is asked of sys.monitoring, which Python 3.12 brought.")
    places = [ADDON / room for room in options.rooms]
    paths = [
        path
        for place in places
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
    ]
    found = [mutant for path in paths for mutant in mutants_of(path.relative_to(ADDON))]
    chosen = random.Random(options.seed).sample(found, min(options.count, len(found)))
    began = time.monotonic()
    trials = Trials(sorted(chosen, key=str), options.seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trials"
        if not os.fork():  # what is imported there is not imported here
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            trials.run()
            kept_of = (trials.noticed, trials.passed_over, trials.imported, trials.lines)
            path.write_bytes(pickle.dumps(kept_of))
            os._exit(0)
        if os.wait()[1]:
            sys.exit(1)
        trials.noticed, trials.passed_over, trials.imported, trials.lines = pickle.loads(
            path.read_bytes()
        )
    trials.anew()
    died = sum(trials.noticed.values())
    took = (time.monotonic() - began) / 60
    print(
        f"{died} of {len(trials.noticed)} died in {took:.0f} minutes"
        f" (seed {options.seed}, of {len(found)} mutants in all)."
    )
    for mutant in trials.passed_over:
        print(f"no test without a mitmdump runs it: {mutant}")
    for mutant, noticed in trials.noticed.items():
        if not noticed:
            print(f"survived: {mutant}")


if __name__ == "__main__":
    main()
