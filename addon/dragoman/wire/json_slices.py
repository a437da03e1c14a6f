"""Reads and writes long JSON in slices (see `slices`), and limits one item.

Values and bytes are the same as those of `json_codec.loads` and `dumps`.  The standard library's
scanner reads a text in one call; so it gets windows of the text, and reads each value that ends in
its window.  The members of a longer value are read one by one.  Only a long string takes one call
all the same: some 4 ms a megabyte.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from io import BytesIO
from itertools import repeat
from typing import Any

from .json_codec import MAX_NESTING, MAX_VALUES, NotJson, dumps, dumps_ascii, loads, nesting_exceeds
from .slices import Slices

WINDOW = 64 * 1024
"""Characters that one call reads: 5 ms if all are brackets."""
MAX_ITEM_VALUES = 50_000
"""JSON values of one item, tool or other field of a request, which is converted by one call: some
50 ms. A long conversation has as many in all of its items."""
_SAFE = 16
"""Characters before a window's end: a number that ends there may continue after it."""
WRITTEN_VALUES = 1000
"""JSON values that are written by one call: some tenths of a millisecond."""
LONG_STRING = 64 * 1024
"""Characters of a string that are written by one call: some tenths of a millisecond."""
_COUNTED = 1024 * 1024
_NEXT = re.compile(r"[ \t\n\r]*([,\]}:]?)[ \t\n\r]*").match
_decode = json.JSONDecoder().raw_decode


class TooMuch(NotJson):
    """More than is read; the message is for the sender."""


def reading(text: bytes, *, item_values: int | None = None) -> Slices[Any]:
    """The value of a JSON text; raises `NotJson` and nothing else. With `item_values` it raises
    `TooMuch` for more values than that in a field of the outermost object, or in a member of a
    field that is an array."""
    if len(text) <= WINDOW:
        return loads(text)
    yield from _counting(text)
    try:
        string = text.decode(json.detect_encoding(text), "surrogatepass").strip(" \t\n\r")
        value, end = yield from _Reader(string, item_values).value(0, 0)
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from None
    if end != len(string):
        raise NotJson("there is more than one value")
    return value


def _counting(text: bytes) -> Slices[None]:
    """Raises `TooMuch` for a text of more values than `loads` reads."""
    opened = commas = 0
    for begin in range(0, len(text), _COUNTED):
        end = begin + _COUNTED
        opened += text.count(b"[", begin, end) + text.count(b"{", begin, end)
        commas += text.count(b",", begin, end)
        yield
    if opened > MAX_VALUES or commas > 4 * MAX_VALUES:
        raise TooMuch(
            f"It holds more than {MAX_VALUES:,} arrays and objects, or four times as many values."
        )


