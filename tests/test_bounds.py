"""The bounds that docs/faults.md has in its tables are those of the code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.wire import reply_bounds, request_bounds

from .mutants.changes import ADDON, ROOT

SIZES = {"": 1, "k": 1024, "M": 1024**2}


def rows() -> Iterator[tuple[list[int], list[str]]]:
    """The figures of each row, and the constants beside them."""
    page = (ROOT / "docs" / "faults.md").read_text()
    for line in page.partition("\n## Bounds\n")[2].partition("\n## ")[0].splitlines():
        if names := re.findall(r"`(\w+\.[A-Z_]+)`", line):
            figures = re.findall(r"([\d,]*\d) ?([kM]?)", line.split("|")[2])
            yield [int(figure.replace(",", "")) * SIZES[size] for figure, size in figures], names


def module_of(name: str) -> Path:
    """The file that has a constant of this name (there are files of one name)."""
    module, _, constant = name.partition(".")
    (found,) = (
        path for path in ADDON.rglob(f"{module}.py") if f"\n{constant} = " in path.read_text()
    )
    return found


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        pytest.param(name, figure, id=f"{name} {figure}")
        for figures, names in rows()
        for name, figure in zip(names, figures, strict=True)
    ],
)
def test_a_bound_in_the_table_is_that_of_the_code(name: str, figure: int) -> None:
    parts = module_of(name).relative_to(ADDON.parent).with_suffix("").parts
    assert getattr(importlib.import_module(".".join(parts)), name.partition(".")[2]) == figure


@pytest.mark.parametrize("module", [reply_bounds, request_bounds])
def test_every_bound_of_a_request_and_a_reply_is_in_the_table(module: object) -> None:
    bounds = {
        f"{module.__name__.rpartition('.')[2]}.{name}"  # type: ignore[attr-defined]
        for name, value in vars(module).items()
        if name.startswith("MAX_") and isinstance(value, int)
    }
    inner = {"MAX_NESTING", "MAX_COST"}  # imported; `MAX_IN_VAIN` in another unit
    listed = {name for _, names in rows() for name in names}
    assert {name for name in bounds if name.partition(".")[2] not in inner} <= listed
