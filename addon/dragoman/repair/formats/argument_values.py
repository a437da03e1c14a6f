"""The arguments of a call that a format writes one by one, as text: one JSON object of them, and
whether one of them holds what is left of a damaged tag.

An object that is the only argument, and named ``arguments`` or ``input`` though its tool has no
argument of that name, holds the arguments: DeepSeek writes them so now and then (and vLLM reads
them).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...wire.json_codec import loads
from ..schema import is_open, properties, required
from .elements import element_of, elements_json
from .marker_set import TAG_LIMIT
from .tags import ARGUMENT_LEVEL, LEVELS, OPENING, Tag, TagKind, TagTable
from .value_types import ValueType, json_string, property_of, read_json, type_of

_WRAPPERS = ("arguments", "input")
_HALF = 4
"""Characters of the end of a tag, at least."""
_NO_STRING = (*"0123456789]}", "true", "false", "null", "none")
"""How values end that are not strings."""
_MARKUP = re.compile(r"<[/\w][^<>|\n]*+>\Z")
"""What ends with a bracket and is no half of a tag."""

_CDATA = re.compile(r"\s*+<!\[CDATA\[(.*)\]\]>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as it was written."""

    key: str | None
    """None if its opening tag is missing."""
    text: str
    type: ValueType | None
    """If its tag has one."""
    closed: bool
    """Whether it has its own closing tag."""
    opened: bool = True
    """Whether it has its opening tags, too."""
    start: int = 0
    """Where the text begins in that of the call."""
    tags: tuple[Tag, ...] = ()
    """Those that the text holds, where they are in that of the call."""

    def kind(self, schema: object, table: TagTable) -> ValueType:
        """Its type, by its tag or the tool's schema."""
        declared = type_of(property_of(schema, self.key or ""), schema)
        return self.type if self.type and (table.typed or not declared.members) else declared


def lone_tags(tags: Iterable[Tag]) -> list[Tag]:
    """Of the tags that a value holds those that are no pair."""
    lone: list[Tag] = []
    opened: tuple[list[Tag], ...] = ([], [], [])
    for tag in tags:
        level = LEVELS.get(tag.kind)
        if level is None:
            continue
        if tag.kind in OPENING:
            opened[level].append(tag)
        elif opened[level]:
            opened[level].pop()
            for within in opened[:level]:
                lone += within
                within.clear()
        else:
            lone.append(tag)
    return sorted([*lone, *itertools.chain(*opened)], key=lambda tag: tag.start)


