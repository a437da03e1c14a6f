"""The tags of formats that put tags around calls, and around each of their arguments."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .typed_arguments import TypedArguments
from .value_types import ValueType

TAG_LIMIT = 1200
"""Characters of one tag: four attributes with values of 200, and blanks around all; a longer
one is text."""


class TagKind(enum.Enum):
    """What a tag means."""

    SECTION = "section_begin"
    CALL = "call_begin"
    ARGUMENT = "argument_begin"
    JSON = "json_begin"
    SECTION_END = "section_end"
    CALL_END = "call_end"
    ARGUMENT_END = "argument_end"
    JSON_END = "json_end"
    OTHER = "other_begin"
    """Any other: it begins a text."""
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
    closing: re.Pattern[str]
    """The start of tags that end something."""
    read: Callable[[re.Match[str]], Tag]
    may_begin_in: Callable[[str], bool]
    """Whether a tag that ends a value may begin in a text; a quick look, False is certain."""
    plain: bool = False
    """Whether values may quote such tags: then one that begins something ends a value only if
    its name is declared."""
    pairs: bool = False
    """Whether an argument begins with more than one tag, which nobody quotes without the end."""
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


def plain_syntax(
    tag: str, begun: str, kinds: Mapping[str, TagKind], *, trim: bool = False
) -> TagSyntax:
    """The syntax of tags that values may quote.  `tag` is an expression of the opening of an
    argument with its `key`, and `begun` one of its starts, both without the ``<``; `kinds` are
    all other tags."""
    others = "|".join(map(re.escape, kinds))
    pattern = re.compile(f"<{tag}|(?P<other>{others})")
    beginning = re.compile(f"<(?:{so_far(tuple(other[1:] for other in kinds))}|{begun})")

    def read(match: re.Match[str]) -> Tag:
        if match["other"]:
            return Tag(kinds[match["other"]], match.start(), match.end())
        return Tag(TagKind.ARGUMENT, match.start(), match.end(), match["key"].strip())

    return TagSyntax(
        tag=pattern,
        so_far=beginning,
        in_value=pattern,
        in_value_so_far=beginning,
        closing=re.compile("</"),
        read=read,
        may_begin_in=lambda text: "<" in text,
        plain=True,
        pairs=not trim,
        trim=trim,
    )


def so_far(*parts: str | tuple[str, ...]) -> str:
    """An expression for the starts of what consists of these parts, up to the end of the text.
    A tuple lists words, of which one is there; a string is an expression for what has no
    start of its own, such as one character, or blanks."""
    rest = r"\Z"
    for part in reversed(parts):
        if isinstance(part, tuple):
            begun = {word[:size] for word in part for size in range(1, len(word))}
            beginnings = "|".join(map(re.escape, sorted(begun)))
            words = "|".join(map(re.escape, sorted(part, key=len, reverse=True)))
            rest = rf"(?:\Z|(?:{beginnings})\Z|(?:{words}){rest})"
        else:
            rest = rf"(?:\Z|{part}{rest})"
    return rest


def unfinished(beginning: re.Pattern[str], text: str) -> int:
    """How many characters at the end of `text` are the start of a tag."""
    found = beginning.search(text, max(0, len(text) - TAG_LIMIT))
    return len(text) - found.start() if found else 0
