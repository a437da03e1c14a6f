"""Values where they do not belong: every JSON node of a fixture, replaced by each of `WRONG`.

Fixtures repeat themselves, so nodes are told apart by their shape, the path with every
index the same; of each shape some nodes stand for all, or all do (`python -m tests.fuzz
mutants`, which takes minutes).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.wire.json_codec import MAX_NESTING, NotJson, loads
from dragoman.wire.sse import FrameSplitter
from fixtures.server import FOLDER
from tests.repair.formats.test_all_formats import CALLS

Path_ = tuple[str | int, ...]
OPENERS = " ".join(call.partition("¦")[0] for call in CALLS.values())
"""With what calls of every format begin."""


def nested(levels: int) -> Any:
    """A list in a list in a list…"""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def wrong_values() -> list[Any]:
    """Of every type, and the extremes of each."""
    return [
        *(None, True, False, 0, -1, 7, 1.5, float("inf"), float("nan")),
        *(10**400, -(10**4299), int("9" * 4300)),
        *("", "x", " ", "\ud800", "\x00\x1b[2J\n", "<", OPENERS, "{"),
        *([], [None], [[]], ["x"], [{}], {}, {"x": {}}, {"": None}, {"type": []}),
    ]


def wrong_values_in_turn(turn: int) -> list[Any]:
    """One of every other type, and a sixth of the others: what is there in turn has all.  (All of
    them everywhere: `python -m tests.fuzz mutants`.)"""
    types = [None, True, 7, 1.5, "x", [], {}, {"type": []}]
    others = [value for value in wrong_values() if value not in types]
    return types[turn % 2 :: 2] + others[turn % 6 :: 6]


@dataclass(frozen=True, slots=True)
class Node:
    """A place in a fixture."""

    fixture: str
    path: Path_

    def __str__(self) -> str:
        return f"{self.fixture}:{'.'.join(map(str, self.path))}"


def nodes(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """The path of every node but the root."""
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for name, member in inner:
        yield (*at, name)
        yield from nodes(member, (*at, name))


def chosen(values: dict[str, Any], at_most: int) -> list[Node]:
    """The nodes of all fixtures, small ones first; of the same shape, `at_most` that lie far
    apart."""
    shapes: dict[Path_, list[Node]] = {}
    for fixture, value in sorted(values.items(), key=lambda named: len(str(named[1]))):
        for path in nodes(value):
            shape = tuple("*" if isinstance(step, int) else step for step in path)
            shapes.setdefault(shape, []).append(Node(fixture, path))
    return [alike[at] for alike in shapes.values() for at in _spread(len(alike), at_most)]


def _spread(count: int, at_most: int) -> list[int]:
    """`at_most` of the numbers below `count`, as far apart as they can be."""
    steps = min(count, at_most)
    return sorted({(count - 1) * step // max(1, steps - 1) for step in range(steps)})


def mutants(value: Any, path: Path_, wrong: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """`value` with each of `wrong` at `path`, with as much nesting there as can be read, and
    with nothing there, as (put there, result).  The very same object each time, and in the
    end what it was."""
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    was = holder[path[-1]]
    members = list(holder.items()) if isinstance(holder, dict) else None
    try:
        for other in (*wrong, nested(MAX_NESTING - len(path))):
            holder[path[-1]] = other
            yield other, value
        if members:
            del holder[path[-1]]
            yield "nothing", value
    finally:
        holder[path[-1]] = was
        if members:
            holder.clear()
            holder.update(members)


def requests() -> dict[str, Any]:
    """The Responses requests among the fixtures."""
    found = {path.parent.name: json.loads(path.read_bytes()) for path in _files("bridge_*")}
    assert found
    return found


def _files(name: str) -> list[Path]:
    return sorted(FOLDER.glob(f"{name}/request.json"))


def streams() -> dict[str, list[Any]]:
    """The chunks of every streamed reply among the fixtures."""
    found = {}
    for path in sorted(FOLDER.glob("*/*.sse")):
        if path.name == "upstream.sse" or path.name.startswith("turn"):
            splitter = FrameSplitter()
            frames = splitter.feed(path.read_bytes()) + splitter.close()
            found[f"{path.parent.name}/{path.name}"] = list(_values(f.data for f in frames))
    assert found
    return found


def whole_replies() -> dict[str, Any]:
    """The replies among the fixtures that are not streamed."""
    paths = [*FOLDER.glob("*/upstream.json"), *FOLDER.glob("*/turn*.json")]
    return {f"{path.parent.name}/{path.name}": json.loads(path.read_bytes()) for path in paths}


def _values(texts: Iterable[bytes | None]) -> Iterator[Any]:
    for text in texts:
        try:
            yield loads(text or b"")
        except NotJson:
            continue
