"""Markers in a text: fixed texts (`marker_set`), or what an expression describes.

As a text may end in half a marker, another expression describes the starts of markers: of one
description `spelled` makes the one, and `so_far` the other.

To compile the expressions of all formats takes most of a second.  So each is compiled when it is
asked for first: by a reader of one recorded reply only those that it needs, and by the proxy all
of them, at its start (`compile_all`), so that no reply waits.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, NamedTuple

HEADER_LIMIT = 256
"""Characters of a header, with the markers and the white space in it: so many after a marker show
that a call begins, in which format, or that a line of text names it."""
BLANKS = r"\s{0,64}+"
"""White space between a marker in a text and what shows that it is one."""
TAG_LIMIT = 1200
"""Characters of one tag: four attributes with values of 200, and blanks around all; a longer
tag is text."""


Find = Callable[..., re.Match[str] | None]
"""Of a text, and a position."""

_MADE: list[HeaderPattern | MarkerPattern] = []
"""What `compile_all` has still to compile."""


def compile_all() -> None:
    """Compile what is compiled only when it is asked for."""
    while _MADE:
        _MADE.pop().compile()


class Missing(enum.Enum):
    """That there is no header."""

    NONE = enum.auto()
    YET = enum.auto()
    """It may come with more text."""


class HeaderPattern:
    """Reads what follows a marker, where an expression describes it."""

    @classmethod
    def of(cls, *descriptions: tuple[Part, ...]) -> HeaderPattern:
        """What has one of these descriptions."""
        return cls(
            "|".join(spelled(*each) for each in descriptions),
            "|".join(so_far(*each) for each in descriptions),
        )

    def __init__(self, expression: str, begun: str) -> None:
        """`begun` is an expression for its starts."""
        self._expression = expression
        self._begun = begun
        _MADE.append(self)

    @cached_property
    def _match(self) -> Find:
        return re.compile(self._expression).match

    @cached_property
    def may_begin(self) -> Find:
        """Whether the rest of a text, from a position on, is the start of a header."""
        return re.compile(self._begun).fullmatch

    def compile(self) -> None:
        _ = self._match, self.may_begin

    def header_at(self, text: str, at: int) -> re.Match[str] | Missing:
        """The header at this position."""
        found = self._match(text, at)
        if found is not None:
            return found if found.end() - at <= HEADER_LIMIT else Missing.NONE
        comes = len(text) - at <= HEADER_LIMIT and self.may_begin(text, at) is not None
        return Missing.YET if comes else Missing.NONE


class MarkerPattern:
    """Finds markers that an expression describes."""

    def __init__(
        self,
        expression: str,
        begun: str,
        *,
        first: str = "<",
        halves: tuple[str, ...] = (),
        longest: int = TAG_LIMIT,
    ) -> None:
        """`begun` is an expression for the starts of markers up to the end of a text, of at most
        `longest` characters.  Markers begin with `first`; `halves` are the starts of those that do
        not."""
        self.expression = expression
        self.begun_expression = begun
        self._first = first
        self._halves = halves
        self._longest = longest
        _MADE.append(self)

    @cached_property
    def find(self) -> Find:
        """The first marker from a position on."""
        return re.compile(self.expression).search

    @cached_property
    def match(self) -> Find:
        """The marker at a position."""
        return re.compile(self.expression).match

    @cached_property
    def begun(self) -> re.Pattern[str]:
        """The starts of markers, up to the end of a text."""
        return re.compile(self.begun_expression)

    def compile(self) -> None:
        _ = self.find, self.match, self.begun

    def unfinished(self, text: str, begin: int = 0) -> int:
        """How many characters at the end of `text` may be the start of a marker, which is not
        before `begin`."""
        found = self.begun.search(text, max(begin, len(text) - self._longest))
        return len(text) - found.start() if found else 0

    def may_begin_in(self, text: str) -> bool:
        """Whether a marker may begin in `text`; a quick look, False is certain."""
        return self._first in text or text.endswith(self._halves)


def marker_set(texts: Iterable[str]) -> MarkerPattern:
    """The markers that are these texts, all of which begin with the same character."""
    words = tuple(texts)
    return MarkerPattern(
        spelled(words),
        so_far(words, empty=False, whole=False),
        first=words[0][0],
        longest=max(map(len, words)) - 1,
    )


def opening(
    tags: tuple[str, ...], *follows: Part, ends: tuple[str, ...] = (), first: str = "<"
) -> MarkerPattern:
    """Those of these tags that something follows of which this is the beginning.  The `ends` are no
    markers, but one with which a text ends waits for what follows."""
    starts = [so_far(tags, BLANKS, *follows, empty=False, whole=False)]
    starts += [so_far(ends, BLANKS, "(?!)", empty=False)] if ends else []
    return MarkerPattern(
        rf"{spelled(tags, BLANKS)}(?={spelled(*follows)})", "|".join(starts), first=first
    )


def begun(literal: str) -> str:
    """An expression for the starts of `literal`, from one character to all of it."""
    expression = ""
    for character in reversed(literal[1:]):
        expression = f"(?:{re.escape(character)}{expression})?"
    return re.escape(literal[:1]) + expression


class Run(NamedTuple):
    """An expression, and one for the starts of what it describes, empty ones too."""

    whole: str
    begun: str


Words = tuple[str, ...] | Mapping[str, Any]
Part = str | Words | Run
"""Part of a description: an expression for what has no start of its own, such as one character, or
blanks; words, one of which is there, and the expression has a group for it if they mean something;
or an expression whose starts have one."""


def spelled(*parts: Part) -> str:
    """An expression for what consists of these parts."""
    return "".join(map(_whole, parts))


def _whole(part: Part) -> str:
    if isinstance(part, Run):
        return part.whole
    if isinstance(part, str):
        return part
    longest_first = "|".join(map(re.escape, sorted(part, key=len, reverse=True)))
    return f"({longest_first})" if isinstance(part, Mapping) else f"(?:{longest_first})"


def so_far(*parts: Part, empty: bool = True, whole: bool = True) -> str:
    """An expression for the starts of the same, up to the end of the text: with the `empty` one,
    and with the `whole`."""
    rest = r"\Z" if whole else "(?!)"
    for at in reversed(range(len(parts))):
        part, starts = parts[at], [r"\Z"] if at or empty else []
        if isinstance(part, Run):
            starts = [rf"(?:{part.begun})\Z"]
        elif not isinstance(part, str):
            rests = by_first(set(part))
            starts += [re.escape(one) + tree(rest, r"\Z", whole="(?!)") for one, rest in rests]
        rest = "|".join([*starts, _whole(part) + rest])
        # Flat alternatives that begin with the same character are searched several times faster.
        rest = f"(?:{rest})" if at or empty else rest
    return rest


def optional(*parts: Part) -> Run:
    """What may be left out."""
    return Run(f"(?:{spelled(*parts)})?+", _nameless(so_far(*parts)))


def ahead(*parts: Part) -> Run:
    """A place that these parts follow, which are not part of what is described."""
    return Run(f"(?={spelled(*parts)})", _nameless(so_far(*parts)))


def either(*descriptions: tuple[Part, ...]) -> Run:
    """What has one of these descriptions."""
    begun = "|".join(so_far(*each) for each in descriptions)
    return Run(f"(?:{'|'.join(spelled(*each) for each in descriptions)})", _nameless(begun))


def repeated(*parts: Part) -> Run:
    """These parts, as often as they follow, or not at all."""
    whole = f"(?:{spelled(*parts)})*"
    return Run(whole, _nameless(f"{whole}(?:{so_far(*parts)})"))


def named(name: str, *parts: Part) -> Run:
    """These parts, in a group of this name."""
    return Run(f"(?P<{name}>{spelled(*parts)})", _nameless(so_far(*parts)))


def group(*parts: Part) -> Run:
    """These parts, in a group."""
    return Run(f"({spelled(*parts)})", so_far(*parts))


def _nameless(expression: str) -> str:
    """The expression of a start, whose groups would have the names of the whole."""
    return re.sub(r"\?P<\w+>", "?:", expression)


def tree(texts: AbstractSet[str], cut: str | None = None, *, whole: str = "") -> str:
    """An expression for any of these texts, the shortest where one begins with another, and then
    `whole`; with `cut`, also for the start of one, where that expression follows."""
    longer = [re.escape(first) + tree(rest, cut, whole=whole) for first, rest in by_first(texts)]
    branches = [whole] if "" in texts else []
    branches += [cut] if cut and longer else []
    return f"(?:{'|'.join([*branches, *longer] or ['(?!)'])})"


def by_first(texts: AbstractSet[str]) -> list[tuple[str, set[str]]]:
    """The first characters of texts, each with what follows it."""
    firsts = sorted({text[0] for text in texts if text})
    return [(first, {text[1:] for text in texts if text[:1] == first}) for first in firsts]
