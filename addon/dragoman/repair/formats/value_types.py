"""What a value is that a format writes as text: the type that the tool's schema declares.

If the schema declares a string, any text is one; if it declares nothing, a text is what it
is as JSON, and else a string.  Other types are read as JSON; a text that is no JSON stays
a string, so that nothing is lost.  Of a union (``anyOf``, a list of types, …) the first
member counts that accepts the value; but ``null`` is null wherever null is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from ...wire.json_codec import MAX_NESTING, NotJson, dumps, loads, nesting_exceeds
from ..schema import TYPES, OutOfSteps, Steps, accepts, referred

_STEPS = 500
"""Schemas that are looked at to find the type of one argument."""
_UNIONS = ("anyOf", "oneOf", "allOf")
_KINDS: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}
PYTHON = {"True": "true", "False": "false", "None": "null"}
"""What models write, and chat templates print, that are made of Python values."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ValueType:
    """The types of one argument in the order of its schema, each with the schema that has it;
    empty if nothing is declared."""

    members: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def is_string(self) -> bool:
        """Whether any text is a string, but for ``null`` where that is allowed."""
        if not self.members:
            return False
        name, schema = self.members[0]
        only = all(each in ("string", "null") for each, _ in self.members)
        return name == "string" and (only or not ("enum" in schema or "const" in schema))

    @property
    def takes_null(self) -> bool:
        return any(name == "null" for name, _ in self.members)

    def json_of(self, text: str) -> str:
        """The JSON text of the value that `text` is."""
        bare = text.strip()
        if self.takes_null and bare == "null":
            return bare
        found = _read_json(bare)
        if found is None and bare in PYTHON and not self.is_string:
            found = _read_json(PYTHON[bare]) if self._types & {"boolean", "null"} else None
        for strict in (True, False):
            for name, schema in self.members:
                if name == "string" and _accepted(name, schema, text, strict):
                    return json_string(text)
                if found is not None and _accepted(name, schema, found[0], strict):
                    return found[1]
        return json_string(text) if found is None else found[1]

    @property
    def _types(self) -> set[str]:
        return {name for name, _ in self.members}


JSON = ValueType()
"""If nothing is declared: JSON, or else a string."""
STRING = ValueType((("string", {}),))
OTHER = ValueType(tuple((name, {}) for name in ("object", "array", "number", "boolean", "null")))
"""If the format says that it is no string."""


def declares(schema: object, key: str) -> bool:
    """Whether a schema names this argument, or element of an object."""
    declared = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(declared, dict) and key in declared


def property_of(schema: Any, key: str) -> object:
    """The schema of an argument, or of an element of an object; None if there is none."""
    if declares(schema, key):
        return schema["properties"][key]
    return schema.get("additionalProperties") if isinstance(schema, dict) else None


def type_of(schema: object, root: object) -> ValueType:
    """The types that a schema declares, with references into `root`."""
    try:
        return ValueType(tuple(_members(schema, root, Steps(_STEPS))))
    except (OutOfSteps, RecursionError):
        return JSON


def json_string(text: str) -> str:
    """The JSON string of a text; lone surrogates, which UTF-8 cannot carry, are escaped."""
    quoted = encode_basestring(text)
    if not quoted.isascii():
        quoted = _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
    return quoted


def _members(schema: object, root: object, steps: Steps) -> Iterator[tuple[str, dict[str, Any]]]:
    steps.take()
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _members(referred(schema["$ref"], root), root, steps)
    for word in _UNIONS:
        for member in schema[word] if isinstance(schema.get(word), list) else []:
            yield from _members(member, root, steps)
    for name in _declared_types(schema):
        if name in TYPES:
            yield name, {**schema, "type": name}
    if schema.get("nullable") is True:
        yield "null", {}


def _declared_types(schema: dict[str, Any]) -> list[str]:
    """The names of a schema's own types, or of those of the values that it allows."""
    types = schema.get("type")
    if isinstance(types, str):
        return [types]
    if isinstance(types, list):
        return [name for name in types[:8] if isinstance(name, str)]
    if "const" in schema:
        return [_KINDS[type(schema["const"])]]
    if isinstance(schema.get("enum"), list):
        return list(dict.fromkeys(_KINDS[type(value)] for value in schema["enum"][:_STEPS]))
    has = {"properties": "object", "items": "array"}
    return [name for word, name in has.items() if isinstance(schema.get(word), dict)]


def _accepted(name: str, schema: dict[str, Any], value: object, strict: bool) -> bool:
    """Whether a member takes a value; if not `strict`, by its type alone."""
    if not TYPES[name](value):
        return False
    try:
        return not strict or accepts(schema, value, Steps())
    except OutOfSteps:
        return True


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_lenient = json.JSONDecoder(strict=False, parse_constant=_no_constant).decode


def _read_json(text: str) -> tuple[Any, str] | None:
    """The value of a JSON text, and its text; None if it is not JSON.  A line end in a string,
    which JSON forbids and models write, is let through."""
    try:
        value = loads(text)
        if "NaN" not in text and "Infinity" not in text:
            return value, _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    except NotJson:
        pass
    try:
        value = _lenient(text)
        return None if nesting_exceeds(value, MAX_NESTING) else (value, dumps(value).decode())
    except (ValueError, RecursionError):
        return None
