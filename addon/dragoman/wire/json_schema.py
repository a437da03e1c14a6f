"""What the keywords of a JSON Schema mean, whoever reads it: types, references, what joins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from .json_codec import Json, array, dumps

_NAMES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}
_INDEX = re.compile("[0-9]{1,9}").fullmatch
TYPES = frozenset(_NAMES.values())
ALL_TYPES = ("string", "number", "boolean", "object", "array", "null")
_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties"),
        *("minProperties", "maxProperties", "dependentRequired"),
    ),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": (
        *("minLength", "maxLength", "pattern", "format"),
        *("contentEncoding", "contentMediaType"),
    ),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_TYPE_OF = {keyword: kind for kind, keywords in _KEYWORDS.items() for keyword in keywords}
_DEMANDS = {*_TYPE_OF, "type", "enum", "const"}
_HOLDERS: Mapping[str, Any] = {
    **dict.fromkeys(("anyOf", "oneOf", "required", "prefixItems"), list),
    **dict.fromkeys(("properties", "patternProperties"), dict),
    "items": (dict, bool, list),
    "additionalProperties": (dict, bool),
}
PARTS = ("$ref", "allOf", "anyOf", "oneOf")
"""What a schema refers to, or consists of."""
DEFINITIONS = ("$defs", "definitions")


def type_of(value: object) -> str:
    """The type of a JSON value; a number is an `integer` if it has no fraction, as 1.0."""
    whole = isinstance(value, float) and value.is_integer()
    return "integer" if whole else _NAMES[type(value)]


def is_of(value: object, name: str) -> bool:
    """Whether a value is of the type `name`, one of `TYPES`."""
    own = type_of(value)
    return own == name or (own == "integer" and name == "number")


def is_among(value: object, types: object, limit: int) -> bool:
    """Whether a value is of one of these `types`, a name or a list of which the first `limit` are
    looked at; any is, if none of them is known."""
    own, known = type_of(value), False
    for name in types[:limit] if isinstance(types, list) else [types]:
        if name == own or (name == "number" and own == "integer"):
            return True
        known = known or (isinstance(name, str) and name in TYPES)
    return not known


def own_types(schema: Json, limit: int | None = None) -> list[str]:
    """The types that a schema names, else those of the values that it allows; the first `limit`
    of either are looked at."""
    named = schema.get("type")
    types = named[:limit] if isinstance(named, list) else [named]
    if known := [name for name in types if isinstance(name, str) and name in TYPES]:
        return list(dict.fromkeys(known))
    if "const" in schema:
        return [type_of(schema["const"])]
    values = schema.get("enum")
    return list(dict.fromkeys(map(type_of, values[:limit]))) if isinstance(values, list) else []


def found_at(root: Any, reference: object) -> Any:
    """What a ``$ref`` within `root` leads to, as ``#/$defs/Name``; None if there is nothing."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    value = root
    for step in unquote(reference[1:]).removeprefix("/").split("/") if reference != "#" else ():
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and _INDEX(key) and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


def parts_of(schema: object, root: object) -> Iterator[tuple[Json, bool]]:
    """A schema and those that it refers to within `root`, or consists of (``$ref``, ``allOf``,
    ``anyOf``, ``oneOf``), the outer before the inner, each once; with whether a value always has to
    be one of it."""
    parts: list[tuple[object, bool]] = [(schema, True)]
    seen: set[int] = set()
    while parts:
        part, always = parts.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part, always
        inner = [(found_at(root, part.get("$ref")), always)]
        for word in PARTS[1:]:
            inner += [(each, always and word == "allOf") for each in array(part.get(word))]
        parts += reversed(inner)


def joined(first: Json, second: Json) -> Json:
    """A schema for values of both.  Where they differ and cannot be joined, the second counts,
    which accepts more."""
    joint = {**first, **second}
    for key in first.keys() & second.keys():
        a, b = first[key], second[key]
        if key in ("properties", "patternProperties") and isinstance(a, dict):
            joint[key] = {**a, **b} if isinstance(b, dict) else a
        elif key == "required":
            joint[key] = list(dict.fromkeys([*strings(a), *strings(b)]))
        elif key == "type":
            joint[key] = _common(listed(a), listed(b)) or b
        elif key == "enum" and isinstance(a, list) and isinstance(b, list):
            of_first = {dumps(value) for value in a}
            joint[key] = [value for value in b if dumps(value) in of_first] or b
    return joint


def _common(first: list[Any], second: list[Any]) -> list[Any]:
    """The types of both; an integer is a number."""
    common = [k for k in first if k in second or (k == "integer" and "number" in second)]
    return common + [k for k in second if k == "integer" and k not in first and "number" in first]


def types_of(node: Json) -> list[str]:
    """The types of a schema: its own, else those of its values, else those that its keywords are
    about, else all."""
    about = dict.fromkeys(_TYPE_OF[key] for key in node if key in _TYPE_OF)
    types = own_types(node) or [*about] or ALL_TYPES
    return [kind for kind in types if kind != "integer" or "number" not in types]


def is_well_typed(keyword: str, value: Any) -> bool:
    """Whether a keyword that holds schemas, or names of properties, has a value of its type."""
    return isinstance(value, _HOLDERS.get(keyword, object))


def is_about(keyword: str, kind: str) -> bool:
    about = _TYPE_OF.get(keyword)
    return keyword in ("enum", "const") or about == ("number" if kind == "integer" else kind)


def annotations_and_demands(node: Json) -> tuple[Json, Json]:
    """What a schema says for the reader, and what it demands of values."""
    demands = {key: value for key, value in node.items() if key in _DEMANDS}
    return {key: value for key, value in node.items() if key not in _DEMANDS}, demands


def anything() -> Json:
    return {"type": list(ALL_TYPES)}


def strings(value: Any) -> list[str]:
    return [name for name in array(value) if isinstance(name, str)]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def own_keywords(node: Json) -> Json:
    apart = ("$ref", "allOf", *DEFINITIONS)
    return {key: value for key, value in node.items() if key not in apart}


def only_refers(node: Json) -> bool:
    return "$ref" in node and node.keys() <= {"$ref", *DEFINITIONS}


def escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
