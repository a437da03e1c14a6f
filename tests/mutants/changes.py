"""What may be changed in the code, each change one mutant.

Another comparison, `and` for `or`, a condition without its `not`, `True` for `False`, a number that
is one more, a statement left out: within functions.  What cannot be seen, or is no promise, stays
as it is: docstrings, annotations, assertions, words, log lines, and the exact value of a limit (a
constant of a module; what is compared with one is compared the other way round instead).
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ADDON = ROOT / "addon" / "dragoman"
_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
}
_LIMIT = re.compile(r"_?[A-Z][A-Z0-9_]+")
_LOGS = frozenset({"debug", "info", "warning", "error", "exception"})


@dataclass(frozen=True)
class Mutant:
    path: Path
    """Of the file, within the addon."""
    number: int
    """Which of the file's."""
    lines: tuple[int, ...]
    """Those of the change; and if none of them is one of the bytecode, that of its statement."""
    statement: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:70] for text in (self.old, self.new))
        return f"{self.path}:{self.lines[0]}: {old}  ->  {new}"

    @property
    def file(self) -> str:
        return str(ADDON / self.path)

    def tree(self) -> ast.Module:
        """The changed code; every line keeps its number."""
        tree = ast.parse(Path(self.file).read_bytes())
        for number, (node, other, _) in enumerate(changes(tree)):
            if number == self.number:
                _Replaced(node, other).visit(tree)
                return ast.fix_missing_locations(tree)
        raise LookupError(self)


class _Replaced(ast.NodeTransformer):
    def __init__(self, node: ast.AST, other: ast.AST) -> None:
        self._node, self._other = node, ast.copy_location(other, node)

    def visit(self, node: ast.AST) -> ast.AST:
        return self._other if node is self._node else self.generic_visit(node)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file of the addon."""
    tree = ast.parse((ADDON / path).read_bytes())
    for number, (node, other, statement) in enumerate(changes(tree)):
        lines = tuple(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        yield Mutant(path, number, lines, statement, ast.unparse(node), ast.unparse(other))


def changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST, int]]:
    """What is replaced by what, and the first line of its statement."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        defaults = [*function.args.defaults, *filter(None, function.args.kw_defaults)]
        nodes: list[tuple[ast.AST, int]] = [
            (node, function.lineno) for node in (*defaults, *function.body)
        ]
        while nodes:
            node, line = nodes.pop(0)
            # One function in another has its own turn.
            if isinstance(node, ast.FunctionDef | ast.JoinedStr | ast.Assert):
                continue
            if isinstance(node, ast.stmt):
                line = node.lineno
            kept = node.annotation if isinstance(node, ast.AnnAssign) else None
            nodes += [(child, line) for child in ast.iter_child_nodes(node) if child is not kept]
            if isinstance(node, ast.expr | ast.stmt) and (other := _changed(node)) is not None:
                yield node, other, line


def _changed(node: ast.AST) -> ast.AST | None:
    """What is put in the place of a node; None where nothing is to be changed."""
    match node:
        case ast.Compare(ops=[op], comparators=[right]):
            names = [value.id for value in (node.left, right) if isinstance(value, ast.Name)]
            names += [
                value.attr for value in (node.left, right) if isinstance(value, ast.Attribute)
            ]
            limit = any(_LIMIT.fullmatch(name) for name in names)
            other = copy.copy(node)
            other.ops = [
                (_OPPOSITE.get(type(op), _OTHER[type(op)]) if limit else _OTHER[type(op)])()
            ]
            return other
        case ast.BoolOp(op=op):
            either = copy.copy(node)
            either.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            return either
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return ast.Constant(value + 1)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name in _LOGS:
            return None
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            return ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return ast.Pass()
    return None