class _Reader:
    """Reads one text."""

    def __init__(self, text: str, item_values: int | None) -> None:
        self._text = text
        self._item_values = item_values
        self._move(0)

    def _move(self, begin: int) -> None:
        self._begin = begin
        self._window = self._text[begin : begin + WINDOW]
        is_last = begin + WINDOW >= len(self._text)
        self._sure = len(self._window) - (0 if is_last else _SAFE)

    def value(self, at: int, depth: int) -> Slices[tuple[Any, int]]:
        """The value that begins here, at this depth, and where it ends."""
        return self._at_once(at, depth) or (yield from self._opened(at, depth))

    def _opened(self, at: int, depth: int) -> Slices[tuple[Any, int]]:
        """The same, where it does not end in this window."""
        if at > self._begin:
            self._move(at)
            if found := self._at_once(at, depth):
                return found
        yield
        opening = self._text[at : at + 1]
        if opening not in ("[", "{"):
            return _decode(self._text, at)  # a long string, or nothing
        if depth >= MAX_NESTING:
            raise NotJson(f"nested more than {MAX_NESTING} levels deep")
        value, end = yield from self._members(at + 1, depth + 1, "]" if opening == "[" else "}")
        # A value read at once has fewer values than its window has characters.
        is_item = depth == 2 or (depth == 1 and opening == "{")
        limit = self._item_values
        if limit is not None and is_item and _exceeds(value, limit):
            raise TooMuch(f"One of its items, tools or fields holds more than {limit:,} values.")
        return value, end

    def _at_once(self, at: int, depth: int) -> tuple[Any, int] | None:
        """The same, where it ends in this window."""
        try:
            value, end = _decode(self._window, at - self._begin)
        except (ValueError, RecursionError):
            return None
        if end > self._sure:
            return None
        deepest = MAX_NESTING - depth
        begin = at - self._begin
        if end - begin > 2 * deepest:
            opened = self._window.count("[", begin, end) + self._window.count("{", begin, end)
            if opened > deepest and nesting_exceeds(value, deepest):
                raise NotJson(f"nested more than {MAX_NESTING} levels deep")
        return value, self._begin + end

    def _members(self, at: int, depth: int, closing: str) -> Slices[tuple[Any, int]]:
        """The array or object that was opened before `at`, and where it ends."""
        text = self._text
        members: Any = [] if closing == "]" else {}
        expected = ""
        mark, at = _mark(text, at)
        while mark != closing:
            if mark != expected:
                raise NotJson("a member of an array or an object is not where it should be")
            if closing == "}":
                name, at = yield from self.value(at, depth)
                mark, at = _mark(text, at)
                if not isinstance(name, str) or mark != ":":
                    raise NotJson("a member of an object has no name")
                members[name], at = yield from self.value(at, depth)
            else:
                value, at = self._at_once(at, depth) or (yield from self._opened(at, depth))
                members.append(value)
            mark, at = _mark(text, at)
            expected = ","
            yield
        return members, at


def _mark(text: str, at: int) -> tuple[str, int]:
    """The mark here, if there is one, and where the next token begins."""
    found = _NEXT(text, at)
    return (found[1], found.end()) if found else ("", at)


# Writing


def writing(value: Any) -> Slices[bytes]:
    """What `dumps` writes; the members of a large value by a call each."""
    try:
        return (yield from _joined(value, _unescaped))
    except _LoneSurrogateError:
        # All of a text is in ASCII, or nothing of it.
        return (yield from _joined(value, dumps_ascii))


class _LoneSurrogateError(Exception):
    """UTF-8 cannot carry it."""


def _unescaped(value: Any) -> bytes:
    written = dumps(value)
    if b"\\ud" in written and written.isascii():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise _LoneSurrogateError from None
    return written


def _joined(value: Any, write: Callable[[Any], bytes]) -> Slices[bytes]:
    out = BytesIO()  # which gives its bytes without a copy
    yield from _written(value, write, out)
    return out.getvalue()


def _written(value: Any, write: Callable[[Any], bytes], out: BytesIO) -> Slices[None]:
    if isinstance(value, str) and len(value) > LONG_STRING:
        out.write(b'"')
        for begin in range(0, len(value), LONG_STRING):
            out.write(write(value[begin : begin + LONG_STRING])[1:-1])
            yield
        out.write(b'"')
        return
    if not is_much(value):
        out.write(write(value))
        return
    opening, closing = (b"{", b"}") if isinstance(value, dict) else (b"[", b"]")
    mark = opening
    for name, member in value.items() if isinstance(value, dict) else zip(repeat(None), value):
        out.write(mark if name is None else mark + write(name) + b":")
        mark = b","
        if isinstance(member, (dict, list, str)):
            yield from _written(member, write, out)
        else:
            out.write(write(member))
        yield
    out.write(closing)


def is_much(value: Any) -> bool:
    """Whether a value and all that it holds are too much to be written by one call."""
    return _exceeds(value, WRITTEN_VALUES, LONG_STRING)


def _exceeds(value: Any, max_values: int, max_characters: float = math.inf) -> bool:
    """Whether a value and all that it holds are more values, or characters of strings."""
    values, characters = [value], 0
    for each in values:  # which grows
        if isinstance(each, str):
            characters += len(each)
            if characters > max_characters:
                return True
        elif isinstance(each, (dict, list)):
            if len(values) + len(each) > max_values:
                return True
            values += each.values() if isinstance(each, dict) else each
    return False
