"""The arguments of a call that a format writes one by one, as text: one JSON object of them, and
whether one of them holds what is left of a damaged tag.

An object that is the only argument, and named ``arguments`` or ``input`` though its tool has no
argument of that name, holds the arguments: DeepSeek writes them so now and then (and vLLM reads
them).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...wire.json_codec import loads
from ..schema import is_open, properties, required
from .damaged_boundary import Boundary
from .elements import element_of, elements_json
from .marker_set import TAG_LIMIT
from .tags import ARGUMENT_LEVEL, LEVELS, OPENING, Tag, TagKind, TagTable
from .value_types import ValueType, json_string, property_of, read_json, type_of

_WRAPPERS = ("arguments", "input")
_HALF = 4
"""Characters of the end of a tag, at least."""
_NO_STRING = (*"0123456789]}", "true", "false", "null", "none")
"""How values end that are not strings."""
_LAST_END = re.compile(r"</\s{0,4}+(?P<name>[\w.:-]{0,64}+)(?:[^<>\n]{0,32}+>|\Z)\Z")
"""A closing tag of any name, or its beginning, with which a text ends."""
_BEFORE_QUOTED, _AFTER_QUOTED = "\"'`([ \t", "\"'`)],.;:!? \t"
_OPENERS = re.compile(r"<([\w.:-]++)")
_ANGLE = re.compile("[<>]")
_IN_NO_NAME = re.compile(r"[\s=]")
"""What no name has that nobody declared."""
_BARE_NAME = re.compile(r"\sname\s*+=\s*+[^\s\"']")
"""A name without quotation marks, which may be the beginning of a value: ``name=code>``."""
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
    half_closed: bool = False
    """Whether that tag has lost its beginning."""
    opened: bool = True
    """Whether it has its opening tags, too."""
    opener: str = ""
    """These as they were written."""
    start: int = 0
    """Where the text begins in that of the call."""
    tags: tuple[Tag, ...] = ()
    """Those that the text holds, where they are in that of the call."""

    @property
    def has_odd_name(self) -> bool:
        """Whether its name, if no tool declares it, may be part of its value."""
        return bool(_IN_NO_NAME.search(self.key or "") or _BARE_NAME.search(self.opener))

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


def closed_by_name(text: str, key: str) -> int | None:
    """Where the closing tag is with which a value ends, if it is the argument's own name
    (``<parameter name="content">…</content>``) and the value has not opened it."""
    found = _LAST_END.search(text.rstrip()[-TAG_LIMIT:])
    if found is None or found["name"] != key or f"<{key}" in text:
        return None
    return len(text.rstrip()) - len(found[0])


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
    thinned: bool
    """Whether more than one marker is missing, as where a host loses them."""

    @property
    def whole(self) -> bool:
        """Whether no tag is missing.  Then a value may quote any."""
        return self.closed and not self.mended

    def found_in(self, argument: Argument) -> str:
        """The name of the first rule by which a value may hold what is left of a damaged tag, or
        more than one argument; empty if it does not."""
        if self.whole and not (_ANGLE.search(argument.text) or argument.has_odd_name):
            return ""
        return next((name for name, _, holds in RULES if holds(self, argument)), "")

    def _types(self, argument: Argument) -> set[str]:
        return {name for name, _ in argument.kind(self.schema, self.table).members}

    def _made(self, argument: Argument) -> bool:
        """Whether a value may be made of elements."""
        names = self._types(argument)
        return self.table.nested and (not names or bool(names & {"array", "object"}))

    def _is_text(self, argument: Argument) -> bool:
        """Whether a value is one in which anything may stand."""
        names = self._types(argument)
        made = self._made(argument)
        return not names or "string" in names or (made and bool(argument.tags))

    # The rules

    def ends_with_half_a_tag(self, argument: Argument) -> bool:
        """A value whose closing tag has lost its beginning, and nothing else is missing: then the
        end of the value may be lost with it, and the tag be longer: ``ls -largument<|sep|>``."""
        return argument.half_closed and not self.thinned

    def ends_with_a_foreign_end(self, argument: Argument) -> bool:
        found = None if argument.closed else _LAST_END.search(argument.text.rstrip()[-TAG_LIMIT:])
        if found is None:
            return False
        name = found["name"]
        return not (name and name in _OPENERS.findall(argument.text))

    def is_unknown(self, argument: Argument) -> bool:
        """An argument that the tool does not declare, or half a tag with the value after it."""
        unknown = argument.key not in properties(self.schema)
        odd = self.mended or argument.has_odd_name
        return unknown and (odd or not (self.whole or is_open(self.schema)))

    def has_another_type(self, argument: Argument) -> bool:
        if self._is_text(argument):
            return False
        odd = not (self.whole or self._made(argument))
        odd = odd or "<" in argument.text or ">" in argument.text
        kind = argument.kind(self.schema, self.table)
        return odd and kind.json_of(argument.text.rstrip()).startswith('"')

    def ends_with_a_tag(self, argument: Argument) -> bool:
        """A value ends with a tag, or part of one, in a call of which one is missing."""
        if self.whole or not self._is_text(argument):
            return False
        text, table = argument.text.rstrip(), self.table
        half = table.in_value.unfinished(text)
        if half >= _HALF or (half and not text[-half].isalpha()):
            return True
        markup = (argument.closed or self.closed) and _MARKUP.search(text)
        if text.endswith(table.closer.format(argument.key)[-_HALF:] if markup else ">"):
            return True
        last = text[-TAG_LIMIT:]
        ends = any(each.end == len(last) for each in table.tags.tags_in(last))
        return ends and not self._made(argument)

    def holds_tags(self, argument: Argument) -> bool:
        """A value holds tags that may be those of another argument."""
        if self._made(argument) or not self._is_text(argument):
            return False
        lone = lone_tags(argument.tags)
        kinds = [tag.kind for tag in lone]
        openers = [tag for tag in lone if tag.kind in OPENING]
        if (self.mended and argument.tags) or 0 < len(openers) < len(lone):
            return True
        if (TagKind.CALL, TagKind.ARGUMENT) in itertools.pairwise(kinds):
            return True
        if any(self._may_open(tag, argument) for tag in openers):
            return True
        if not self.keys.issuperset(required(self.schema)):
            return bool(argument.tags)
        if self.table.mark and is_open(self.schema):
            return bool(lone) or self.table.mark in argument.text
        ends = [tag for tag in lone if tag.kind is TagKind.ARGUMENT_END]
        quoted = all(_is_quoted(tag, argument) for tag in ends)
        return bool(ends) and not quoted and self._may_be_several(argument)

    def holds_a_boundary(self, argument: Argument) -> bool:
        """A value holds what is left of two tags, and then what may be the value of an argument
        that the call lacks."""
        key, opener, text = argument.key, argument.opener, argument.text
        if self.table.nested or not (key and key in opener and self._is_text(argument)):
            return False
        declared = properties(self.schema)
        absent = None if is_open(self.schema) else declared.keys() - self.keys
        if absent is not None and not absent:
            return False
        boundary = Boundary.after(self.table.closer.format(key), opener, key, absent)
        if any(True for _ in boundary.values_after(text)):
            return True
        lacks = not self.keys.issuperset(required(self.schema))
        return lacks and any(True for _ in boundary.values_after(text, absent=True))

    def _may_open(self, tag: Tag, argument: Argument) -> bool:
        """Whether an opening tag in a value may be that of another argument."""
        if LEVELS[tag.kind] != ARGUMENT_LEVEL:
            return False
        begin = argument.start + len(argument.text) - len(argument.text.lstrip())
        known = is_open(self.schema) or not self.whole or tag.name in properties(self.schema)
        known = known or _has_its_line(tag, argument)  # as where models write it
        other = self.table.trim and tag.start > begin and tag.name not in self.keys
        return bool(self.table.mark) or (other and known)

    def _may_be_several(self, argument: Argument) -> bool:
        """Whether what follows a closing tag in a value may be that of another argument, of which
        the opening tag is lost, or part of it."""
        declared = properties(self.schema)
        absent = [type_of(declared[key], self.schema) for key in declared.keys() - self.keys]
        strings = (not each.members or "string" in dict(each.members) for each in absent)
        ends_so = argument.text.rstrip().lower().endswith(_NO_STRING)
        return is_open(self.schema) or any(strings) or bool(absent and (self.table.mark or ends_so))


def _has_its_line(tag: Tag, argument: Argument) -> bool:
    """Whether a line of the value is this tag alone."""
    begin, end = tag.start - argument.start, tag.end - argument.start
    return argument.text[:begin].endswith("\n") and argument.text[end:].startswith("\n")


def _is_quoted(tag: Tag, argument: Argument) -> bool:
    """Whether a tag stands in the words of a line: ``the closer is `</parameter>`, as …``."""
    begin, end = tag.start - argument.start, tag.end - argument.start
    before, after = argument.text[begin - 1 : begin], argument.text[end : end + 1]
    return bool(before and after) and before in _BEFORE_QUOTED and after in _AFTER_QUOTED


RULES: tuple[tuple[str, str, Callable[[Damage, Argument], bool]], ...] = (
    ("a value ends with half its tag", "ls -largument<|sep|>", Damage.ends_with_half_a_tag),
    ("a value ends with another closing tag", "ls</param>", Damage.ends_with_a_foreign_end),
    ("an argument that is not declared", "<parameter=comand>ls", Damage.is_unknown),
    ("a value of another type", "5</param>", Damage.has_another_type),
    ("a value ends with part of a tag", "ls</par", Damage.ends_with_a_tag),
    ("a value holds tags", "ls</parameter>\n5", Damage.holds_tags),
    ("a value holds two halves of tags", 'ls</paramout">5', Damage.holds_a_boundary),
)
"""The rules by which a call is damaged: a name for the log, an example, and the rule."""


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
            if len(whole) == 1 and _is_half_json(whole[0].text, kind):
                return None, False
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


def _is_half_json(text: str, kind: ValueType) -> bool:
    """Whether the text of a list or an object is JSON with part of a tag, or without its end."""
    names = {name for name, _ in kind.members}
    made = bool(names) and names <= {"array", "object", "null"}
    return made and text.lstrip()[:1] in ("[", "{") and read_json(text.strip()) is None


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
