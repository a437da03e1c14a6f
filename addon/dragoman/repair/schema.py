"""Whether a tool's JSON Schema accepts an argument object.

A subset is enough to distinguish tools, and all that is implemented: ``type`` (one or a list),
``properties``, ``required``, ``additionalProperties`` (boolean or schema), ``enum``,
``const`` and ``items``.  Any other keyword accepts everything.

Schemas and values come from elsewhere, so the work is bounded: all checks that share one `Steps`
may take so many steps together, and then `OutOfSteps` is raised.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..wire.json_codec import Json, array
from ..wire.json_schema import PARTS, is_among, parts_of, strings

MAX_DEPTH = 64
"""Nesting of schema and value beyond which nothing is accepted."""
MAX_PARTS = 500
"""Schemas, or values, that one is read as: it may consist of others, which refer to others."""
MAX_STEPS = 10_000
"""Values and keywords that are checked for one turn: some 10 ms.  Fifty calls of ordinary size
take all of that with a hundred tools that require the same arguments."""


def properties(schema: object) -> Json:
    """The arguments that a schema declares, or the elements of an object."""
    declared = schema.get("properties") if isinstance(schema, dict) else None
    return declared if isinstance(declared, dict) else {}


def required(schema: object) -> list[str]:
    """The arguments that a schema requires."""
    return strings(schema.get("required")) if isinstance(schema, dict) else []


def is_open(schema: object) -> bool:
    """Whether a call may have arguments that its tool does not declare."""
    more = isinstance(schema, dict) and schema.get("additionalProperties")
    return bool(more) or not properties(schema)


class OutOfSteps(Exception):  # noqa: N818 - it is no error of anybody's
    """The check would take too long."""


class Steps:
    """The steps that are left, and the enumerations that were read already."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._steps = steps
        self._enums: dict[int, tuple[list[Any], frozenset[Any]]] = {}

    def take(self, count: int = 1) -> None:
        """Use some; raises `OutOfSteps` if there are too few."""
        self._steps -= count
        if self._steps < 0:
            raise OutOfSteps

    def enumerated(self, choices: list[Any], value: object) -> bool:
        """Whether `value` is one of `choices`; a list of scalars is read once."""
        enumeration = self._enums.get(id(choices))
        if enumeration is None:
            self.take(len(choices) // 8)
            scalars = frozenset((_kind(c), c) for c in choices if not isinstance(c, dict | list))
            enumeration = self._enums[id(choices)] = (choices, scalars)
        if not isinstance(value, dict | list):
            return (_kind(value), value) in enumeration[1]
        self.take(len(choices))
        return any(_same(choice, value) for choice in choices)


def accepts(schema: object, value: object, steps: Steps, depth: int = 0) -> bool:
    """Whether `schema` accepts `value`; a schema that is no object accepts anything but False.
    Raises `OutOfSteps`."""
    steps.take()
    if not isinstance(schema, dict):
        return schema is not False
    if depth > MAX_DEPTH:
        return False
    choices, items = schema.get("enum"), schema.get("items")
    if "type" in schema and not is_among(value, schema["type"], 8):
        return False
    if isinstance(choices, list) and not steps.enumerated(choices, value):
        return False
    if "const" in schema and not _same(schema["const"], value):
        return False
    if isinstance(value, list) and isinstance(items, dict):
        return all(accepts(items, item, steps, depth + 1) for item in value)
    if not isinstance(value, dict):
        return True
    steps.take(len(array(schema.get("required"))) // 8)
    for name in required(schema):
        if name not in value:
            return False
    declared, others = properties(schema), schema.get("additionalProperties", True)
    for name, member in value.items():
        if not accepts(declared.get(name, others), member, steps, depth + 1):
            return False
    return True


def _kind(value: object) -> bool:
    # In Python True == 1; in JSON they differ.
    return isinstance(value, bool)


def _same(one: object, other: object) -> bool:
    return _kind(one) is _kind(other) and one == other


def flattened(schema: object) -> object:
    """A schema of arguments as one object: with the properties of all schemas that it refers to or
    consists of, and with what these require in all cases."""
    if not isinstance(schema, dict) or not any(word in schema for word in PARTS):
        return schema
    found: dict[str, list[Any]] = {}
    demanded: list[str] = []
    for part, always in islice(parts_of(schema, schema), MAX_PARTS):
        for name, each in properties(part).items():
            found.setdefault(name, []).append(each)
        demanded += required(part) if always else []
    joint = {n: each[0] if len(each) == 1 else {"anyOf": each} for n, each in found.items()}
    rest = {word: value for word, value in schema.items() if word not in PARTS}
    return {**rest, "properties": joint, "required": demanded}
