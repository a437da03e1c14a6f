"""Calls that are JSON objects: ``{"name": NAME, "arguments": {…}}``.

The members come in any order.  ``parameters`` are arguments, too, and some models write either as
a JSON string.  The objects come one after the other or in a list; some models double their outer
braces, or write ``{"type": "function", "function": {…}}`` as the API does.

Arguments leave as they arrive where it is certain that they are all: they have a member after the
name, and no member before them may be an argument.  Else the end of the object decides
(`_arguments_in`): models write ``args``, ``input`` or ``params``, or the arguments as members of
the object, and that is a call only if the tool declares them; else it is damaged, that is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ...wire.json_codec import dumps
from ...wire.json_progress import JsonProgress
from ..declared_tools import DeclaredTools
from ..events import CallEnd, Damaged, Dropped, Header
from ..schema import properties
from .json_arguments import BLANKS_IN_STRING, JsonArguments
from .marker_set import HEADER_LIMIT, HeaderPattern, MarkerPattern
from .protocol import WORD, LeakParser, MarkerMatch
from .value_types import read_json

OBJECT = (
    *(r"\s*+", r"(?P<list>\[\s*+)?+", r"\{", r"\s*+"),
    *(r"(?:(?P<double>\{)\s*+)?+", r"(?=[^\s{])"),
)
"""With what a call begins."""
_COMMA = (r"\s*+", r"(?:,\s*+)?+")
_MEMBER = HeaderPattern.of(
    (*_COMMA, r"(?P<end>\})"),
    (*_COMMA, '"', r'(?P<key>[^"\\]{1,64}+)', '"', r"\s*+", ":", r"\s*+", r"(?=\S)"),
)
_NAME = HeaderPattern.of(('"', f"(?P<name>{WORD})", '"'))
_NOT_BLANK = re.compile(r"\S")
_SEMICOLON = re.compile(r"\s{0,64}+;\s{0,64}+")
_BETWEEN = re.compile(rf"\s{{0,{HEADER_LIMIT - 1}}}(?P<what>[{{}}\],])")


_ARGUMENTS = ("arguments", "parameters")
_OTHER_WORDS = ("args", "input", "params")
"""What models write for these, if the tool has no argument of that name."""
_OF_THE_API = ("id", "type", "index", "call_id", "tool_call_id")
"""Members that are no arguments, if the tool has none of that name."""
_STREAMS = HeaderPattern.of(
    (r"\{", r"\s*+", '"'), ('"', BLANKS_IN_STRING, r"\{", BLANKS_IN_STRING, r"\\?+", '"')
)
"""How arguments begin that leave as they arrive: an object, or one in a JSON string."""


class _Member(NamedTuple):
    """A member of an object: its key, its value, and the JSON text of that."""

    key: str
    value: Any
    text: str


class JsonCallsParser(LeakParser):
    """Parses from where the first object, or their list, begins."""

    header = HeaderPattern.of(OBJECT)
    markers: MarkerPattern
    """A call that is not whole ends at one of these."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._in_list = self._doubled = False
        self._begin_object()

    def _begin_object(self) -> None:
        self._in_head, self._read = True, type(self)._read_header
        self._name: str | None = None
        self._members: list[_Member] = []
        """Those that have been read, but for the name."""
        self._key = ""
        """That of the member whose value is read."""
        self._value = JsonProgress()
        self._pieces: list[str] = []
        """The text of that value."""

    def _begin(self, found: re.Match[str]) -> bool:
        self._in_list = self._in_list or found["list"] is not None
        self._doubled = found["double"] is not None
        self._at = found.end()
        self._read = type(self)._read_member
        return True

    # The members of an object

    def _read_member(self) -> bool:
        found = _MEMBER.header_at(self._buffer, self._at)
        if isinstance(found, bool):
            return not found and self._end_unclosed()
        self._at = found.end()
        if found["end"]:
            return self._end_object()
        opens = self._buffer[self._at] == "{"
        self._key = found["key"]
        if self._key == "name" and self._name is None:
            self._read = type(self)._read_name
        elif self._key == "function" and opens and self._name is None:
            self._doubled = True
            self._at += 1
        else:
            self._value, self._pieces = JsonProgress(), []
            self._read = type(self)._read_value
        return True

    def _read_name(self) -> bool:
        found = _NAME.header_at(self._buffer, self._at)
        if isinstance(found, bool):
            return not found and self._refuse()
        self._at = found.end()
        self._name = found["name"]
        self._read = type(self)._read_member
        return True

    def _read_value(self) -> bool:
        if not self._pieces and self._may_stream():
            streams = _STREAMS.header_at(self._buffer, self._at)
            if isinstance(streams, re.Match):
                return self._start_json(Header(self._name), self._at)
            if streams:
                return False
        end = self._value.follow(self._buffer, self._at, len(self._buffer))
        self._pieces.append(self._buffer[self._at : end])
        self._at = end
        if self._value.broken:
            return self._damage() if self._in_head else self._end_object()
        if not self._value.complete:
            return False
        self._read = type(self)._read_member
        if not self._in_head:
            self._events.append(Dropped("member of a call"))
            return True
        read = read_json("".join(self._pieces))
        self._members += [_Member(self._key, *read)] if read else []
        return read is not None or self._damage()

    def _start_json(self, header: Header, at: int) -> bool:
        """A call begins whose arguments leave as they arrive."""
        return self._start_call(header, JsonArguments(self.markers), at)

    def _may_stream(self) -> bool:
        """Whether the value may be the arguments, and there are no others."""
        if self._key not in _ARGUMENTS or self._name is None or not self._in_head:
            return False
        declared = self._declared(self._name)
        words = (*_ARGUMENTS, *_OTHER_WORDS)
        return not any(each.key in declared or each.key in words for each in self._members)

    def _declared(self, name: str) -> AbstractSet[str]:
        """The names of the arguments that this tool declares."""
        return properties(self._tools.schema_of(name)).keys()

    def _damage(self, *, cut: bool = False) -> bool:
        """This is no call."""
        if self._name is None:
            return self._refuse()
        self._events.append(Damaged(self._name, cut))
        self._is_over = True
        return True

    # After that

    _read_after = _read_member  # the object may end with its arguments, or others follow

    def _end_unclosed(self) -> bool:
        """There is no member, and no end of the object either: its closing brace is missing, if it
        is followed by what may follow calls."""
        if self._in_head:
            closer = self._closer_at()
            if closer is not None and not closer[0]:
                return False
            begin = _NOT_BLANK.search(self._buffer, self._at)
            ended = begin is not None and self.markers.match(self._buffer, begin.start())
            if closer is None and not ended:
                return self._damage()
        return self._end_object()

    def _end_object(self) -> bool:
        if self._in_head and not self._call():
            return self._damage()
        self._read = type(self)._read_between
        return True

    def _call(self) -> bool:
        """Give the call that the members are, of which none was given; False if they are none."""
        if self._name is None:
            return False
        declared = self._declared(self._name)
        arguments = _arguments_in(self._members, declared)
        if arguments is None:
            return False
        usual = all(each.key in (*_ARGUMENTS, *_OF_THE_API) for each in self._members)
        form = "plain name" if usual else "arguments in members of other names"
        header = Header(self._name, form=form)
        self._give_call(header, arguments, CallEnd(valid=True, cut=False))
        return True

    def _read_between(self) -> bool:
        """What follows an object, of which some models end each with a semicolon."""
        found = _SEMICOLON.match(self._buffer, self._at) if self.closer else None
        if found and self._buffer.startswith("{", found.end()):
            self._at = found.end()
        elif found and found.end() == len(self._buffer) and not self._ended:
            return False
        found = _BETWEEN.match(self._buffer, self._at)
        what, end = (found["what"], found.end()) if found else ("", self._at)
        if what == "," and self._doubled:
            self._doubled, self._read = False, type(self)._read_member
        elif what == "," and self._in_list:
            self._at = end
            self._begin_object()
        elif what == "{" and self.closer:
            self._begin_object()
        elif what == "}" and (self._doubled or self.closer):
            self._at, self._doubled = end, False
        elif what == "]" and self._in_list:
            self._at, self._in_list = end, False
        else:
            return self._read_closer()
        return True

    def _read_closer(self) -> bool:
        found = self._closer_at()
        return self._leave(self._at) if found is None else bool(found[0]) and self._leave(found[1])

    def _closer_at(self) -> tuple[str, int] | None:
        """See `tag_at`: what ends all calls."""
        bracket = "}" if self._doubled else "]" if self._in_list else ""
        return tag_at(self._buffer, self._at, [tag for tag in (self.closer, bracket) if tag])

    def _finish(self) -> None:
        if self._name is None or not self._in_head:
            super()._finish()
            return
        keys = [each.key for each in self._members] + ([self._key] if self._pieces else [])
        if all(key in (*_ARGUMENTS, *_OF_THE_API) for key in keys):
            self._give_call(Header(self._name), "", CallEnd(valid=False, cut=True))
            self._leave(len(self._buffer))
        else:
            self._damage(cut=True)


