"""The tags of formats that put tags around calls, and around each of their arguments.

A `TagTable` is all that such a format declares: how its tags are spelled, and what each means.
`held_calls` reads sections with it, and `call_text` the text of one call.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...wire.reply_bounds import MAX_BLANK
from .marker_set import TAG_LIMIT, HeaderPattern, MarkerPattern, Part, Run, so_far, spelled
from .protocol import TextKind
from .value_types import OTHER, STRING, ValueType

_NOT_BLANK = re.compile(r"\S")
_NO_ATTRIBUTE = re.compile(
    r"(?<![a-z])(?!(?:name|tool|key|type|string|index|id)\b)[a-z]++\s*+=\s*+[^\s\"']"
)
"""What no attribute of a tag is."""
_QUOTED_ATTRIBUTE = re.compile(r"""(?<![a-z])[a-z]++\s*+=\s*+(?:"[^"]*+"|'[^']*+')""")
_ATTRIBUTE = re.compile(r"""(?<![a-z])([a-z]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"']++))""")


class TagKind(enum.Enum):
    """What a tag means."""

    SECTION = "section_begin"
    CALL = "call_begin"
    ARGUMENT = "argument_begin"
    VALUE = "value_begin"
    """The second tag of an argument, where it stands without the first (GLM)."""
    JSON = "json_begin"
    OTHER = "other_begin"
    """Any other: it begins a text."""
    SECTION_END = "section_end"
    CALL_END = "call_end"
    ARGUMENT_END = "argument_end"
    KEY_END = "key_end"
    """The end of an argument's name, where the rest of its tags is missing (GLM)."""
    JSON_END = "json_end"
    OTHER_END = "other_end"
    """It ends a text, and means nothing after a section."""


PARTS = (TagKind.ARGUMENT, TagKind.VALUE, TagKind.JSON)
"""What begins within a call only."""


ENDS = {
    kind: TagKind[f"{kind.name}_END"]
    for kind in TagKind
    if f"{kind.name}_END" in TagKind.__members__
}
"""What closes each."""


ARGUMENT_LEVEL, CALL_LEVEL = 0, 1
OPENING = (TagKind.ARGUMENT, TagKind.VALUE, TagKind.CALL, TagKind.SECTION)
LEVELS = dict(zip(OPENING, (0, 0, 1, 2), strict=True))
LEVELS |= {ENDS[kind]: level for kind, level in LEVELS.items() if kind in ENDS}
"""Of the tags that may end a value, or be quoted in it."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag found in a text."""

    kind: TagKind
    start: int
    end: int
    name: str | None = None
    """Of the tool or the argument, if the tag has it; of any other tag: its own."""
    type: ValueType | None = None
    """The argument's, if the tag has it."""
    mended: bool = False
    """Whether part of it is missing: then it is a tag only if its name is declared."""
    whole: bool = True
    """Whether its end is there."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """A way in which tags are written: its parts, in one of which words may each mean a kind; a
    group in a later one is the tag's name, or its attributes."""

    parts: tuple[Part, ...]
    kind: TagKind = TagKind.OTHER
    """What it means if no word says it."""
    closes: bool = False
    """Whether these are closing tags."""
    typed_by: str | None = None
    """The attribute that says whether a value is a string, if there are attributes."""
    mended: bool = False
    whole: bool = True
    """See `Tag`."""

    @property
    def words(self) -> Mapping[str, TagKind]:
        return next((part for part in self.parts if isinstance(part, Mapping)), {})


def attributes(value: str, half: str, least: int) -> Run:
    """One to four attributes, or none if that is the `least`; their values are `value`, which
    begin as `half`."""
    key, sign = r"[a-z]{1,20}+", r"\s{0,9}+=\s{0,9}+"
    one = rf"\s{{1,9}}+{key}{sign}"
    last = rf"{one}{half}|\s*+(?:{key}\s*+(?:=\s*+)?+)?+"
    return Run(f"((?:{one}{value}){{{least},4}}+)", f"(?:{one}{value}){{0,4}}+(?:{last})")


