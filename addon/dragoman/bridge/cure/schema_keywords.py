"""What the keywords and the pointers of a JSON Schema mean, whoever reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from ...wire.json_codec import Json, array, dumps

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
DEMANDING = {*_TYPE_OF, "type", "enum", "const"}
DEFINITIONS = ("$defs", "definitions")


def both(one: Json, other: Json) -> Json:
    """A schema for values of two.  Where they differ and cannot be joined, the second counts,
    which accepts more."""
    if not one:
        return other
    made = {**one, **other}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        if key in ("properties", "patternProperties") and isinstance(a, dict):
            made[key] = {**a, **b} if isinstance(b, dict) else a
        elif key == "required":
            made[key] = list(dict.fromkeys([*strings(a), *strings(b)]))
        elif key == "type":
            made[key] = _common(listed(a), listed(b)) or b
        elif key == "enum" and isinstance(a, list) and isinstance(b, list):
            of_one = {dumps(value) for value in a}
            made[key] = [value for value in b if dumps(value) in of_one] or b
    return made


def _common(one: list[Any], other: list[Any]) -> list[Any]:
    """The types of both; an integer is a number."""
    narrow = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    return narrow + [k for k in other if k == "integer" and k not in one and "number" in one]


def types_of(node: Json) -> list[str]:
    """The types of a schema: its own, else those of its values, else those that its keywords are
    about, else all."""
    known = {*ALL_TYPES, "integer"}
    types = [kind for kind in listed(node.get("type")) if isinstance(kind, str) and kind in known]
    if not types and "const" in node:
        types = [_type_of(node["const"])]
    if not types and isinstance(node.get("enum"), list):
        types = list(dict.fromkeys(map(_type_of, node["enum"])))
    if not types:
        types = list(dict.fromkeys(_TYPE_OF[key] for key in node if key in _TYPE_OF))
    types = types or list(ALL_TYPES)
    return [kind for kind in dict.fromkeys(types) if kind != "integer" or "number" not in types]


def _type_of(value: Any) -> str:
    return next(kind for kind in ("integer", *ALL_TYPES) if is_of(value, kind))


def is_of(value: Any, kind: str) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    if isinstance(value, float):
        return kind == "number" or value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def is_well_typed(keyword: str, value: Any) -> bool:
    """Whether a keyword that holds schemas, or names of properties, has a value of its type."""
    match keyword:
        case "anyOf" | "oneOf" | "required" | "prefixItems":
            return isinstance(value, list)
        case "properties" | "patternProperties":
            return isinstance(value, dict)
        case "items":
            return isinstance(value, (dict, bool, list))
        case "additionalProperties":
            return isinstance(value, (dict, bool))
    return True


def is_about(keyword: str, kind: str) -> bool:
    about = _TYPE_OF.get(keyword)
    return keyword in ("enum", "const") or about == ("number" if kind == "integer" else kind)


def parted(node: Json) -> tuple[Json, Json]:
    """What a schema says for the reader, and what it demands of values."""
    demanded = {key: value for key, value in node.items() if key in DEMANDING}
    return {key: value for key, value in node.items() if key not in DEMANDING}, demanded


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


def found_at(root: Json, pointer: str) -> Any:
    """What a JSON pointer within the document leads to; None if nothing."""
    if not pointer.startswith("#"):
        return None
    value: Any = root
    for step in _steps(pointer[1:]):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _steps(path: str) -> Iterator[str]:
    for step in unquote(path).split("/")[1:] if path.startswith("/") else [path] if path else ():
        yield step.replace("~1", "/").replace("~0", "~")
