"""The tags of formats that write a call as a section, a call and its arguments.

A format gives the expressions; `TaggedCalls` reads what stands between the tags.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
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
    """None of those: it begins a text."""
    OTHER_END = "other_end"
    """It ends one, and means nothing after a section."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag that stands in a text."""

    kind: TagKind
    start: int
    end: int
    name: str = ""
    """The tool's or the argument's."""
    type: ValueType | None = None
    """That of the argument, if the format gives it."""


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
    """What tags that end something begin with."""
    read: Callable[[re.Match[str]], Tag]
    may_begin_in: Callable[[str], bool]
    """Whether a tag that ends a value may begin in a text; a quick look."""
    plain: bool = False
    """Whether the tags are what a text may hold: then one that begins something ends a value
    only if it names what is declared."""
    arguments: Callable[[object], TypedArguments] = TypedArguments
    """Makes those of a call whose tool has this schema."""


def so_far(*parts: str | tuple[str, ...]) -> str:
    """An expression of the beginnings of what consists of these parts, up to the end of the
    text.  A tuple are the words of which one stands there; a string is an expression of what
    has no beginning of its own, such as one character, or blanks."""
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
    """How many characters at the end of `text` are the beginning of a tag."""
    found = beginning.search(text, max(0, len(text) - TAG_LIMIT))
    return len(text) - found.start() if found else 0
