"""The tags of formats that put tags around calls, and around each of their arguments.

A `TagSyntax` is what such a format declares: expressions for its tags, and what each means.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .marker_set import TAG_LIMIT, MarkerPattern, so_far
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
    """Of the tool or the argument, if the tag has it; of any other tag: its own."""
    type: ValueType | None = None
    """The argument's, if the tag has it."""

    @classmethod
    def of(
        cls,
        match: re.Match[str],
        kind: TagKind,
        name: str | None = None,
        value_type: ValueType | None = None,
        *,
        closes: object = False,
    ) -> Tag:
        """`closes`: whether it is the closing tag of this kind."""
        kind = TagKind[f"{kind.name}_END"] if closes else kind
        return cls(kind, match.start(), match.end(), name, value_type)


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

    tags: MarkerPattern
    """Where only tags may stand."""
    in_value: MarkerPattern
    """Those that may end a value."""
    read: Callable[[re.Match[str]], Tag]
    in_call: TagSyntax | None = None
    """In the arguments of a call, if not the same."""
    in_json: MarkerPattern | None = None
    """Those that may end arguments that are JSON, if not the same."""
    in_text: MarkerPattern | None = None
    """Outside of calls, if not all are meant there."""
    header: MarkerPattern | None = None
    """What comes after the tag of a call that has no name: the `name`, up to what `follows` and
    shows that a call was meant.  In the start of one, `word` is the name so far."""
    several: bool = False
    """Whether a call may follow another without a section."""
    text_kinds: Mapping[str, Literal["reasoning", "content"]] = field(default_factory=dict)
    """The names of other tags after which a text is of this kind, up to the next one."""
    closing: re.Pattern[str] = re.compile(r"\s*</")
    """The start of a closing tag."""
    plain: bool = False
    """Whether values may quote such tags: then an opening tag ends a value only if its name is
    declared."""
    pairs: bool = False
    """Whether an argument begins with several tags, which nobody quotes without the end."""
    trim: bool = False
    """Whether a line end at each side of a value is formatting."""
    arguments: Callable[[object], TypedArguments] = TypedArguments
    """Makes the arguments of a call, from the schema of its tool."""

    def following(self, text: str, at: int) -> tuple[Tag | Follows, int]:
        """What follows in a text after white space, and where."""
        found = _NOT_BLANK.search(text, at)
        begin = found.start() if found else len(text)
        if begin - at > BLANK_LIMIT:
            return Follows.GAP, begin
        if found is None:
            return Follows.BLANKS, begin
        if match := self.tags.match(text, begin):
            return self.read(match), begin
        rest = text[begin : begin + TAG_LIMIT + 1]
        half = len(rest) <= TAG_LIMIT and self.tags.begun.match(rest)
        return Follows.HALF_TAG if half else Follows.TEXT, begin


def plain_syntax(
    argument: str, begun: str, kinds: Mapping[str, TagKind], *, trim: bool = False
) -> TagSyntax:
    """The syntax of tags that values may quote.  `argument` is an expression for the opening of
    an argument with its `key`, and `begun` for the starts of that, both without the ``<``;
    `kinds` are all other tags."""
    others = "|".join(map(re.escape, kinds))
    starts = so_far(tuple(other[1:] for other in kinds))
    tags = MarkerPattern(f"<{argument}|(?P<other>{others})", f"<(?:{starts}|{begun})")

    def read(match: re.Match[str]) -> Tag:
        if match["other"]:
            return Tag.of(match, kinds[match["other"]])
        return Tag.of(match, TagKind.ARGUMENT, match["key"].strip())

    return TagSyntax(tags, tags, read, plain=True, pairs=not trim, trim=trim)
