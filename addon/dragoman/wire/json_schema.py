"""The types of JSON Schema, and the references within a schema."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from .json_codec import Json

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


def type_of(value: object) -> str:
    """The type of a JSON value; a number is an `integer` if it has no fraction, as 1.0."""
    whole = isinstance(value, float) and value.is_integer()
    return "integer" if whole else _NAMES[type(value)]


def is_of(value: object, name: str) -> bool:
    """Whether a value is of the type `name`, one of `TYPES`."""
    own = type_of(value)
    return own == name or (own == "integer" and name == "number")


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
