"""The tags of formats that put tags around calls, and around each of their arguments.

A `TagTable` is all that such a format declares: expressions for its tags, and what each means.
`held_calls` reads sections with it, and `tagged_call` the text of one call.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .marker_set import TAG_LIMIT, HeaderPattern, MarkerPattern
from .value_types import ValueType

BLANK_LIMIT = 4096
"""White space between tags; after more of it the section is over."""
_NOT_BLANK = re.compile(r"\S")


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


@dataclass(slots=True)
class Tag:
    """A tag found in a text, which nobody changes (`events` says why it is not frozen)."""

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

    @classmethod
    def of(
        cls,
        match: re.Match[str],
        kind: TagKind,
        name: str | None = None,
        value_type: ValueType | None = None,
        *,
        closes: object = False,
        mended: bool = False,
        whole: bool = True,
    ) -> Tag:
        """`closes`: whether it is the closing tag of this kind."""
        start, end = match.span()
        return cls(ENDS[kind] if closes else kind, start, end, name, value_type, mended, whole)


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
class TagTable:
    """How a format writes its tags."""

    tags: MarkerPattern
    """Where only tags may stand."""
    in_value: MarkerPattern
    """Those that may end a value, or may be quoted in it."""
    read: Callable[[re.Match[str]], Tag]
    in_text: MarkerPattern | None = None
    """Outside of calls, if not all are meant there."""
    header: HeaderPattern | None = None
    """What comes after the tag of a call that has no name: the `name`, up to what `follows` and
    shows that a call was meant.  In the start of one, `word` is the name so far."""
    several: bool = False
    """Whether a call may follow another without a section."""
    text_kinds: Mapping[str, Literal["reasoning", "content"]] = field(default_factory=dict)
    """The names of other tags after which a text is of this kind, up to the next one."""
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
    trim: bool = False
    """Whether a line end at each side of a value is formatting."""
    pairs: bool = False
    """Whether nobody quotes an argument's opening tags without the closing one."""
    typed: bool = False
    """Whether the type in an argument's tag counts more than the schema's."""
    nested: bool = False
    """Whether a value may be made of elements (`elements`), which have an argument's tags."""

    def tags_of(self, text: str) -> Iterator[Tag]:
        """The tags in a text that may end a value, or be quoted in it."""
        at = 0
        while match := self.in_value.find(text, at):
            yield self.read(match)
            at = match.end()

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
