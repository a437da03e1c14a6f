"""What the keywords of a JSON Schema mean, whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...wire.json_codec import Json, array, dumps
from ...wire.json_schema import own_types

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
DEFINITIONS = ("$defs", "definitions")


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
