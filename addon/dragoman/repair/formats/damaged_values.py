"""Whether a value of a call between tags holds what is left of a damaged tag."""

from __future__ import annotations

import re

from ...wire.json_codec import NotJson, loads
from ...wire.json_schema import is_of
from ..schema import properties
from .argument_values import Argument
from .marker_set import TAG_LIMIT
from .tags import Tag, TagKind, TagTable
from .value_types import ValueType, property_of, type_of

_HALF, _FEW = 4, 2
"""Characters of half a tag, at least: beside other text, and where nothing else is meant."""
_MAX_QUOTED = 64
"""Quoted ends after which one looks: a value that has more is about them."""
_WORD = re.compile(r"[\w.-]+")
_END_OF_TAG = re.compile(r"[^\s>]{0,100}+>")
_LONE_BRACKET = re.compile(r"(?:^|>)[^<>]*+>\Z")


def lost_its_end(argument: Argument, tag: Tag, schema: object, table: TagTable) -> bool:
    """Whether part of its closing tag is left at the end of a value that ends with another,
    or it is none of its type, or may continue after that tag."""
    text = argument.text.rstrip()
    closer = table.closer.format(argument.key)
    halves = {closer[-size:] for size in range(_HALF, len(closer))}
    halves |= {closer[:size] for size in range(_FEW, len(closer))}
    if text.endswith(tuple(halves)) or _LONE_BRACKET.search(text):
        return True
    if table.in_value.unfinished(text) >= _HALF:
        return True
    last = text[-TAG_LIMIT:]
    if not table.nested and any(each.end == len(last) for each in table.tags.tags_in(last)):
        return True
    if tag.kind is TagKind.ARGUMENT and _is_unknown(tag.name, schema):
        return True
    kind = argument.kind(schema, table)
    names = {name for name, _ in kind.members}
    if not names or "string" in names or (table.nested and names & {"array", "object"}):
        return False
    return kind.json_of(text).startswith('"')


def is_cut(argument: Argument, keys: set[str | None], schema: object, table: TagTable) -> bool:
    """Whether what follows a quoted end in a value may be an argument that has lost its
    opening tag, or half of it."""
    kind = type_of(property_of(schema, argument.key or ""), schema)
    if kind.members and not any(name == "string" for name, _ in kind.members):
        return True
    others = [key for key in properties(schema) if key not in keys]
    kinds = [type_of(property_of(schema, key), schema) for key in others]
    parts = [part.text.strip() for part in argument.parts()]
    begun = table.in_value.begun
    for text in parts[1 : 1 + _MAX_QUOTED]:
        tag = next(table.tags.tags_in(text[:TAG_LIMIT]), None)
        if tag is not None and tag.name in others:
            return True
        if begun.match(text[: _HALF + 1]) and not text.startswith("</"):
            return True
        half, end, _ = text[:100].partition(">")
        word = _WORD.match(half) if end else None
        if any(key in half or (word and key.endswith(word[0])) for key in others if end):
            return True
        starts = [size for size in range(_FEW, _HALF + 1) if begun.fullmatch(text[:size])]
        ends = [found.end() for found in (_END_OF_TAG.match(text),) if found]
        bare = len(parts) == 2 and "<" not in parts[0]
        for rest in (text[size:].strip() for size in (0, *starts, *ends)):
            if any(_is_value_of(each, rest, bare=bare and "<" not in rest) for each in kinds):
                return True
    return False


def _is_value_of(kind: ValueType, text: str, *, bare: bool) -> bool:
    """Whether a text may be a value of this type: a string if it is `bare`."""
    if bare and kind.is_string:
        return True
    try:
        value = loads(text)
    except NotJson:
        return False
    return any(name != "string" and is_of(value, name) for name, _ in kind.members)


def _is_unknown(key: str | None, schema: object) -> bool:
    """Whether the tool has no such argument."""
    declared = properties(schema)
    open_ended = isinstance(schema, dict) and schema.get("additionalProperties")
    return bool(declared) and key not in declared and not open_ended
