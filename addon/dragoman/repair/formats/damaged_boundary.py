"""What is left of the two tags between an argument and the next one, where both are damaged.

Then the value of the first continues to the end of the second: ``ls</paramter name="timeout">5``.
Of each tag the beginning or the end is left, or nothing; of both together so many characters that
no other text has them by chance.  What is quoted is no part of a tag, nor is what belongs to whole
markup (``</header><path d="…">``, in code the types of ``Map<string, Parameter>``), but for a
closing tag without its opening one that begins and ends as these two: ``</param>``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MARKUP = re.compile(r"</([\w:.｜-]++)\s*+>|<(?:!--|[A-Za-z!?])[^<>]*+>")
_NESTED = 3
"""How deep types in brackets stand in each other: ``Map<string, Set<Map<K, V>>>``."""
_OPENED = re.compile(r"<([\w:.-]++)")
_ATTRIBUTE = re.compile('[="]')
_BRACKET = re.compile("<|(?<![-=])>(?!=)")
_GAP = re.compile(r"[ \t]{0,16}+(?:\r?\n\s{0,32}+)?+")
_WORD = re.compile(r"(?<!\w)\w++(?=[\s=])")
"""The last word of an opening tag that all of them have."""
_KEY_WORD = re.compile(r"(?<![\w.-])[\w.-]{1,64}+(?![\w.-])")
_ANY_KEY = "?"
_QUOTES, _BLANKS = "\"'`", " \t"
_NAME = 2
"""Characters of the name in a closing tag that tell it from ``</p>``."""
MAX_VALUE = 64 * 1024
"""Characters of a value that is read: some 50 ms."""
MAX_BRACKETS = 500
"""Brackets of a value beside whole markup; if there are more, they are signs of a language."""
MAX_KEYS = 8
"""Arguments of which the opening tag may be the second."""


class Part(enum.Enum):
    """What is left of a tag."""

    NOTHING = enum.auto()
    BEGINNING = enum.auto()
    END = enum.auto()


_LEAST = {
    (Part.BEGINNING, Part.NOTHING): 6,
    (Part.BEGINNING, Part.BEGINNING): 3,
    (Part.BEGINNING, Part.END): 3,
    (Part.NOTHING, Part.BEGINNING): 11,
    (Part.NOTHING, Part.END): 4,
    (Part.END, Part.BEGINNING): 4,
    (Part.END, Part.END): 4,
    (Part.END, Part.NOTHING): 5,
}
"""Characters of both tags that show a boundary: two of 2,400 source files hold so many.  A part
alone has to be longer: ``cmd </path``, ``i<argc`` and ``</p`` before a line end are no damage."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is left of two tags in a text."""

    kinds: tuple[Part, Part]
    size: int
    """Characters that count."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """The closing tag of an argument, and the opening tags that may follow it."""

    closer: str
    openers: tuple[str, ...]
    word: str
    """What both have that tags of calls do not."""
    around_key: tuple[str, str] | None = None
    """What stands around any key, if the tool takes arguments that it does not declare."""

    @classmethod
    def after(cls, closer: str, opener: str, key: str, keys: Iterable[str] | None) -> Boundary:
        """That after the argument `key`, which was opened so, and before one of these, or any."""
        before, _, after = opener.rpartition(key)
        found = _WORD.search(opener)
        if found and closer.startswith("</"):
            closer = f"</{opener[1 : found.end()]}>"  # spelled as the opening tag is
        names = [_ANY_KEY] if keys is None else sorted(keys)[:MAX_KEYS]
        ends = {after, after.replace('"true"', '"false"'), after.replace('"false"', '"true"')}
        openers = tuple(before + each + end for each in names for end in sorted(ends))
        around_key = (before[-1:], after) if keys is None else None
        return cls(closer, openers, found[0] if found else "<", around_key)

    def values_after(self, text: str, *, absent: bool = False) -> Iterator[str]:
        """What follows each damaged boundary in a text, without other markup.

        If something is `absent` that must be there, a bracket alone shows one, where there are no
        more than the two that the two tags leave.
        """
        if len(text) > MAX_VALUE:
            return
        if self.around_key:
            text = _KEY_WORD.sub(self._any_key, text)
        bare, opened = text, set(_OPENED.findall(text))
        for _ in range(_NESTED):
            bare = _MARKUP.sub(lambda found: self._part_of_two(found, opened), bare)
        places = [found.start() for found in _BRACKET.finditer(bare)]
        if len(places) > MAX_BRACKETS:
            return
        for parts in (parts for at in places for parts in self._parts_at(bare, at)):
            before = bare[parts.start - 1 : parts.start] or "\n"
            few = absent and len(places) <= 2 and (parts.size > 1 or before not in _BLANKS)
            least = 1 if few else _LEAST.get(parts.kinds, parts.size + 1)
            value = bare[parts.end :]
            if parts.size >= least and before not in _QUOTES and value.strip():
                yield value

    def _any_key(self, found: re.Match[str]) -> str:
        """A word of a text; in the place of a key, what stands for any."""
        before, after = self.around_key or ("", "")
        text, (begin, end) = found.string, found.span()
        is_key = text.startswith(before, begin - 1) and text.startswith(after, end)
        return _ANY_KEY if begin and is_key else found[0]

    def _part_of_two(self, found: re.Match[str], opened: set[str]) -> str:
        """A tag, if it may be made of the parts of two; else what cannot be one."""
        tag, name = found[0], found[1]
        size = _common(tag, self.closer) if name else 1
        if not any(opener.endswith(tag[size:].lstrip()) for opener in self.openers):
            return "\0"
        if name:
            parts = len("</") + _NAME <= size < len(self.closer) and name not in opened
        else:
            parts = _ATTRIBUTE.search(tag) is not None and tag not in self.openers
        return tag if parts else "\0"

    def _parts_at(self, text: str, at: int) -> Iterator[Parts]:
        """The parts of both tags of which the first bracket is here."""
        if text[at] == "<":
            first, start = Part.BEGINNING, at
            after = at + _common(text[at : at + len(self.closer)], self.closer)
            size = self._telling(self.closer, after - at)
            for part, more, end in self._openers_at(text, at):
                if part is Part.BEGINNING:
                    yield Parts((Part.NOTHING, part), more, at, end)
        else:
            first, after = Part.END, at + 1
            start = after - _common_end(text, after, self.closer)
            size = self._telling_end(after - start)
            for more in {_common_end(text, after, opener) for opener in self.openers}:
                if more == 1 or _ATTRIBUTE.search(text, after - more, after):
                    size_of_end = self._telling_end(more)
                    yield Parts((Part.NOTHING, Part.END), size_of_end, after - more, after)
        if not 0 < after - start < len(self.closer) or text.startswith("<<", start):
            return  # a sign of a language: ``cout<<arg``
        gap = _GAP.match(text, after)
        for place in sorted({after, gap.end() if gap else after}):
            for part, more, end in self._openers_at(text, place):
                yield Parts((first, part), size + more, start, end)

    def _openers_at(self, text: str, at: int) -> Iterator[tuple[Part, int, int]]:
        """The parts of opening tags that stand here: the characters that count, and the end."""
        yield Part.NOTHING, 0, at
        for opener in self.openers:
            near = text[at : at + len(opener)]
            if near[:1] == opener[0]:
                size = _common(near, opener)
                yield Part.BEGINNING, self._telling(opener, size), at + size
            for found in re.finditer(">", near):
                if opener.endswith(near[: found.end()]):
                    yield Part.END, self._telling_end(found.end()), at + found.end()

    def _telling(self, tag: str, size: int) -> int:
        """The characters that count in the beginning of a tag: one, if tags of calls begin so."""
        return size if size > tag.find(self.word) else min(size, 1)

    def _telling_end(self, size: int) -> int:
        """Those that count in the end of a tag: one, if all tags end so."""
        return size if size > len(self.closer.rpartition(self.word)[2]) else min(size, 1)


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    size = min(len(one), len(other))
    return next((at for at in range(size) if one[at] != other[at]), size)


def _common_end(text: str, end: int, tag: str) -> int:
    return _common(text[max(0, end - len(tag)) : end][::-1], tag[::-1])
