"""The JSON value of an argument that a format writes as text, by the schema of its tool.

If the schema declares a string, the text is the value.  Any other type, or none, is read as
JSON, and a text that is not JSON stays a string, so that nothing is lost.  Of a union
(``anyOf``, a list of types, …) the first member that accepts the value counts; but ``null`` is
null wherever null is allowed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from ...wire.json_codec import MAX_NESTING, Json, NotJson, loads, nesting_exceeds
from ...wire.json_schema import is_of, own_types, parts_of
from ..schema import MAX_PARTS, OutOfSteps, Steps, accepts, properties

_IMPLIED = {"properties": "object", "items": "array"}
"""The types of schemas with these keywords, if nothing else says them."""
PYTHON = {"True": "true", "False": "false", "None": "null"}
"""JSON's words as Python prints them, which models and chat templates do."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ValueType:
    """The types of one argument in the order of its schema, each with the schema that declares
    it; empty if none is declared."""

    members: tuple[tuple[str, Json], ...] = ()

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
        if self.is_string and not self.takes_null:
            return json_string(text)
        bare = text.strip()
        if self.takes_null and bare == "null":
            return bare
        parsed = read_json(bare)
        if parsed is None and bare in PYTHON and not self.is_string:
            named = any(name in ("boolean", "null") for name, _ in self.members)
            parsed = read_json(PYTHON[bare]) if named else None
        values = [(text, json_string(text)), *([parsed] if parsed else [])]
        for strict in (True, False):
            for name, schema in self.members:
                for value, json_text in values:
                    if _accepted(name, schema, value, strict):
                        return json_text
        return values[-1][1]


JSON = ValueType()
"""Where no type is declared: JSON, or else a string."""
STRING = ValueType((("string", {}),))
OTHER = ValueType(tuple((name, {}) for name in ("object", "array", "number", "boolean", "null")))
"""Where the format says that the value is not a string."""


def property_of(schema: object, key: str) -> object:
    """The schema of an argument, or of an element of an object; None if there is none."""
    others = schema.get("additionalProperties") if isinstance(schema, dict) else None
    return properties(schema).get(key, others)


def type_of(schema: object, root: object) -> ValueType:
    """The types that a schema declares, with references into `root`."""
    parts = [part for part, _ in islice(parts_of(schema, root), MAX_PARTS + 1)]
    if len(parts) > MAX_PARTS:
        return JSON
    members: list[tuple[str, Json]] = []
    for part in parts:
        implied = (name for word, name in _IMPLIED.items() if isinstance(part.get(word), dict))
        types = own_types(part, MAX_PARTS) or implied
        members += [(name, {**part, "type": name}) for name in types]
    members += [("null", {})] if any(part.get("nullable") is True for part in parts) else []
    return ValueType(tuple(members))


def json_string(text: str) -> str:
    """The JSON string of a text."""
    return _encodable(encode_basestring(text))


def _encodable(json_text: str) -> str:
    """The same with lone surrogates, which UTF-8 cannot carry, escaped."""
    if json_text.isascii():
        return json_text
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)


def _accepted(name: str, schema: Json, value: object, strict: bool) -> bool:
    """Whether a member accepts a value; if not `strict`, by its type alone."""
    if not is_of(value, name):
        return False
    try:
        return not strict or accepts(schema, value, Steps())
    except OutOfSteps:
        return True


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_decoder = json.JSONDecoder(strict=False, parse_constant=_no_constant)
_lenient = _decoder.decode
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_CONTROL = re.compile(r"[\0-\x1f]")
_KEY = re.compile(r'\s*+,?\s*+"([^"\\]*+)"\s*+:\s*+(?=\S)')


def read_json(text: str) -> tuple[Any, str] | None:
    """The value of a JSON text, and its text; None if it is not JSON.  A line end in a string,
    which JSON forbids and models write, is accepted."""
    try:
        value = loads(text)
        if "NaN" not in text and "Infinity" not in text:
            return value, _encodable(text)
    except NotJson:
        pass
    try:
        value = _lenient(text)
    except (ValueError, RecursionError):
        return None
    if nesting_exceeds(value, MAX_NESTING):
        return None
    return value, _encodable(_STRING.sub(_without_controls, text))


def _without_controls(string: re.Match[str]) -> str:
    """A JSON string with its control characters escaped."""
    return _CONTROL.sub(lambda found: encode_basestring(found[0])[1:-1], string[0])


class Member(NamedTuple):
    """A member of a JSON object."""

    key: str
    value: Any
    text: str
    """That of the value; `read_json` says when it is not what stands there."""
    start: int
    """Where that begins in the text of the object."""


def members_of(text: str) -> list[Member]:
    """The members of a JSON object; none if it is no object."""
    members, after, _ = members_so_far(text)
    return members if text[after:].strip() == "}" else []


def members_so_far(text: str) -> tuple[list[Member], int, str]:
    """The members of an object that are whole, where the last of them ends, and the key of the one
    after them, if there is one whose value has begun."""
    members: list[Member] = []
    at = text.find("{") + 1
    while (key := _KEY.match(text, at)) is not None:
        try:
            end = _decoder.raw_decode(text, key.end())[1]
        except (ValueError, RecursionError):
            return members, at, key[1]
        if (read := read_json(text[key.end() : end])) is None:
            return members, at, key[1]
        members.append(Member(key[1], *read, key.end()))
        at = end
    return members, at, ""
