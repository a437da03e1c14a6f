"""The tags of formats that put tags around calls, and around each of their arguments.

A `TagSyntax` is what such a format declares: expressions for its tags, and what each means.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .marker_set import TAG_LIMIT, so_far, unfinished
from .typed_arguments import TypedArguments
from .value_types import ValueType

BLANK_LIMIT = 4096
"""White space between tags; after more of it the section is over."""
_NOT_BLANK = re.compile(r"\S")


class TagKind(enum.Enum):
    """What a tag means."""

    SECTION = "section_begin"
    CALL = "call_begin"
    ARGUMENT = "argument_begin"
    JSON = "json_begin"
    OTHER = "other_begin"
    """Any other: it begins a text."""
    SECTION_END = "section_end"
    CALL_END = "call_end"
    ARGUMENT_END = "argument_end"
    JSON_END = "json_end"
    OTHER_END = "other_end"
    """It ends a text, and means nothing after a section."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag found in a text."""

    kind: TagKind
    start: int
    end: int
    name: str | None = None
    """That of the tool or the argument, if the tag has it."""
    type: ValueType | None = None
    """The argument's, if the tag has it."""

    @classmethod
    def of(
        cls,
        match: re.Match[str],
        kind: TagKind,
        name: str | None = None,
        type: ValueType | None = None,  # noqa: A002
        *,
        closes: object = False,
    ) -> Tag:
        """`closes`: whether it is the closing tag of this kind."""
        kind = TagKind[f"{kind.name}_END"] if closes else kind
        return cls(kind, match.start(), match.end(), name, type)


class Follows(enum.Enum):
    """What follows in a text if it is not a tag."""

    BLANKS = enum.auto()
    """White space up to the end."""
    GAP = enum.auto()
    """White space beyond `BLANK_LIMIT`."""
    HALF_TAG = enum.auto()
    """What may be the start of a tag."""
    TEXT = enum.auto()


@dataclass(frozen=True, slots=True)
class TagSyntax:
    """How a format writes its tags."""

    tag: re.Pattern[str]
    """A tag, where one may stand."""
    so_far: re.Pattern[str]
    """The start of one, up to the end of the text."""
    in_value: re.Pattern[str]
    """A tag that may end a value."""
    in_value_so_far: re.Pattern[str]
    read: Callable[[re.Match[str]], Tag]
    closing: re.Pattern[str] = re.compile(r"\s*</")
    """The start of a closing tag."""
    may_begin_in: Callable[[str], bool] = lambda text: "<" in text
    """Whether a tag that ends a value may begin in a text; a quick look, False is certain."""
    plain: bool = False
    """Whether values may quote such tags: then an opening tag ends a value only if its name is
    declared."""
    pairs: bool = False
    """Whether an argument begins with several tags, which nobody quotes without the end."""
    trim: bool = False
    """Whether a line end at each side of a value is formatting."""
    arguments: Callable[[object], TypedArguments] = TypedArguments
    """Makes those of a call whose tool has this schema."""

    @property
    def find(self) -> Callable[[str, int], re.Match[str] | None]:
        """See `Markers`."""
        return self.in_value.search

    def unfinished(self, text: str) -> int:
        """See `Markers`."""
        return unfinished(self.in_value_so_far, text)

    def following(self, text: str, at: int) -> tuple[Tag | Follows, int]:
        """What follows in a text after white space, and where."""
        found = _NOT_BLANK.search(text, at)
        begin = found.start() if found else len(text)
        if begin - at > BLANK_LIMIT:
            return Follows.GAP, begin
        if found is None:
            return Follows.BLANKS, begin
        if match := self.tag.match(text, begin):
            return self.read(match), begin
        rest = text[begin : begin + TAG_LIMIT + 1]
        half = len(rest) <= TAG_LIMIT and self.so_far.match(rest)
        return Follows.HALF_TAG if half else Follows.TEXT, begin


def plain_syntax(
    argument: str, begun: str, kinds: Mapping[str, TagKind], *, trim: bool = False
) -> TagSyntax:
    """The syntax of tags that values may quote.  `argument` is an expression for the opening of
    an argument with its `key`, and `begun` for the starts of that, both without the ``<``;
    `kinds` are all other tags."""
    others = "|".join(map(re.escape, kinds))
    tag = re.compile(f"<{argument}|(?P<other>{others})")
    beginning = re.compile(f"<(?:{so_far(tuple(other[1:] for other in kinds))}|{begun})")

    def read(match: re.Match[str]) -> Tag:
        if match["other"]:
            return Tag.of(match, kinds[match["other"]])
        return Tag.of(match, TagKind.ARGUMENT, match["key"].strip())

    return TagSyntax(tag, beginning, tag, beginning, read, plain=True, pairs=not trim, trim=trim)
