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
the root name as these name it.  Where the rules leave no way to say something (``not``,
``if``), or it is rare (``prefixItems``, ``patternProperties``), the new schema says less.  The
same schema gives the same bytes, and one that keeps the rules is returned as it is.
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
"""Schemas after which none is copied any more.  What stood beside a ``$ref`` is then left out, so
that schemas that name each other many times stay small."""
MAX_DEPTH = 40
"""Levels of schemas, and of references that lead to others; what is further inside may be
anything."""
_MAX_PASSES = 51
"""How often definitions are looked through for those that can end."""

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
        self._open: set[int] = set()
        """The schemas that are copied, and the unions that are taken apart, on the way to the one
        that is rewritten: a second time would not end."""

    def root(self) -> Json:
        named = self._root.get("$defs")
        for name in named if isinstance(named, dict) else ():
            self._definition(f"#/$defs/{escaped(name)}")
        flat = self._flat(self._root)
        root = self._plain(_as_object(flat, self._branches(flat)), 0)
        definitions: dict[str, Json] = {}
        for name, value in self._definitions:  # which grows
            is_alias = isinstance(value, dict) and only_refers(value)
            definitions[name] = self._schema(self._flat(value) if is_alias else value, 0)
        _make_endable(definitions)
        if definitions:
            root["$defs"] = definitions
        if definitions and "$defs" in self._root:
            return {key: root[key] for key in self._root if key in root} | root
        return root

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
        if id(node) in self._open or self._schemas > MAX_COPIES:
            return reference or anything()
        self._open.add(id(node))
        copy = self._plain(self._flat(node), depth)
        self._open.discard(id(node))
        return copy

    def _referred(self, node: Json) -> str | None:
        """The definition that a schema refers to, by itself or as one of all."""
        for holder in (node, *objects(node.get("allOf"))):
            pointer = holder.get("$ref")
            if isinstance(pointer, str) and (name := self._definition(pointer)):
                return name
        return None

    def _plain(self, node: Json, depth: int) -> Json:
        """A schema that refers to nothing itself."""
        dropped = [key for key in node if key in _LEFT_OUT or not is_well_typed(key, node[key])]
        self.left_out |= dict.fromkeys(dropped)
        node = {key: value for key, value in node.items() if key not in dropped}
        unions = [node.pop(name) for name in _UNIONS if name in node]
        if len(unions) > 1:
            self.left_out["oneOf"] = None
        return self._union(node, unions[0], depth) if unions else self._typed(node, depth)

    def _union(self, node: Json, choices: list[Any], depth: int) -> Json:
        """The demands beside a union move into each of its branches."""
        notes, demands = annotations_and_demands(node)
        copies = bool(demands) and self._schemas > MAX_COPIES
        branches: list[Json] = []
        if id(choices) not in self._open and not copies and depth <= MAX_DEPTH:
            self._open.add(id(choices))
            for choice in choices:
                if demands and isinstance(choice, dict):
                    branches.append(self._plain(joined(demands, self._flat(choice)), depth + 1))
                elif choice is not False:
                    branches.append(self._schema(demands or choice, depth + 1))
            self._open.discard(id(choices))
        if not branches:
            self.left_out["anyOf"] = None
            return self._typed(node, depth)
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
        branches = []
        for kind in types:
            values = [demands["const"]] if "const" in demands else demands.get("enum")
            if not isinstance(values, list) or any(is_of(value, kind) for value in values):
                mine = {k: v for k, v in demands.items() if is_about(k, kind)}
                branches.append(self._of_type(kind, mine, depth))
        return {**notes, "anyOf": branches} if branches else self._of_type(types[0], notes, depth)

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
                case "properties":
                    typed[key] = self._properties(value, depth)
                case "required":
                    if kind == "object":
                        typed[key] = [name for name in strings(value) if name != "$ref"]
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
        return _with_required(typed)

    def _properties(self, named: Json, depth: int) -> Json:
        if "$ref" in named:
            self.left_out["property $ref"] = None
        return {
            name: self._schema(value, depth + 1) for name, value in named.items() if name != "$ref"
        }

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
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._names[pointer] = name
        self._taken.add(name)
        self._definitions.append((name, target))
        return name

    # The root

    def _branches(self, flat: Json, depth: int = 0) -> list[Json]:
        """The objects that the root may be, where it is one of several."""
        unions = [flat[name] for name in _UNIONS if isinstance(flat.get(name), list)]
        choices = unions[0] if unions else []
        found: list[Json] = []
        for choice in choices if depth < 3 else ():
            branch = self._flat(choice) if isinstance(choice, dict) else {}
            named = branch.get("properties")
            self._count(len(named) if isinstance(named, dict) else 0)
            if "object" in listed(branch.get("type", "object")):
                found += self._branches(branch, depth + 1) or [branch]
        return found


def _as_object(flat: Json, branches: list[Json]) -> Json:
    """The root: an object with the properties of all its branches, of which those are required
    that all of them require."""
    keywords = {key: value for key, value in flat.items() if key not in _UNIONS}
    root: Json = {"type": "object", **keywords} | {"type": "object"}
    if not branches:
        return root
    properties: dict[str, dict[bytes, Any]] = {}
    for holder in (flat, *branches):
        named = holder.get("properties")
        for name, value in named.items() if isinstance(named, dict) else ():
            properties.setdefault(name, {}).setdefault(dumps(value), value)
    root["properties"] = {
        name: {"anyOf": list(values.values())} if len(values) > 1 else next(iter(values.values()))
        for name, values in properties.items()
    }
    required = [strings(branch.get("required")) for branch in branches]
    always = frozenset(required[0]).intersection(*required[1:])
    names = [*strings(flat.get("required")), *(name for name in required[0] if name in always)]
    if names:
        root["required"] = [*dict.fromkeys(names)]
    return root


def _with_required(typed: Json) -> Json:
    """With every required name as a property."""
    known = typed.get("properties", {})
    missing = [name for name in typed.get("required", ()) if name not in known]
    if not missing:
        return typed
    others = typed.get("additionalProperties")
    value = others if isinstance(others, dict) else anything()
    return {**typed, "properties": {**known, **dict.fromkeys(missing, value)}}


def _make_endable(definitions: dict[str, Json]) -> None:
    """Loosen the definitions that lead back to themselves whatever is chosen."""
    ending: set[str] = set()
    for _ in range(_MAX_PASSES):
        more = [n for n, d in definitions.items() if n not in ending and _ends(d, ending)]
        if not more:
            break
        ending.update(more)
    for name in definitions.keys() - ending:
        definitions[name] = _loosened(definitions[name])


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


def _loosened(schema: Json) -> Json:
    dropped = {"object": "required", "array": "items"}.get(str(schema.get("type")))
    if dropped is None:
        kept = ("title", "description")
        return anything() | {key: value for key, value in schema.items() if key in kept}
    return {key: value for key, value in schema.items() if key != dropped}
