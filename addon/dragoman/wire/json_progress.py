"""Follows a JSON text as it arrives.

The scanner needs to know whether the next character is in a string (where a marker is quoted
text), whether the value is complete, and whether it can still become valid.  The grammar is
checked as far as that needs: strings, nesting and order; not the spelling of numbers and escapes.
A line end inside a string, which JSON forbids and models write, is allowed.
"""

from __future__ import annotations

import enum
import re

MAX_DEPTH = 100_000
"""Deeper nesting counts as broken (one byte of memory a level)."""

_STRING_RUN = re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SPACE_RUN = re.compile(r"[ \t\r\n]*")
_LITERAL_RUN = re.compile(r"[-+.0-9A-Za-z]*")
_ITEM_RUN = re.compile(r"""(?:[ \t\r\n]*+(?:"[^"\\]*+"|[-0-9tfn][-+.0-9A-Za-z]*+)[ \t\r\n]*+,)++""")
"""Plain members of an array, each with its comma, matched at once."""


class Status(enum.Enum):
    """How far a followed text has come."""

    OPEN = enum.auto()
    COMPLETE = enum.auto()
    BROKEN = enum.auto()


class _Expect(enum.IntEnum):
    """What the grammar allows next (integers hash faster)."""

    VALUE = enum.auto()
    FIRST_ITEM = enum.auto()
    FIRST_KEY = enum.auto()
    KEY = enum.auto()
    COLON = enum.auto()
    MORE = enum.auto()
    IN_KEY = enum.auto()
    IN_STRING = enum.auto()
    IN_LITERAL = enum.auto()


_E = _Expect
# (expected, character) -> expected next.  What is missing here is an error; brackets
# that close are checked against the stack, literals are recognised by their first character.
_NEXT = {
    (_E.FIRST_KEY, '"'): _E.IN_KEY,
    (_E.KEY, '"'): _E.IN_KEY,
    (_E.COLON, ":"): _E.VALUE,
    **{
        (state, opening): after
        for state in (_E.VALUE, _E.FIRST_ITEM)
        for opening, after in (('"', _E.IN_STRING), ("{", _E.FIRST_KEY), ("[", _E.FIRST_ITEM))
    },
}
_CLOSES = {
    (_E.FIRST_KEY, "}"): "{",
    (_E.FIRST_ITEM, "]"): "[",
    (_E.MORE, "}"): "{",
    (_E.MORE, "]"): "[",
}
_LITERAL_STARTS = frozenset("-0123456789tfn")


class JsonProgress:
    """Follows one JSON text; ``status`` is current after `follow`."""

    __slots__ = ("_escaped", "_expect", "_stack", "status")

    def __init__(self) -> None:
        self.status = Status.OPEN
        self._expect = _Expect.VALUE
        self._stack = bytearray()
        self._escaped = False

    @property
    def in_string(self) -> bool:
        return self.status is Status.OPEN and self._expect in (_E.IN_STRING, _E.IN_KEY)

    def stays_in_string(self, text: str) -> bool:
        """Whether `text` would leave this unchanged: it continues an open string."""
        return self.in_string and not self._escaped and '"' not in text and "\\" not in text

    def copy(self) -> JsonProgress:
        other = JsonProgress()
        other.status, other._expect = self.status, self._expect
        other._stack, other._escaped = bytearray(self._stack), self._escaped
        return other

    @property
    def complete(self) -> bool:
        return self.status is Status.COMPLETE

    @property
    def broken(self) -> bool:
        """Whether no continuation could make this valid."""
        return self.status is Status.BROKEN

    def follow(self, text: str, start: int, end: int) -> int:
        """Read ``text[start:end]``; returns where reading stopped: at `end`, after the character
        that completed the value, or at the one that broke it."""
        at = start
        while at < end and self.status is Status.OPEN:
            if self._expect in (_E.IN_STRING, _E.IN_KEY):
                at = self._string(text, at, end)
            elif self._expect is _E.IN_LITERAL:
                at = self._literal(text, at, end)
            else:
                at = self._structure(text, at, end)
        return at

    def end(self) -> None:
        """The text ends here: a number at the top level is complete only now."""
        if self.status is Status.OPEN:
            bare = self._expect is _E.IN_LITERAL and not self._stack
            self.status = Status.COMPLETE if bare else Status.BROKEN

    def _string(self, text: str, at: int, end: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        run = _STRING_RUN.match(text, at, end)
        at = run.end() if run else at
        if at < end:
            if text[at] == "\\":
                self._escaped = True
            elif self._expect is _E.IN_KEY:
                self._expect = _E.COLON
            else:
                self._value_ended()
            at += 1
        return at

    def _literal(self, text: str, at: int, end: int) -> int:
        run = _LITERAL_RUN.match(text, at, end)
        at = run.end() if run else at
        if at < end:
            self._value_ended()
        return at

    def _structure(self, text: str, at: int, end: int) -> int:
        if self._expect is _E.VALUE and self._stack.endswith(b"["):
            items = _ITEM_RUN.match(text, at, end)
            at = items.end() if items else at
        run = _SPACE_RUN.match(text, at, end)
        at = run.end() if run else at
        if at == end:
            return at
        character = text[at]
        where = (self._expect, character)
        if where in _NEXT:
            if character in "{[":
                self._stack += character.encode()
            self._expect = _NEXT[where]
        elif where in _CLOSES and self._stack[-1:] == _CLOSES[where].encode():
            del self._stack[-1:]
            self._value_ended()
        elif self._expect is _E.MORE and character == ",":
            self._expect = _E.KEY if self._stack.endswith(b"{") else _E.VALUE
        elif self._expect in (_E.VALUE, _E.FIRST_ITEM) and character in _LITERAL_STARTS:
            self._expect = _E.IN_LITERAL
        else:
            self.status = Status.BROKEN
            return at
        if len(self._stack) > MAX_DEPTH:
            self.status = Status.BROKEN
        return at + 1

    def _value_ended(self) -> None:
        if self._stack:
            self._expect = _E.MORE
        else:
            self.status = Status.COMPLETE
