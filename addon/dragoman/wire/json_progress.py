"""Follows a JSON text as it arrives.

The parsers of leaked calls need to know whether the next character is in a string (where a marker
is quoted text), whether the value is complete, and whether it can still become valid.  The grammar
is checked as far as that needs: strings, nesting and order; not the spelling of numbers.
A line end inside a string, which JSON forbids and models write, is allowed.
"""

from __future__ import annotations

import re

_STRING_RUN = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SPACE_RUN = re.compile(r"[ \t\r\n]*")
_SPACES = frozenset(" \t\r\n")
_LITERAL_RUN = re.compile(r"[-+.0-9A-Za-z]*")
_ITEM_RUN = re.compile(r"""(?:[ \t\r\n]*+(?:"[^"\\]*+"|[-0-9tfn][-+.0-9A-Za-z]*+)[ \t\r\n]*+,)++""")
"""Plain members of an array, each with its comma, matched at once."""


# What the grammar allows next, outside of strings.
_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _COMMA_OR_END, _END_OF_LITERAL = range(7)

# (expected, character) -> expected next, of a string after its end.  What is missing here is an
# error; brackets that close are checked against the stack, literals are recognised by their first
# character.
_NEXT = {
    (_FIRST_KEY, '"'): _COLON,
    (_KEY, '"'): _COLON,
    (_COLON, ":"): _VALUE,
    **{
        (state, first): after
        for state in (_VALUE, _FIRST_ITEM)
        for first, after in (
            ('"', _COMMA_OR_END),
            ("{", _FIRST_KEY),
            ("[", _FIRST_ITEM),
            *((character, _END_OF_LITERAL) for character in "-0123456789tfn"),
        )
    },
}
_CLOSES = {
    (_FIRST_KEY, "}"): ord("{"),
    (_FIRST_ITEM, "]"): ord("["),
    (_COMMA_OR_END, "}"): ord("{"),
    (_COMMA_OR_END, "]"): ord("["),
}


class JsonProgress:
    """Follows one JSON text; what it says of it is current after `follow`."""

    __slots__ = ("_expect", "_stack", "broken", "complete", "escaped", "in_string")

    def __init__(self) -> None:
        self.complete = False
        """Whether the value has ended."""
        self.broken = False
        """Whether no continuation could make this valid."""
        self.in_string = False
        self.escaped = False
        """Whether the text so far ends in half an escape."""
        self._expect = _VALUE
        self._stack = bytearray()
        """The brackets that are open."""

    @property
    def lacks_value(self) -> bool:
        """Whether a string has no end, or a member of an object no value."""
        if self.complete or self.broken or self.in_string:
            return self.in_string
        after_key = self._expect == _VALUE and bool(self._stack)
        return after_key or self._expect in (_FIRST_KEY, _COLON)

    @property
    def takes_object(self) -> bool:
        """Whether ``{`` may come next."""
        open_value = self._expect in (_VALUE, _FIRST_ITEM) and not self.complete
        return self.in_string or (open_value and not self.broken)

    def follow(self, text: str, start: int, end: int) -> int:
        """Read ``text[start:end]``; returns where reading stopped: at `end`, after the character
        that completed the value, or at the one that broke it."""
        at = start
        while at < end and not (self.complete or self.broken):
            if self.in_string:
                at = self._string(text, at, end)
            elif self._expect == _END_OF_LITERAL:
                at = self._literal(text, at, end)
            else:
                at = self._structure(text, at, end)
        return at

    def end(self) -> None:
        """The text ends here: a number at the top level is complete only now."""
        if not (self.complete or self.broken):
            self.complete = self._expect == _END_OF_LITERAL and not self._stack
            self.broken = not self.complete
            self.in_string = False

    def _string(self, text: str, at: int, end: int) -> int:
        if self.escaped:
            self.escaped = False
            return at + 1
        run = _STRING_RUN.match(text, at, end)
        at = run.end() if run else at
        if at < end:
            if text[at] == "\\":
                self.escaped = True
            else:
                self.in_string = False
                if self._expect == _COMMA_OR_END:
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
        expect, stack = self._expect, self._stack
        if expect == _VALUE and stack and stack[-1] == _CLOSES[_FIRST_ITEM, "]"]:
            items = _ITEM_RUN.match(text, at, end)
            at = items.end() if items else at
        if at < end and text[at] in _SPACES:
            run = _SPACE_RUN.match(text, at, end)
            at = run.end() if run else at
        if at == end:
            return at
        character = text[at]
        after = _NEXT.get((expect, character))
        if after is not None:
            self._expect = after
            self.in_string = character == '"'
            if character in "{[":
                stack.append(ord(character))
        elif stack and stack[-1] == _CLOSES.get((expect, character)):
            stack.pop()
            self._value_ended()
        elif expect == _COMMA_OR_END and character == ",":
            self._expect = _KEY if stack[-1] == ord("{") else _VALUE
        else:
            self.broken = True
        return at + (not self.broken)

    def _value_ended(self) -> None:
        if self._stack:
            self._expect = _COMMA_OR_END
        else:
            self.complete = True
