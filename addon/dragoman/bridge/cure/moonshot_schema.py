"""A JSON Schema in the form that Moonshot takes.

Moonshot refuses a whole request for one tool whose schema is outside its subset ("is not a
valid moonshot flavored json schema").  The rules are those of its error texts, its document
"Moonshot Flavored JSON Schema" and its published validator (MoonshotAI/walle):

- ``$ref`` points to ``#/$defs/<name>``, with nothing beside it, and what it points to can end:
  an object one of whose required members leads back to it, whatever is chosen, is refused;
- no ``type`` beside ``anyOf``, and no keyword of an ``anyOf`` in its branches again;
- every schema has a type, and one with several has no keywords of a single type;
- ``items`` is a schema, what is required is a property, no property is called ``$ref``;
- the root is an object.

The invariant: an argument that the old schema accepts, the new one accepts, if what has no
type is read as the type that its keywords are about, and a property that only some forms of
the root name as these name it.  Where the rules leave no way to say something (``not``, ``if``),
or it is rare (``prefixItems``, ``patternProperties``, a union beside other demands than a type),
the new schema says less.  The same schema gives the same bytes, and one that keeps the rules is
returned as it is.
"""

from __future__ import annotations

import re
from typing import Any

from ...wire.json_codec import Json, array, dumps, objects
from ...wire.json_schema import (
    annotations_and_demands,
    anything,
    escaped,
    found_at,
    is_about,
    is_of,
    is_well_typed,
    joined,
    listed,
    only_refers,
    own_keywords,
    strings,
    types_of,
)

MAX_SCHEMAS = 10_000
"""Schemas within one that are rewritten: a tool has some dozens; this many take 50 ms."""
MAX_COPIES = 2_000
"""Schemas after which none is copied any more: what stands beside a ``$ref`` is left out, so that
schemas that name each other many times stay small."""
MAX_DEPTH = 40
"""Levels of schemas, and of references that lead to others; what is further inside may be
anything."""