def _arguments_in(members: list[_Member], declared: AbstractSet[str]) -> str | None:
    """The arguments in the members of an object, as the text of a JSON object, or empty if there
    are none; None if it is not certain that they are all that were written.  `declared` are the
    names of the arguments that the tool takes."""
    keys: list[str] = []
    texts: list[str] = []
    others = certain = False
    for key, value, text in members:
        if key in declared and key not in _ARGUMENTS:
            keys.append(key)
            texts.append(f"{dumps(key).decode()}:{text}")
        elif key in _ARGUMENTS or key in _OTHER_WORDS:
            found, json = (isinstance(value, str) and read_json(value)) or (value, text)
            if found in (None, "", [], {}):
                continue
            if not isinstance(found, dict) or not (key in _ARGUMENTS or found.keys() <= declared):
                return None
            certain |= key in _ARGUMENTS
            keys += found
            texts.append(json.strip()[1:-1])
        else:
            others |= key not in _OF_THE_API
    if len(set(keys)) < len(keys) or (others and not certain):
        return None
    return f"{{{','.join(texts)}}}" if texts else ""


def tag_at(text: str, at: int, tags: Iterable[str]) -> tuple[str, int] | None:
    """Which of these tags follows in `text` at `at`, after white space, and where it ends;
    ``("", at)`` if one may, by what comes, and None if not."""
    begin = at + len(text[at:]) - len(text[at:].lstrip())
    for tag in tags:
        if text.startswith(tag, begin) and begin + len(tag) - at <= HEADER_LIMIT:
            return tag, begin + len(tag)
    may_follow = any(tag.startswith(text[begin : begin + len(tag)]) for tag in tags)
    return ("", at) if may_follow and len(text) - at < HEADER_LIMIT else None