@dataclass(frozen=True, slots=True)
class Damage:
    """What is known of the damage of a call."""

    schema: object
    table: TagTable
    keys: set[str | None]
    """Of the arguments that the call has."""
    mended: bool
    """Whether a tag of an argument is missing, or part of one."""
    closed: bool
    """Whether the call has its closing tag."""

    def is_in(self, argument: Argument) -> bool:
        """Whether a value may hold what is left of a damaged tag, or more than one argument.

        A value may quote tags in pairs.  A lone one is quoted, too, where nothing is missing: no
        tag of the call, and no argument that what follows it may be.
        """
        whole = self.closed and not self.mended
        if whole and "<" not in argument.text and ">" not in argument.text:
            return False
        kind = argument.kind(self.schema, self.table)
        names = {name for name, _ in kind.members}
        made = self.table.nested and (not names or bool(names & {"array", "object"}))
        """Whether it may be made of elements."""
        unknown = argument.key not in properties(self.schema)
        if unknown and (self.mended or not (whole or is_open(self.schema))):
            return True
        if names and "string" not in names and not (made and argument.tags):
            odd = not (whole or made) or "<" in argument.text or ">" in argument.text
            return odd and kind.json_of(argument.text.rstrip()).startswith('"')
        if not whole and self._ends_with_tag(argument, made=made):
            return True
        return not made and self._holds_tags(argument)

    def _ends_with_tag(self, argument: Argument, *, made: bool) -> bool:
        """Whether a value ends with a tag, or part of one."""
        text, table = argument.text.rstrip(), self.table
        half = table.in_value.unfinished(text)
        if half >= _HALF or (half and not text[-half].isalpha()):
            return True
        markup = (argument.closed or self.closed) and _MARKUP.search(text)
        if text.endswith(table.closer.format(argument.key)[-_HALF:] if markup else ">"):
            return True
        last = text[-TAG_LIMIT:]
        return not made and any(each.end == len(last) for each in table.tags.tags_in(last))

    def _holds_tags(self, argument: Argument) -> bool:
        """Whether a value may hold tags that are not quoted."""
        lone = lone_tags(argument.tags)
        kinds = [tag.kind for tag in lone]
        openers = [tag for tag in lone if tag.kind in OPENING]
        if (self.mended and argument.tags) or 0 < len(openers) < len(lone):
            return True
        if (TagKind.CALL, TagKind.ARGUMENT) in itertools.pairwise(kinds):
            return True
        begin = argument.start + len(argument.text) - len(argument.text.lstrip())
        for tag in openers:
            other = self.table.trim and tag.start > begin and tag.name not in self.keys
            if LEVELS[tag.kind] == ARGUMENT_LEVEL and (self.table.mark or other):
                return True
        if not self.keys.issuperset(required(self.schema)):
            return bool(argument.tags)
        if self.table.mark and is_open(self.schema):
            return bool(lone) or self.table.mark in argument.text
        return TagKind.ARGUMENT_END in kinds and self._may_be_several(argument)

    def _may_be_several(self, argument: Argument) -> bool:
        """Whether what follows a closing tag in a value may be that of another argument, of which
        the opening tag is lost, or part of it."""
        declared = properties(self.schema)
        absent = [type_of(declared[key], self.schema) for key in declared.keys() - self.keys]
        strings = (not each.members or "string" in dict(each.members) for each in absent)
        ends_so = argument.text.rstrip().lower().endswith(_NO_STRING)
        return is_open(self.schema) or any(strings) or bool(absent and (self.table.mark or ends_so))


def object_json(text: str) -> str | None:
    """The same text, with the control characters in its strings escaped, if it is a JSON object."""
    found = read_json(text.strip())
    return found[1] if found is not None and isinstance(found[0], dict) else None


def arguments_json(
    arguments: list[Argument], schema: object, table: TagTable
) -> tuple[str | None, bool]:
    """One JSON object of these arguments, and whether one of them came twice: the first counts.
    None if one cannot be read."""
    by_key: dict[str, list[Argument]] = {}
    for each in arguments:
        by_key.setdefault(each.key or "", []).append(each)
    twice = False
    members: dict[str, str] = {}
    for key, same in by_key.items():
        declared = property_of(schema, key)
        kind = same[0].kind(schema, table)
        elements = [element_of(_text(each, table), table) for each in same] if table.nested else []
        whole = [each for each in elements if each is not None]
        if whole and len(whole) == len(elements) and not (kind.is_string and not kind.takes_null):
            members[key] = elements_json(whole, declared, schema)
        elif elements and not kind.is_string:
            return None, False
        else:
            twice = twice or len(same) > 1
            members[key] = kind.json_of(_text(same[0], table))
    if members.keys() <= set(_WRAPPERS) and len(members) == 1:
        (key,) = members
        inner = object_json(_text(by_key[key][0], table))
        if _lacks(schema, key) and inner and not any(_lacks(schema, k) for k in loads(inner)):
            return inner, twice
    return "{" + ",".join(f"{json_string(k)}:{v}" for k, v in members.items()) + "}", twice


def _lacks(schema: object, key: str) -> bool:
    """Whether the tool declares arguments, but none of this name."""
    declared = properties(schema)
    return bool(declared) and key not in declared


def _text(argument: Argument, table: TagTable) -> str:
    """The value without the line ends that are formatting: those beside its own tags, and those
    that stood on the other side of a tag that is missing."""
    text = argument.text
    if table.cdata and (cdata := _CDATA.fullmatch(text)):
        return cdata[1]
    for _ in range(table.trim + (not argument.opened)):
        text = text.removeprefix("\r\n" if text[:1] == "\r" else "\n")
    for _ in range(table.trim + (not argument.closed)):
        text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    return text
