"""Calls that are JSON objects: ``{"name": NAME, "arguments": {…}}``.

The members come in any order, and the arguments leave as they arrive as soon as the name is
known.  ``parameters`` are arguments, too, and some models write either as a JSON string.  The
objects come one after the other or in a list; some models double their outer braces, or write
``{"type": "function", "function": {…}}`` as the API does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...wire.json_progress import JsonProgress
from ..declared_tools import DeclaredTools
from ..events import CallEnd, Dropped, Header, ParseEvent
from .json_arguments import JsonArguments, StringArguments
from .marker_set import HEADER_LIMIT, MarkerPattern
from .protocol import WORD, CallArguments, LeakParser, MarkerMatch

OBJECT = r"\s*(?P<list>\[\s*)?\{\s*(?:(?P<double>\{)\s*)?(?=[^\s{])"
OBJECT_SO_FAR = r"\s*(?:\[\s*)?(?:\{\s*){0,2}"
_MEMBER = re.compile(r'\s*,?\s*(?:(?P<end>\})|"(?P<key>[^"\\]{1,64})"\s*:\s*(?=\S))')
_MEMBER_SO_FAR = re.compile(r'\s*,?\s*(?:"[^"\\]{0,64}(?:"\s*(?::\s*)?)?)?\Z')
_NAME = re.compile(rf'"(?P<name>{WORD})"')
_NAME_SO_FAR = re.compile(rf'"(?:{WORD})?\Z')
_BETWEEN = re.compile(rf"\s{{0,{HEADER_LIMIT - 1}}}(?P<what>[{{}}\],])")


class JsonCallsParser(LeakParser):
    """Parses from where the first object, or their list, begins."""

    header = MarkerPattern(OBJECT, OBJECT_SO_FAR)
    """With what a call begins."""
    markers: MarkerPattern
    """A call that is not whole ends at one of these."""
    closer = ""
    """The marker that ends all calls, if the format has one."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._in_list = self._doubled = False
        self._header: Header | None = None
        """That of the object that is read."""
        self._called = False
        """Whether its arguments have been read."""
        self._held: list[ParseEvent] = []
        """Its arguments, before its name."""
        self._skipped = JsonProgress()
        """Follows a value that means nothing."""

    @property
    def whole(self) -> bool:
        return super().whole and self._called

    def _read_header(self) -> bool:
        found = self.header.header_at(self._buffer, self._at)
        if isinstance(found, bool):
            return not found and self._refuse()
        return self._begin(found)

    def _begin(self, found: re.Match[str]) -> bool:
        """A call begins where an object does."""
        self._in_list = self._in_list or found["list"] is not None
        self._doubled = found["double"] is not None
        self._header, self._called = None, False
        self._at = found.end()
        self._read = self._read_member
        return True

    # The members of an object

    def _read_member(self) -> bool:
        found = _MEMBER.match(self._buffer, self._at)
        if found is None or found.end() - self._at >= HEADER_LIMIT:
            waits = _MEMBER_SO_FAR.match(self._buffer, self._at) and len(self.rest) < HEADER_LIMIT
            return False if waits else self._end_object()
        self._at = found.end()
        if found["end"]:
            return self._end_object()
        value = self._buffer[self._at]
        if found["key"] == "name" and self._header is None:
            self._read = self._read_name
        elif found["key"] == "function" and value == "{" and self._header is None:
            self._doubled = True
            self._at += 1
        elif found["key"] in ("arguments", "parameters") and not self._called and value in '{["':
            self._called = True
            quoted = value == '"'
            arguments = StringArguments() if quoted else JsonArguments(self.markers)
            self._open(arguments, self._at + quoted)
        else:
            self._events.append(Dropped("member of a call"))
            self._skipped = JsonProgress()
            self._read = self._skip_value
        return True

    def _read_name(self) -> bool:
        found = _NAME.match(self._buffer, self._at)
        if found is None:
            return False if _NAME_SO_FAR.match(self._buffer, self._at) else self._refuse()
        self._at = found.end()
        self._header = Header(found["name"], found["name"])
        self._events += [self._header, *self._held]
        self._held.clear()
        self._in_head = False
        self._read = self._read_member
        return True

    def _skip_value(self) -> bool:
        end = len(self._buffer)
        self._at = self._skipped.follow(self._buffer, self._at, end)
        if self._at == end and not self._skipped.complete:
            return False
        self._read = self._read_member
        return True

    def _start_call(self, header: Header, arguments: CallArguments, at: int) -> bool:
        self._header, self._called = header, True
        return super()._start_call(header, arguments, at)

    def _give(self, event: ParseEvent) -> None:
        (self._held if self._header is None else self._events).append(event)

    # After that

    def _read_after(self) -> bool:
        """Arguments have ended: so may the object, or others of its members follow."""
        return self._read_member()

    def _end_object(self) -> bool:
        if self._header is None:
            return self._refuse()
        if not self._called:
            self._events.append(CallEnd(valid=True, cut=False))
        self._called = True
        self._read = self._read_between
        return True

    def _read_between(self) -> bool:
        """What follows an object."""
        if found := _BETWEEN.match(self._buffer, self._at):
            what = found["what"]
            if what == "," and self._doubled:
                self._doubled = False
                self._read = self._read_member
                return True
            if (what == "{" and self.closer) or (what == "," and self._in_list):
                self._at += 0 if what == "{" else found.end() - self._at
                self._in_head = True
                self._read = self._read_header
                return True
            if what == "}" and (self._doubled or self.closer):
                self._doubled = False
            elif what == "]" and self._in_list:
                self._in_list = False
            else:
                return self._leave(self._at)
            self._at = found.end()
            return True
        return self._read_closer()

    def _read_closer(self) -> bool:
        bracket = "}" if self._doubled else "]" if self._in_list else ""
        found = _tag_at(self._buffer, self._at, [tag for tag in (self.closer, bracket) if tag])
        return self._leave(self._at) if found is None else bool(found[0]) and self._leave(found[1])

    def _finish(self) -> None:
        if self._read == self._read_between or self._header is None or self._called:
            super()._finish()
            return
        self._events.append(CallEnd(valid=False, cut=True))
        self._leave(len(self._buffer))


def _tag_at(text: str, at: int, tags: Iterable[str]) -> tuple[str, int] | None:
    """Which of these tags follows in `text` at `at`, after white space, and where it ends;
    ``("", at)`` if one may, by what comes, and None if not."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    for tag in tags:
        if text.startswith(tag, begin) and begin + len(tag) - at <= HEADER_LIMIT:
            return tag, begin + len(tag)
    may_follow = any(tag.startswith(text[begin : begin + len(tag)]) for tag in tags)
    return ("", at) if may_follow and len(text) - at < HEADER_LIMIT else None