_VALUES = ("default", "const", "examples", "example")
_UNIONS = ("anyOf", "oneOf")
_LEFT_OUT = {
    *("not", "if", "then", "else", "dependentSchemas", "dependencies", "propertyNames"),
    *("contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties"),
    *("additionalItems", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
}
"""Keywords that hold schemas in which an equivalent cannot be put, or that depend on such."""


class TooLarge(Exception):  # noqa: N818 - a limit, not a fault of the program
    """The schema holds more than `MAX_SCHEMAS`."""


def moonshot_schema(schema: Json) -> tuple[Json, list[str]]:
    """`schema` as Moonshot takes it (the same object if it does), and the keywords that are left
    out of it.  Raises `TooLarge`."""
    rewriter = _Rewriter(schema)
    accepted = rewriter.root()
    return (schema if accepted == schema else accepted), list(rewriter.left_out)


class _Rewriter:
    """Rewrites one root and what it refers to."""

    def __init__(self, root: Json) -> None:
        self._root = root
        self.left_out: dict[str, None] = {}
        """The keywords left out, in their order."""
        self._schemas = 0
        self._names: dict[str, str] = {}
        """The definitions' names by the pointer to them."""
        self._taken: set[str] = set()
        self._definitions: list[tuple[str, Any]] = []
        """The definitions by name, not rewritten."""
        self._targets: dict[str, Json] = {}
        """What the pointers lead to, as `_flat` gives it."""
        self._copying = False
        """Whether a copy is made, which holds none itself: it might not end."""

    def root(self) -> Json:
        named = self._root.get("$defs")
        for name in named if isinstance(named, dict) else ():
            self._definition(f"#/$defs/{escaped(name)}")
        root = self._plain(self._object(self._flat(self._root)), 0)
        definitions: dict[str, Json] = {}
        for name, value in self._definitions:  # which grows
            definitions[name] = self._schema(value, 0)
        _make_endable(definitions)
        return {**root, "$defs": definitions} if definitions else root

    def _count(self, schemas: int = 1) -> None:
        self._schemas += schemas
        if self._schemas > MAX_SCHEMAS:
            raise TooLarge

    # One schema

    def _schema(self, node: Any, depth: int) -> Json:
        self._count()
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            return anything()
        if "$ref" not in node and "allOf" not in node:
            return self._plain(own_keywords(node), depth)
        name = self._referred(node)
        reference = {"$ref": f"#/$defs/{name}"} if name else None
        if reference and only_refers(node):
            return reference
        if self._copying or self._schemas > MAX_COPIES:
            return reference or anything()
        self._copying = True
        copy = self._plain(self._flat(node), depth)
        self._copying = False
        return copy

    def _referred(self, node: Json) -> str | None:
        """The definition that a schema refers to, by itself or as one of all."""
        for holder in (node, *objects(node.get("allOf"))):
            pointer = holder.get("$ref")
            if isinstance(pointer, str) and (name := self._definition(pointer)):
                return name
        return None

    def _plain(self, node: Json, depth: int) -> Json:
        """A schema that refers to nothing itself.  Beside a union stands at most a type, which its
        branches say again; beside other demands the union is left out."""
        dropped = [key for key in node if key in _LEFT_OUT or not is_well_typed(key, node[key])]
        unions = [key for key in _UNIONS if node.get(key) and key not in dropped]
        own = {key: value for key, value in node.items() if key not in (*dropped, *_UNIONS)}
        notes, demands = annotations_and_demands(own)
        is_union = bool(unions) and demands.keys() <= {"type"}
        self.left_out |= dict.fromkeys([*dropped, *unions[is_union:]])
        if not is_union:
            return self._typed(own, depth)
        branches = [self._schema(choice, depth + 1) for choice in node[unions[0]]]
        beside = notes.keys() - {"title", "description"}
        branches = [{k: v for k, v in branch.items() if k not in beside} for branch in branches]
        return {**notes, "anyOf": branches}

    def _typed(self, node: Json, depth: int) -> Json:
        types = types_of(node)
        if len(types) == 1:
            return self._of_type(types[0], node, depth)
        if not node.keys() - {"type", "title", "description"}:
            return {**node, "type": types}
        notes, demands = annotations_and_demands(node)
        of_kind = {kind: {k: v for k, v in demands.items() if is_about(k, kind)} for kind in types}
        return {**notes, "anyOf": [self._of_type(k, mine, depth) for k, mine in of_kind.items()]}

    def _of_type(self, kind: str, node: Json, depth: int) -> Json:
        typed: Json = {} if "type" in node else {"type": kind}
        for key, value in node.items():
            match key:
                case "type":
                    typed[key] = kind
                case "enum":
                    fitting = [each for each in array(value) if is_of(each, kind)]
                    if fitting and kind not in ("object", "array", "null"):
                        typed[key] = fitting
                case "const" if not is_of(value, kind):
                    pass
                case "properties":
                    if "$ref" in value:
                        self.left_out["property $ref"] = None
                    named = {name: each for name, each in value.items() if name != "$ref"}
                    typed[key] = {
                        name: self._schema(each, depth + 1) for name, each in named.items()
                    }
                case "required":
                    known = node.get("properties", {}).keys() - {"$ref"}
                    if kind == "object":
                        typed[key] = [name for name in strings(value) if name in known]
                case "additionalProperties" if "patternProperties" in node:
                    self.left_out[key] = None
                case "additionalProperties" if isinstance(value, dict):
                    typed[key] = self._schema(value, depth + 1) if value else True
                case "items" if value and not isinstance(value, list) and "prefixItems" not in node:
                    typed[key] = self._schema(value, depth + 1)
                case "items" | "prefixItems" | "patternProperties":
                    self.left_out[key] = None
                case _ if key in _VALUES and b'"$ref"' in dumps(value):
                    self.left_out[key] = None
                case _:
                    typed[key] = value
        return typed

    # What a schema refers to

    def _flat(self, node: Json, depth: int = 0) -> Json:
        """A schema joined with all that it refers to, and with the schemas of its ``allOf``."""
        self._count()
        if depth > MAX_DEPTH:
            return {}
        flat = self._target(str(node["$ref"]), depth) if "$ref" in node else {}
        for part in objects(node.get("allOf")):
            flat = joined(flat, self._flat(part, depth + 1))
        return joined(flat, own_keywords(node))

    def _target(self, pointer: str, depth: int) -> Json:
        """What a pointer leads to; empty within itself."""
        if pointer not in self._targets:
            self._targets[pointer] = {}
            target = found_at(self._root, pointer)
            if isinstance(target, dict):
                self._targets[pointer] = self._flat(target, depth + 1)
            else:
                self.left_out["$ref"] = None
        return self._targets[pointer]

    def _definition(self, pointer: str) -> str | None:
        """The name of the definition that a pointer leads to; None if it leads nowhere."""
        if pointer in self._names:
            return self._names[pointer]
        target = found_at(self._root, pointer)
        if not isinstance(target, (dict, bool)):
            return None
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", pointer.rsplit("/", 1)[-1].strip("#")) or "root"
        name, number = wanted, len(self._taken)
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._names[pointer] = name
        self._taken.add(name)
        self._definitions.append((name, target))
        return name

    # The root

    def _object(self, flat: Json) -> Json:
        """The root, which may be one of several objects: an object with the properties of all of
        them, of which those are required that all require."""
        root: Json = {"type": "object", **flat} | {"type": "object"}
        unions = [root.pop(name, None) for name in _UNIONS]
        branches = [self._flat(choice) for choice in objects(unions[0] or unions[1])]
        branches = [each for each in branches if "object" in listed(each.get("type", "object"))]
        if not branches:
            return root
        properties: dict[str, dict[bytes, Any]] = {}
        for holder in (flat, *branches):
            named = holder.get("properties")
            for name, value in named.items() if isinstance(named, dict) else ():
                self._count()
                properties.setdefault(name, {}).setdefault(dumps(value), value)
        root["properties"] = {
            name: {"anyOf": [*values.values()]} if len(values) > 1 else next(iter(values.values()))
            for name, values in properties.items()
        }
        required = [dict.fromkeys(strings(branch.get("required"))) for branch in branches]
        always = [name for name in required[0] if all(name in names for names in required)]
        root["required"] = [*dict.fromkeys([*strings(flat.get("required")), *always])]
        return root


def _make_endable(definitions: dict[str, Json]) -> None:
    """Loosen the definitions that lead back to themselves whatever is chosen."""
    ending: set[str] = set()
    for _ in range(MAX_DEPTH):
        more = {n for n, d in definitions.items() if n not in ending and _ends(d, ending)}
        if not more:
            break
        ending |= more
    for name in definitions.keys() - ending:
        schema = definitions[name]
        loose = {key: value for key, value in schema.items() if key not in ("required", "items")}
        definitions[name] = loose if "type" in schema else anything()


def _ends(schema: Json, ending: set[str]) -> bool:
    """Whether some value of a schema needs no definition but those that are known to end."""
    if "$ref" in schema:
        return schema["$ref"].removeprefix("#/$defs/") in ending
    if "anyOf" in schema:
        return any(_ends(branch, ending) for branch in schema["anyOf"])
    if schema["type"] == "object":
        properties = schema.get("properties", {})
        return all(_ends(properties[name], ending) for name in schema.get("required", ()))
    return schema["type"] != "array" or "items" not in schema or _ends(schema["items"], ending)
