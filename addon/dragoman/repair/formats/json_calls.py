"""Calls that are JSON objects: ``{"name": NAME, "arguments": {…}}``.

The members come in any order.  ``parameters`` are arguments, too, and some models write either as
a JSON string.  The objects come one after the other or in a list; some models double their outer
braces, leave the last one out, or write ``{"type": "function", "function": {…}}`` as the API does,
or the tool's name as the key, ``{NAME: {…}}``.

An object is held until it is whole.  Models write ``args``, ``input`` or ``params``, or the
arguments as members of the object, and that is a call only if the tool declares them; else it is
damaged, that is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ...wire.json_codec import dumps, loads
from ...wire.json_progress import JsonProgress
from ..declared_tools import DeclaredTools
from ..events import Damaged, Header, Whole
from ..schema import properties
from .held_arguments import CallEnds, HeldText, ends_call
from .json_arguments import JsonArguments
from .literals import decode_once, mended
from .marker_set import HEADER_LIMIT, HeaderPattern, Run, so_far
from .protocol import WORD, LeakParser, MarkerMatch
from .value_types import Member, members_of, members_so_far, read_json

OBJECT = (
    *(r"\s*+", r"(?P<list>\[\s*+)?+", r"\{", r"\s*+"),
    *(r"(?:(?P<double>\{)\s*+)?+", r"(?=[^\s{])"),
)
"""With what a call begins."""
_FUNCTION = ('"function=',)
_SO_FAR = so_far(_FUNCTION, empty=False)
_OTHER = Run(rf"(?!{_FUNCTION[0]}|{_SO_FAR})(?=[^\s{{])", rf"(?:{_SO_FAR})?")
WITH_FUNCTION = (
    (
        *(r"\s*+", r"\{", r"\s*+", _FUNCTION, rf"(?P<function>{WORD})", '"', r"\s*+", ","),
        *(r"\s*+", ('"arguments"', '"parameters"'), r"\s*+", ":", r"\s*+", r"(?=\{)"),
    ),
    (*OBJECT[:-1], _OTHER),
)
"""The same, or a first member that is ``"function=NAME"``, of which JSON has no reading."""
_LOOKED_AT = 4096
"""Characters of an object in which each new one may show what it is."""
_NAME = re.compile(rf'"(?:tool_)?(?:name|function|tool)"\s*+:\s*+"({WORD})"')
_NOT_BLANK = re.compile(r"\S")
_SEMICOLON = re.compile(r"\s{0,64}+;\s{0,64}+")
_BETWEEN = re.compile(rf"\s{{0,{HEADER_LIMIT - 1}}}(?P<what>[{{}}\],])")

_ARGUMENTS = ("arguments", "parameters")
_OTHER_WORDS = ("args", "input", "params", "tool_input")
"""What models write for these, if the tool has no argument of that name."""
_OTHER_NAMES = ("tool_name", "tool", "function")
"""What models write for ``name``, if its value is a text."""
_OF_THE_API = ("id", "type", "index", "call_id", "tool_call_id", "name")
"""Members that are no arguments, if the tool has none of that name."""


class JsonCallsParser(LeakParser):
    """Parses from where the first object, or their list, begins."""

    header = HeaderPattern.of(OBJECT)
    ends: CallEnds
    outer = ""
    """What may follow the `closer`."""
    other_names: tuple[str, ...] = _OTHER_NAMES
    """What may stand for ``name``."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._in_list = self._doubled = False
        self._begin_object()

    def _begin_object(self) -> None:
        self._in_head, self._read = True, type(self)._read_header
        self._json, self._text = JsonProgress(), HeldText()
        self._mended = False
        """Whether its last brace is missing."""
        self._is_looked_at = False
        self._is_declared = False
        """Whether it is known that the object names a declared tool."""
        self._call: tuple[Header, list[str]] | None = None
        """That of the object, once it is whole: what follows it decides whether it is one."""

    def _begin(self, found: re.Match[str]) -> bool:
        if name := found.groupdict().get("function"):
            self._doubled = True
            ends = replace(self.ends, others=self.ends.closers)
            return self._start_call(Header(name), JsonArguments(name, ends), found.end())
        self._in_list = self._in_list or found["list"] is not None
        self._doubled = found["double"] is not None
        self._at = self._buffer.rindex("{", 0, found.end())
        self._read = type(self)._read_object
        return True

    @property
    def holds(self) -> bool:
        return self._arguments is not None or self._is_declared

    @property
    def rest(self) -> str:
        is_open = bool(self._text) and (self._in_head and not self._is_over)
        return f"{self._text}{self.unread}" if is_open else super().rest

    @property
    def in_header(self) -> bool:
        return self._in_head and self._call is None

    @property
    def whole(self) -> bool:
        return self._call is not None or super().whole

    def take_more(self, text: str) -> bool:
        json = self._json
        in_string = bool(self._text) and json.in_string and not (json.escaped or self.unread)
        if self._arguments is not None or not in_string or '"' in text or "\\" in text:
            return super().take_more(text)
        self._text.add(text)
        self._end += len(text)
        return True

    # An object

    def _read_object(self) -> bool:
        json, begin = self._json, self._at
        self._at = json.follow(self._buffer, begin, len(self._buffer))
        if self._at > begin:
            self._text.add(self._buffer[begin : self._at])
        if json.complete:
            return self._end_object(str(self._text))
        if json.broken:
            return self._end_unclosed()
        if self._is_declared or self._is_looked_at:
            return False
        self._is_looked_at = self._text.size >= _LOOKED_AT
        members, _, key = members_so_far(str(self._text)[:_LOOKED_AT])
        return self._is_no_call([*(each.key for each in members), key], members) and self._refuse()

    def _is_no_call(self, keys: list[str], members: list[Member]) -> bool:
        """Whether the beginning of an object, with these members, shows that it is none.  `keys`
        are theirs, and that of a member whose value has no end yet."""
        names = [each.value for each in self._with_name(members) if each.key == "name"][:1]
        fits = [isinstance(name, str) and bool(self._tools.find(name)) for name in names]
        self._is_declared = any(fits) or bool(self.other_names and self._tools.find(keys[0]))
        return "name" in keys[: len(members)] and not self._is_declared

    def _end_unclosed(self) -> bool:
        """The JSON goes on no further: the closing brace of the object is missing, if what may
        follow calls does."""
        closer = self._closer_at()
        if closer is not None and not closer[0] and not self._ended:
            return False
        begin = _NOT_BLANK.search(self._buffer, self._at)
        ended = closer or (begin and self.ends.markers.match(self._buffer, begin.start()))
        if not ended:
            return self._damage()
        self._mended = True
        return self._end_object(str(self._text).rstrip().rstrip(",") + "}")

    def _end_object(self, text: str) -> bool:
        members = members_of(text)
        keys = [each.key for each in members]
        at = keys.index("function") if "function" in keys and "name" not in keys else None
        if at is not None and isinstance(members[at].value, dict):
            inner, begin = members[at].text, members[at].start
            members = [each._replace(start=each.start + begin) for each in members_of(inner)]
        members = self._with_name(members)
        names = [each.value for each in members if each.key == "name"]
        name = names[0] if names and isinstance(names[0], str) else None
        pieces = self._arguments_of(members, name) if name is not None else None
        if name is None or pieces is None:
            return self._damage()
        usual = all(each.key in (*_ARGUMENTS, *_OF_THE_API) for each in members)
        form = "plain name" if usual else "arguments in members of other names"
        self._call = Header(name, form=form), pieces
        self._read = type(self)._read_between
        return True

    def _with_name(self, members: list[Member]) -> list[Member]:
        """The members of an object with ``name`` and ``arguments`` for what means these."""
        keys = [each.key for each in members]
        if "name" in keys or not self.other_names:
            return members
        if len(members) == 1 and self._tools.find(keys[0]) and isinstance(members[0].value, dict):
            named = Member("name", keys[0], dumps(keys[0]).decode(), 0)
            return [named, members[0]._replace(key="arguments")]
        for at, each in enumerate(members):
            if each.key in self.other_names and isinstance(each.value, str):
                return [*members[:at], each._replace(key="name"), *members[at + 1 :]]
        return members

    def _arguments_of(self, members: list[Member], name: str) -> list[str] | None:
        """The arguments in the members of an object, in pieces; None if there is no call."""
        arguments = _arguments_in(members, self._declared(name))
        if not arguments:
            return None if arguments is None else ["{}"]
        for each in members:
            if each.key in _ARGUMENTS and each.text == arguments:
                return self._text.pieces(each.start, each.start + len(arguments))
        return [arguments]

    def _declared(self, name: str) -> AbstractSet[str]:
        """The names of the arguments that this tool declares."""
        return properties(self._tools.schema_of(name)).keys()

    def _start_json(self, header: Header, at: int) -> bool:
        """A call begins whose arguments are at this place, after its name."""
        return self._start_call(header, JsonArguments(header.name or "", self.ends), at)

    def _damage(self, *, cut: bool = False) -> bool:
        """This is no call, up to the end of it."""
        self._call = None
        name = _NAME.search(str(self._text))
        if name is None:
            return self._refuse()
        end = self.ends.of_damaged(self._buffer, self._at)
        if end is None and not (self._ended or cut):
            self._read = type(self)._damage
            return False
        if end is not None and self._json.broken and not (self._mended or cut):
            return self._end_mended(end)
        self._events.append(Damaged(name[1], cut))
        return self._leave(self._at if end is None else end)

    def _end_mended(self, end: int) -> bool:
        """The object, of which JSON has no reading, is over here: it is a call if it has one with
        Python's words and commas, and its tool declares and accepts the arguments."""
        closer = next((each for each in self.ends.closers if self._buffer[:end].endswith(each)), "")
        at = end - len(closer) if closer else self._at
        held, self._text = self._text, HeldText()
        held.add(self._buffer[self._at : at])
        self._at, self._mended = at, True
        try:
            decode_once(text := mended(str(held).strip(), '"'))
        except (ValueError, RecursionError):
            self._text = held
            return self._damage()
        self._text.add(text)
        self._end_object(text)
        self._text = held
        return self._call is None or self._fits(*self._call) or self._damage()

    def _fits(self, header: Header, pieces: list[str]) -> bool:
        name, arguments = header.name or "", "".join(pieces)
        refused = self._tools.refuses(name, arguments)
        return not refused and loads(arguments).keys() <= self._declared(name)

    # After that

    def _read_between(self) -> bool:
        """What follows an object, of which some models end each with a semicolon."""
        found = _SEMICOLON.match(self._buffer, self._at) if self.closer else None
        begin = found.end() if found else self._at
        if found and begin == len(self._buffer) and not self._ended:
            return False
        found = _BETWEEN.match(self._buffer, begin)
        what, end = (found["what"], found.end()) if found else ("", begin)
        expected = {
            ",": self._in_list,
            "{": bool(self.closer),
            "}": self._doubled or bool(self.closer),
            "]": self._in_list,
        }
        if not expected.get(what):
            return self._read_closer()
        self._at = end
        if what in "]}":
            self._doubled, self._in_list = False, self._in_list and what != "]"
            return True
        self._give()
        self._at = end if what == "," else end - 1
        self._begin_object()
        return True

    def _read_closer(self) -> bool:
        found = self._closer_at()
        if self._call is not None:
            whole = self.ends.is_whole(self._buffer, self._at, ended=self._ended)
            if whole and self._mended and found and found[0]:
                whole = ends_call(self._buffer, found[1], ended=self._ended)
            return whole is not None and (self._give() if whole else self._damage())
        if found and found[0] == "}":
            self._doubled, self._at = False, found[1]
            return True
        if found and found[0] == self.closer and self.outer:
            self.closer, self.outer, self._at = self.outer, "", found[1]
            return True
        return self._leave(self._at) if found is None else bool(found[0]) and self._leave(found[1])

    def _give(self, *, unmarked: bool = False) -> bool:
        """The object is a call for certain."""
        if self._call is not None:
            header, pieces = self._call
            self._call = None
            self._events += [header, Whole(pieces, unmarked)]
            self._in_head = False
        return True

    def _closer_at(self) -> tuple[str, int] | None:
        """See `tag_at`: what ends all calls."""
        bracket = "}" if self._doubled else "]" if self._in_list else ""
        return tag_at(self._buffer, self._at, [tag for tag in (self.closer, bracket) if tag])

    _read_after = _read_closer

    def _finish(self) -> None:
        if self._call is not None and self._whole:
            self._give(unmarked=self.end_is_marked)
        elif self._in_head and self._text:
            self._damage(cut=True)
        else:
            super()._finish()


def _arguments_in(members: list[Member], declared: AbstractSet[str]) -> str | None:
    """The arguments in the members of an object, as the text of a JSON object, or empty if there
    are none; None if it is not certain that they are all that were written.  `declared` are the
    names of the arguments that the tool takes."""
    keys: list[str] = []
    texts: list[str] = []
    others = certain = named = False
    for key, value, text, _ in members:
        if key == "name" and not named:
            named = True
        elif key in declared and key not in _ARGUMENTS:
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
