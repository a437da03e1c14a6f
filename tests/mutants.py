"""Whether the tests notice when the code says something else (`make mutants`).

Each mutant is one small change in a room below `proxy/`: another comparison, `and` for `or`, a
condition without its `not`, `True` for `False`, a number that is one more, a statement left out.
It is made in a copy of the addon, and the tests of all these rooms run against that copy: first
those that import the changed module, then those of its own room.  A mutant that they do not notice
survives, and is listed: a test is missing, or the change changes nothing that can be seen.

The same seed chooses the same mutants of the same code.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ADDON = ROOT / "addon" / "dragoman"
ROOMS = ("wire", "repair", "reply", "chat", "responses", "messages", "bridge", "stored", "inspect")
LONGEST = 900
"""Seconds for all tests; a mutant with which they take longer is noticed."""
_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}


@dataclass(frozen=True)
class Mutant:
    path: Path
    """Of the file, within the addon."""
    line: int
    start: int
    end: int
    """Bytes of the file that are replaced."""
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:70] for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old}  ->  {new}"

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file of the addon."""
    source = (ADDON / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, new in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old = source[start:end].decode()
        yield Mutant(path, node.lineno, start, end, old, new)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What is replaced by what, within functions: a constant of a module is a limit, whose exact
    value is no promise."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            nodes: list[ast.AST] = [*function.args.defaults, *function.body]
            while nodes:
                node = nodes.pop(0)
                # One function in another has its own turn; places in f-strings differ by version.
                if isinstance(node, ast.FunctionDef | ast.JoinedStr):
                    continue
                nodes += ast.iter_child_nodes(node)
                if (new := _changed(node)) is not None:
                    yield node, new  # type: ignore[misc]


def _changed(node: ast.AST) -> str | None:
    """The text in the place of a node; None where nothing is to be changed."""
    match node:
        case ast.Compare(ops=[op]):
            other = copy.copy(node)
            other.ops = [_OTHER[type(op)]()]
            return f"({ast.unparse(other)})"
        case ast.BoolOp(op=op):
            other = copy.copy(node)
            other.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            return f"({ast.unparse(other)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value)):
            return str(value + 1)
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            return "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return "pass"
    return None


class Tests:
    """Runs the tests against a copy of the addon."""

    def __init__(self, folder: Path) -> None:
        self._addon = folder / "addon"
        shutil.copytree(ADDON.parent, self._addon, ignore=shutil.ignore_patterns("__pycache__"))

    def notice(self, mutant: Mutant) -> bool:
        file = self._addon / "dragoman" / mutant.path
        source = file.read_bytes()
        file.write_bytes(mutant.applied(source))
        try:
            return not self.pass_for(mutant.path)
        finally:
            file.write_bytes(source)
            self._forget_compiled(file)

    def pass_for(self, path: Path) -> bool:
        """Whether the tests pass, those first that are nearest to this file."""
        self._forget_compiled(self._addon / "dragoman" / path)
        module = ".".join(path.with_suffix("").parts)
        rooms = sorted(ROOMS, key=lambda room: room != path.parts[0])
        files = [
            file for room in rooms for file in sorted((ROOT / "tests" / room).rglob("test_*.py"))
        ]
        files.sort(key=lambda file: f"dragoman.{module} import" not in file.read_text())
        arguments = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        arguments += ["-o", f"pythonpath={self._addon} {ROOT}", *map(str, files)]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *arguments],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(self._addon)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    @staticmethod
    def _forget_compiled(file: Path) -> None:
        """Two mutants of one second and one length look the same to Python."""
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Changes the code, and sees whether tests fail.")
    parser.add_argument("--seed", type=int, default=1, help="another one: other mutants")
    parser.add_argument("--count", type=int, default=200, help="how many mutants")
    parser.add_argument("rooms", nargs="*", default=ROOMS, help=" ".join(ROOMS))
    options = parser.parse_args()
    paths = [path for room in options.rooms for path in sorted((ADDON / room).rglob("*.py"))]
    found = [mutant for path in paths for mutant in mutants_of(path.relative_to(ADDON))]
    chosen = random.Random(options.seed).sample(found, min(options.count, len(found)))
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(Path(folder))
        if not tests.pass_for(chosen[0].path):
            sys.exit("The tests fail as the code is: mend them first.")
        for number, mutant in enumerate(sorted(chosen, key=str), 1):
            began = time.monotonic()
            noticed = tests.notice(mutant)
            survivors += [] if noticed else [mutant]
            how, took = "died    " if noticed else "SURVIVED", time.monotonic() - began
            print(f"{number:>4} {how} {took:4.0f} s  {mutant}", flush=True)
    died = len(chosen) - len(survivors)
    print(f"{died} of {len(chosen)} died (seed {options.seed}, of {len(found)} mutants in all).")
    for mutant in survivors:
        print(f"survived: {mutant}")


if __name__ == "__main__":
    main()
