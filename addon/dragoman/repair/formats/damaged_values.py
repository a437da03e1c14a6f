"""Whether a value of a call between tags holds what is left of a damaged tag."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..schema import properties, required
from .argument_values import Argument
from .marker_set import TAG_LIMIT
from .tags import LEVELS, OPENING, Tag, TagKind, TagTable
from .value_types import type_of

_HALF = 4
"""Characters of the end of a tag, at least."""
_NO_STRING = (*"0123456789]}", "true", "false", "null", "none")
"""How values end that are not strings."""
_MARKUP = re.compile(r"<[/\w][^<>|\n]*+>\Z")
"""What ends with a bracket and is no half of a tag."""


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

    @property
    def lacks_required(self) -> bool:
        """Whether a required argument is missing."""
        return not self.keys.issuperset(required(self.schema))

    def is_in(self, argument: Argument) -> bool:
        """Whether a value may hold what is left of a damaged tag, or more than one argument."""
        kind = argument.kind(self.schema, self.table)
        names = {name for name, _ in kind.members}
        made = self.table.nested and (not names or bool(names & {"array", "object"}))
        """Whether it may be made of elements."""
        damaged = self.mended or not self.closed
        if names and "string" not in names and not (made and argument.tags):
            odd = (damaged and not made) or not {"<", ">"}.isdisjoint(argument.text)
            return odd and kind.json_of(argument.text.rstrip()).startswith('"')
        unknown = argument.key not in properties(self.schema)
        if unknown and (self.mended or (damaged and not is_open(self.schema))):
            return True
        if damaged and self._ends_with_tag(argument, made=made):
            return True
        return not made and self._holds_tags(argument)

    def _holds_tags(self, argument: Argument) -> bool:
        """Whether a value may hold tags that are not quoted."""
        lone = [tag.kind for tag in lone_tags(argument.tags)]
        openers = [kind for kind in lone if kind in OPENING]
        if (self.mended and argument.tags) or 0 < len(openers) < len(lone):
            return True
        if (TagKind.CALL, TagKind.ARGUMENT) in itertools.pairwise(lone):
            return True
        if self.table.pairs and {TagKind.ARGUMENT, TagKind.VALUE} & set(openers):
            return True
        lacks = self.lacks_required or (self.table.pairs and is_open(self.schema))
        if lacks and (lone or self.table.mark in argument.text):
            return True
        return TagKind.ARGUMENT_END in lone and self._may_be_several(argument)

    def _ends_with_tag(self, argument: Argument, *, made: bool) -> bool:
        """Whether a value ends with a tag, or part of one."""
        text, table = argument.text.rstrip(), self.table
        closer = table.closer.format(argument.key)
        half = table.in_value.unfinished(text)
        if half >= _HALF or (half and not text[-half].isalpha()):
            return True
        markup = (argument.closed or self.closed) and _MARKUP.search(text)
        if text.endswith(">") and not markup:
            return True
        if text.endswith(tuple(closer[-size:] for size in range(_HALF, len(closer)))):
            return True
        last = text[-TAG_LIMIT:]
        return not made and any(each.end == len(last) for each in table.tags.tags_in(last))

    def _may_be_several(self, argument: Argument) -> bool:
        """Whether what follows a closing tag in a value may be that of another argument, of which
        the opening tag is lost, or part of it."""
        declared = properties(self.schema)
        absent = [type_of(declared[key], self.schema) for key in declared.keys() - self.keys]
        strings = (not each.members or "string" in dict(each.members) for each in absent)
        if is_open(self.schema) or any(strings):
            return True
        ends_so = argument.text.rstrip().lower().endswith(_NO_STRING)
        return bool(absent) and (self.table.pairs or ends_so)


def is_open(schema: object) -> bool:
    """Whether a call may have arguments that its tool does not declare."""
    more = isinstance(schema, dict) and schema.get("additionalProperties")
    return bool(more) or not properties(schema)


def is_unknown(key: str | None, schema: object) -> bool:
    """Whether the tool has no such argument."""
    return not is_open(schema) and key not in properties(schema)
