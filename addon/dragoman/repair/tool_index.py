"""The declared tools of a request, found by the name or the arguments of a call.

A request may declare thousands; so they are indexed once, in slices, and none is looked at
that a call cannot mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping

from ..wire.slices import Slices


class ToolIndex:
    """Tools by their names, and by the arguments that they require."""

    def __init__(self, schemas: Mapping[str, object]) -> None:
        self.schemas = schemas
        self._names: list[str] = []
        """Sorted."""
        self._by_shape: dict[str, list[str]] = {}
        self._by_argument: dict[str, list[str]] = {}
        """Those that require it; each tool once, by one that few others require so far."""
        self._open: list[str] = []
        """Those that require nothing."""

    def indexing(self) -> Slices[None]:
        """Make the index; before that, no tool is found."""
        for name, schema in self.schemas.items():
            self._by_shape.setdefault(_shape(name), []).append(name)
            required = min(_required(schema), key=self._users, default=None)
            found = self._open if required is None else self._by_argument.setdefault(required, [])
            found.append(name)
            yield
        self._names = sorted(self.schemas)
        yield

    def _users(self, argument: str) -> int:
        return len(self._by_argument.get(argument, ()))

    def may_take(self, arguments: Iterable[str]) -> Iterator[str]:
        """The tools that do not require any other arguments, and a few more."""
        yield from self._open
        for name in arguments:
            yield from self._by_argument.get(name, ())

    def alike(self, name: str) -> str | None:
        """The one tool that differs from `name` only in ``-`` and ``_``."""
        found = self._by_shape.get(_shape(name), [])
        return found[0] if len(found) == 1 else None

    def may_begin(self, text: str) -> bool:
        """Whether the name of a tool begins with this."""
        # Of what is sorted, the first that is not less begins with it, if any does.
        place = bisect_left(self._names, text)
        return place < len(self._names) and self._names[place].startswith(text)


def _required(schema: object) -> list[str]:
    """Some of the arguments without which a schema accepts nothing."""
    required = schema.get("required") if isinstance(schema, dict) else None
    return [n for n in required[:8] if isinstance(n, str)] if isinstance(required, list) else []


def _shape(name: str) -> str:
    return name.replace("-", "_")