class TagPattern(MarkerPattern):
    """Finds the tags that are spelled so, of two at one place that of the first."""

    def __init__(self, *spellings: Spelling, first: str = "<") -> None:
        """`first` is the character with which most of them begin."""
        self.spellings = spellings
        firsts = (word for each in spellings for word in each.parts[0] if word[0] != first)
        super().__init__(
            "|".join(f"{spelled(*each.parts)}()" for each in spellings),
            "|".join(so_far(*each.parts, empty=False, whole=False) for each in spellings),
            first=first,
            halves=tuple(word[:size] for word in firsts for size in range(1, len(word) + 1)),
        )

    @cached_property
    def _by_group(self) -> dict[int, tuple[Spelling, Mapping[str, TagKind], int]]:
        """Each spelling by the group after all of it, with its words and the first group in it."""
        by_group, end = {}, 0
        for each in self.spellings:
            begin, end = end + 1, end + 1 + re.compile(spelled(*each.parts)).groups
            by_group[end] = each, each.words, begin
        return by_group

    def compile(self) -> None:
        super().compile()
        _ = self._by_group

    def read(self, match: re.Match[str], offset: int = 0) -> Tag:
        """The tag that was found in a text, which begins at the `offset`."""
        end = match.lastindex or 0
        spelling, words, begin = self._by_group[end]
        kind = words[match[begin]] if words else spelling.kind
        name_group = begin + bool(words)
        name = (match[name_group] or "").strip() if name_group < end else None
        value_type, mended = None, spelling.mended
        if kind is TagKind.OTHER and words:
            name = f"{match[begin]}_{'end' if spelling.closes else 'begin'}"
        elif spelling.typed_by is not None:
            found = dict(_attributes(name or ""))
            odd = kind is TagKind.ARGUMENT and _continues(name or "", found)
            found = {} if odd else found
            name = found.get("name") or found.get("tool") or found.get("key") or ""
            mended = mended or odd
            if (written := found.get(spelling.typed_by)) is not None:
                value_type = STRING if written.lower() in ("string", "true") else OTHER
        kind = ENDS[kind] if spelling.closes else kind
        start, end = match.start() + offset, match.end() + offset
        return Tag(kind, start, end, name, value_type, mended, spelling.whole)

    def tag_at(self, text: str, at: int) -> Tag | None:
        """The tag at a position."""
        return self.read(match) if (match := self.match(text, at)) else None

    def tags_in(self, text: str, offset: int = 0) -> Iterator[Tag]:
        """All tags in a text, which begins at the `offset`."""
        at = 0
        while match := self.find(text, at):
            yield self.read(match, offset)
            at = match.end()


def _continues(written: str, found: Mapping[str, str]) -> bool:
    """Whether these attributes of an argument's tag continue in its value, as the tag's end is
    lost: ``name="k"x = y >``, or a ``string`` that is neither true nor false: ``string=code>``."""
    if found.get("string", "true").lower() not in ("true", "false"):
        return True
    return _NO_ATTRIBUTE.search(_QUOTED_ATTRIBUTE.sub("", written)) is not None


def _attributes(written: str) -> Iterator[tuple[str, str]]:
    for key, *values in _ATTRIBUTE.findall(written):
        yield key, "".join(values).replace("&quot;", '"').replace("&amp;", "&")


class Follows(enum.Enum):
    """What follows in a text if it is not a tag."""

    BLANKS = enum.auto()
    """White space up to the end."""
    GAP = enum.auto()
    """White space beyond `MAX_BLANK`."""
    HALF_TAG = enum.auto()
    """What may be the start of a tag."""
    TEXT = enum.auto()


@dataclass(frozen=True, slots=True)
class TagTable:
    """How a format writes its tags."""

    tags: TagPattern
    """Where only tags may stand."""
    in_value: TagPattern
    """Those that may end a value, or may be quoted in it."""
    in_text: TagPattern | None = None
    """Outside of calls, if not all are meant there."""
    header: HeaderPattern | None = None
    """What comes after the tag of a call that has no name: the `name`, up to what `follows` and
    shows that a call was meant; in the start of one, the name so far."""
    several: bool = False
    """Whether a call may follow another without a section."""
    channels: Mapping[str, TextKind] = field(default_factory=dict)
    """The kind of the text after other tags, by their names, up to the next one."""
    closing: re.Pattern[str] = re.compile(r"\s*</")
    """The start of a closing tag."""
    strays: bool = False
    """Whether any of these tags is a stray marker outside of calls, not only those that begin or
    end a section or a call: nobody writes them by chance."""
    key_begin: str = ""
    key_end: str = ""
    """What stands around an argument's name, if that has tags of its own."""
    closer: str = ""
    """An argument's closing tag, with ``{}`` for its name."""
    mark: str = ""
    """What all tags of arguments hold, if nobody quotes the opening ones without the closing."""
    trim: bool = False
    """Whether a line end at each side of a value is formatting."""
    may_lack_end: bool = False
    """Whether hosts leave out all closing tags at the end of a turn."""
    cdata: bool = False
    """Whether a value may be ``<![CDATA[…]]>``."""
    typed: bool = False
    """Whether the type in an argument's tag counts more than the schema's."""
    nested: bool = False
    """Whether a value may be made of elements (`elements`), which have an argument's tags."""

    def following(self, text: str, at: int) -> tuple[Tag | Follows, int]:
        """What follows in a text after white space, and where."""
        found = _NOT_BLANK.search(text, at)
        begin = found.start() if found else len(text)
        if begin - at > MAX_BLANK:
            return Follows.GAP, begin
        if found is None:
            return Follows.BLANKS, begin
        if (tag := self.tags.tag_at(text, begin)) is not None:
            return tag, begin
        rest = text[begin : begin + TAG_LIMIT + 1]
        half = len(rest) <= TAG_LIMIT and self.tags.begun.match(rest)
        return Follows.HALF_TAG if half else Follows.TEXT, begin
