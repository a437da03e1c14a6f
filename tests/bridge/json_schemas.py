"""JSON Schema in small, for tests: what a schema accepts, and what Moonshot refuses of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

OF_TYPE = {
    "object": ("properties", "required", "additionalProperties", "patternProperties"),
    "array": ("items", "prefixItems", "minItems"),
    "string": ("minLength", "pattern", "format"),
    "number": ("minimum", "maximum"),
}


def find(root: Any, pointer: str) -> Any:
    """What a pointer within a document leads to; `KeyError` if nothing."""
    value = root
    for step in pointer.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def accepts(schema: Any, value: Any, root: Any, depth: int = 0) -> bool:
    """Whether `schema` accepts `value`; a schema without a type is read as one of the types that
    its keywords are about."""
    if isinstance(schema, bool) or depth > 12:
        return bool(schema)
    here = depth + 1
    if "$ref" in schema and not accepts(find(root, schema["$ref"]), value, root, here):
        return False
    if not all(accepts(each, value, root, here) for each in schema.get("allOf", ())):
        return False
    for union in ("anyOf", "oneOf"):
        if union in schema and not any(accepts(e, value, root, here) for e in schema[union]):
            return False
    kinds = schema.get("type") or [k for k, words in OF_TYPE.items() if schema.keys() & {*words}]
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_of(value, kind) for kind in kinds):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if isinstance(value, dict):
        return _accepts_object(schema, value, root, here)
    if isinstance(value, list):
        items = schema.get("items", True)
        return len(value) >= schema.get("minItems", 0) and all(
            accepts(items, item, root, here) for item in value
        )
    if isinstance(value, str):
        return len(value) >= schema.get("minLength", 0)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return not number or value >= schema.get("minimum", value)


def _accepts_object(schema: Any, value: Any, root: Any, depth: int) -> bool:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    return set(schema.get("required", ())) <= value.keys() and all(
        accepts(properties.get(name, others), inner, root, depth) for name, inner in value.items()
    )


def is_of(value: Any, kind: str) -> bool:
    """Whether a value is of a type of JSON Schema."""
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, types[kind])


def refusals(schema: Any) -> list[str]:
    """What Moonshot would refuse of the ``parameters`` of a function, in the words of its error
    texts (MoonshotAI/walle, and what its hosts answer)."""
    found = [] if schema.get("type") == "object" else ["root: parameters.type must be 'object'"]
    found += _refused(schema, "root", schema)
    for name, definition in schema.get("$defs", {}).items():
        found += _refused(definition, f"$defs.{name}", schema)
        if not _terminates(definition, schema, frozenset()):
            found.append(f"$defs.{name}: detected infinite recursion without termination condition")
    return found


def _refused(schema: Any, path: str, root: Any) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{path}: schema must be an object"
        return
    if "$ref" in schema:
        yield from _refused_reference(schema, path, root)
        return
    if "anyOf" in schema:
        if "type" in schema:
            yield f"{path}: when using anyOf, type should be defined in anyOf items"
        beside = schema.keys() - {"anyOf", "title", "description"}
        for index, branch in enumerate(schema["anyOf"]):
            if isinstance(branch, dict) and beside & branch.keys():
                yield f"{path}: conflicting keywords found in anyOf with parent"
            yield from _refused(branch, f"{path}.anyOf[{index}]", root)
        if not schema["anyOf"]:
            yield f"{path}: anyOf is empty"
    elif "type" not in schema:
        yield f"{path}: type is not defined"
    if isinstance(schema.get("type"), list) and schema.keys() - {"type", "title", "description"}:
        yield f"{path}: keyword is not allowed in combination with multiple types"
    for union in schema.keys() & {"allOf", "oneOf"}:
        yield f"{path}: type is not defined within {union}"
    for name, inner in schema.get("properties", {}).items():
        if name == "$ref":
            yield f"{path}: $ref must be a string"
        yield from _refused(inner, f"{path}.properties.{name}", root)
    if missing := set(schema.get("required", ())) - schema.get("properties", {}).keys():
        yield f"{path}: required names undefined properties {missing}"
    if "items" in schema:
        yield from _refused(schema["items"], f"{path}.items", root)
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from _refused(others, f"{path}.additionalProperties", root)
    for name, inner in schema.get("patternProperties", {}).items():
        if "$ref" in inner:
            yield f"{path}: $ref is not allowed in this schema"
        yield from _refused(inner, f"{path}.patternProperties.{name}", root)


def _refused_reference(schema: Any, path: str, root: Any) -> Iterator[str]:
    reference = schema["$ref"]
    if schema.keys() != {"$ref"}:
        yield f"{path}: when using $ref, {schema.keys()} should be defined in the referenced schema"
    if not isinstance(reference, str):
        yield f"{path}: $ref must be a string"
    elif not reference.startswith("#/$defs/"):
        yield f"{path}: references must start with #/$defs/"
    elif reference.removeprefix("#/$defs/") not in root.get("$defs", {}):
        yield f"{path}: $defs not found for reference: {reference}"


def _terminates(schema: Any, root: Any, seen: frozenset[str]) -> bool:
    """Whether something of a schema can be written without writing it again."""
    if "$ref" in schema:
        name = schema["$ref"]
        return name not in seen and _terminates(find(root, name), root, seen | {name})
    if "anyOf" in schema:
        return any(_terminates(branch, root, seen) for branch in schema["anyOf"])
    if schema["type"] == "object":
        required = [schema["properties"][name] for name in schema.get("required", ())]
        return not required or any(_terminates(inner, root, seen) for inner in required)
    if schema["type"] == "array":
        return "items" not in schema or _terminates(schema["items"], root, seen)
    return True
