"""A call in a shape that no other format has: markup that leaves one reading::

    <tool_use><name>NAME</name><input>{"KEY": VALUE}</input></tool_use>
    [run tool=NAME]{"KEY": VALUE}[/run]    <NAME KEY="VALUE"/>    <|do|>NAME<|with|>{"KEY": VALUE}

It begins a line with a tag and ends the turn, and has in this order the name of one declared tool,
and one argument or more: declared, each with one value, all that are required.  All else is tags,
those of elements in pairs, JSON around these, and white space.  Anything else is text, from the
token on that does not belong there: so prose, code and pages wait for a word or two.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...wire.json_codec import Json, dumps
from ..declared_tools import DeclaredTools
from ..events import Drop, Dropped, Header, Whole
from ..schema import properties, required
from .json_alone import fits
from .marker_set import MarkerPattern
from .markup_tokens import (
    NOTES,
    JsonFollower,
    MoreError,
    NoCallError,
    Tag,
    calls_in,
    end_of,
    objects_in,
    read_brackets,
    read_once,
    sides_of,
    tag_at,
    unwrapped,
)
from .markup_words import is_of_either, is_of_other, is_of_page, may_name
from .protocol import LeakFormat, LeakParser
from .value_types import json_string, property_of, type_of

_LEAF = re.compile(r"[\w@./-]++(?::[\w@./-]++)*+")
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|#\w{1,6});")
_INNER = re.compile(r"\s*+<(?:value|val|v|string|text)>")
"""A value between tags of its own has two readings."""
_ENDS_ANY = "TOOL_REQUEST"
"""What LM Studio's models close, whatever they opened: ``[NAME]{…}[END_TOOL_REQUEST]``."""
_NOTE = re.compile(r"[\w.:-]{0,64}")
_MAX_TOKENS = 400
"""Tags, names and values of one call."""


class _Open(NamedTuple):
    """An element that is open."""

    opens: str
    words: list[str]
    key: str | None
    """The argument whose value it has."""


class MarkupReader:
    """Reads a text from a tag on that begins a line."""

    def __init__(self, tools: DeclaredTools) -> None:
        self._tools = tools
        self.at = 0
        """Before this place all has been read."""
        self.looked = 0
        """Up to where it has been looked, to tell what is next."""
        self.name = ""
        self._schema: object = None
        self._values: dict[str, str] = {}
        """The JSON texts of the arguments."""
        self._open: list[_Open] = []
        self._key: str | None = None
        """The argument whose value is expected."""
        self._loose = False
        """Whether a tag has come that is no element, such as ``<|call|>``."""
        self._seen = 0
        """Up to where the end of the open value, or object, has been looked for."""
        self._json = JsonFollower()
        self._shape: list[str] = []
        self._ended = False

    # What it says

    def read(self, text: str, *, ended: bool = False) -> bool:
        """Read more of what has come so far; False if it is no call, from the token `at` on."""
        self._ended, self.looked = ended, self.at
        try:
            while self._step(text):
                pass
        except MoreError:
            self.looked = len(text)
            return not ended
        except NoCallError:
            self.looked = max(self.looked, self.at)
            return False
        self.looked = self.at
        return True

    @property
    def arguments(self) -> str | None:
        """The JSON text of the call's arguments, if it is whole."""
        lacks = set(required(self._schema)) - self._values.keys()
        if self._open or self._key or lacks or not self._values:
            return None
        arguments = _object(self._values)
        return arguments if fits(self._tools, self.name, arguments) else None

    @property
    def shape(self) -> str:
        """The markup, without names and values."""
        return "".join(self._shape)

    # Tokens

    def _step(self, text: str) -> bool:
        """Read a token; False at the end of the text."""
        if self._open and self._open[-1].key:
            self._take_text(text, self._open[-1])
            return True
        while self.at < len(text) and text[self.at].isspace():
            self.at += 1
        if self.at == len(text):
            return False
        if len(self._shape) > _MAX_TOKENS:
            raise NoCallError
        first, found = text[self.at], None
        if first in "<[" and (found := tag_at(text, self.at, ended=self._ended)):
            self._take_tag(Tag.of(found))
            self.at = found.end()
        elif first in "[{" and self._shape:
            self._take_json(text)
        elif first == "(" and self.name and not self._values:
            self._take_brackets(text)
        elif self._open or self._loose:
            self._take_word(text)
        else:
            raise NoCallError
        return True

    def _take_tag(self, tag: Tag) -> None:
        if tag.closes:
            self._close(tag)
            return
        declared = properties(self._schema)
        known = declared if self.name else self._tools
        meant = [each for each in tag.words if each in known]
        pairs = [
            pair for pair in tag.attributes if pair[1] in known and (self.name or may_name(pair[0]))
        ]
        again = self.name and any(each in self._tools for each in tag.words)
        if again or len(meant) + len(pairs) > 1 or (meant and self._key):
            raise NoCallError
        found = meant[0] if meant else pairs[0][1] if pairs else ""
        others = [each for each in tag.words[:2] if each != found]
        if any(is_of_page(each) or is_of_other(each) for each in others):
            raise NoCallError
        names_tool = found and not self.name
        if names_tool and (is_of_either(tag.words[0]) or not all(map(may_name, others))):
            raise NoCallError
        meaning = "KEY" if self.name else "NAME"
        attributes = [pair for pair in tag.attributes if pair not in pairs]
        key, self._key = self._key, None
        if found and not self.name:
            self._begin(found)
        elif found:
            key = found
        for name, value in attributes:
            if key is None and self.name and name in properties(self._schema):
                self._set(name, self._typed(name, value))
            elif key is None and self.name and value[:1] == "{":
                self._take_arguments(read_once(value))
            elif key is not None and name == "value":
                self._set(key, self._typed(key, value))
                key = None
            elif not _is_note(name, value):
                raise NoCallError
        self._show(tag, found, meaning)
        self._loose |= "|" in tag.opens or "｜" in tag.opens
        if not tag.empty and (key or not self._is_loose(tag)):
            self._open.append(_Open(tag.opens, tag.words, key))
        elif key or (tag.empty and not (found or tag.attributes)):
            raise NoCallError
        self._seen = 0

    def _close(self, tag: Tag) -> None:
        self._show(tag, self.name, "NAME")
        if self._is_loose(tag):
            return
        last = self._open.pop() if self._open else None
        if last is None or last.opens != tag.opens or tag.attributes:
            raise NoCallError
        if tag.words[0] not in (*last.words, _ENDS_ANY):
            raise NoCallError

    def _is_loose(self, tag: Tag) -> bool:
        return tag.opens not in ("<", "[", "[[")

    def _take_text(self, text: str, element: _Open) -> None:
        """The value of an argument, up to the end of its element, or the next tag like it."""
        loose = element.opens[1:] not in ("", "[")
        ends = [f"{element.opens}/{each}{end_of(element.opens)}" for each in element.words]
        found = [
            (at, end)
            for end in ([element.opens] if loose else ends)
            if (at := text.find(end, max(self.at, self._seen - len(end)))) >= 0
        ]
        if not found:
            self._seen = len(text)
            raise MoreError
        assert element.key is not None
        begin, end = min(found)
        value = text[self.at : begin]
        if self._holds_another(value, element):
            raise NoCallError
        self._set(element.key, self._typed(element.key, unwrapped(value)))
        self._open.pop()
        self._shape.append("VALUE" if loose else f"VALUE{end.replace(element.key, 'KEY')}")
        self.at = begin if loose else begin + len(end)

    def _holds_another(self, value: str, element: _Open) -> bool:
        """Whether a tag like the element's own begins another argument within its value: then the
        end that was found may be that one's."""
        word, declared = sides_of(element.words[0])[0], properties(self._schema)
        mark, begin = element.opens + word, -1
        while (begin := value.find(mark, begin + 1)) >= 0:
            try:
                found = tag_at(value, begin, ended=True)
            except NoCallError:
                continue
            if found is not None:
                tag = Tag.of(found)
                named = {*tag.words, *(each for _, each in tag.attributes)} - {word}
                if named & declared.keys():
                    return True
        return False

    def _take_json(self, text: str) -> None:
        self.looked = end = self._json.end_in(text, self.at)
        value, is_value = read_once(text[self.at : end]), self._key is not None
        if self._key is not None:
            self._set(self._key, self._json_of(self._key, value))
            self._key = None
        elif self.name:
            self._take_arguments(value)
        else:
            self._take_call(value)
        self._shape.append(" VALUE" if is_value else self._outline(value))
        self.at, self._json = end, JsonFollower()

    def _take_brackets(self, text: str) -> None:
        """Arguments as Python writes them, or JSON in brackets."""
        value, self.at = read_brackets(text, self.at)
        if not self._is_declared(value):
            raise NoCallError
        self._set_all(value)
        self._shape.append("(KEY=VALUE)")

    def _take_word(self, text: str) -> None:
        """The name, or a key."""
        if (found := _LEAF.match(text, self.at)) is None or self._key is not None:
            raise NoCallError
        word, declared = found[0].removeprefix("functions."), properties(self._schema)
        if found.end() == len(text) and not self._ended:
            begins = any(key.startswith(word) for key in declared)
            if begins or (
                not self.name and (self._tools.may_begin(word) or "functions.".startswith(word))
            ):
                raise MoreError
        if not self.name and word in self._tools:
            if self._open and not may_name(self._open[-1].words[0]):
                raise NoCallError
            self._begin(word)
            self._shape.append("NAME")
        elif self.name and word in declared:
            self._key = word
            self._shape.append("KEY")
        else:
            raise NoCallError
        self.at = found.end()

    # Names and values

    def _begin(self, name: str) -> None:
        self.name, self._schema = name, self._tools.schema_of(name)

    def _set(self, key: str, value: str) -> None:
        if key in self._values:
            raise NoCallError
        self._values[key] = value

    def _set_all(self, members: Json) -> None:
        for key, value in members.items():
            self._set(key, self._json_of(key, value))

    def _typed(self, key: str, text: str) -> str:
        """The JSON text of a value that stands in a tag, or between two."""
        if _ENTITY.search(text) or _INNER.match(text):
            raise NoCallError
        return type_of(property_of(self._schema, key), self._schema).json_of(text)

    def _json_of(self, key: str, value: object) -> str:
        kind = type_of(property_of(self._schema, key), self._schema)
        as_text = isinstance(value, str) and kind.members and not kind.is_string
        return kind.json_of(str(value)) if as_text else dumps(value).decode()

    def _is_declared(self, value: object) -> bool:
        """Whether this is an object of arguments that the tool declares."""
        declared = properties(self._schema)
        return isinstance(value, dict) and bool(value) and value.keys() <= declared.keys()

    def _take_arguments(self, value: object) -> None:
        """An object of arguments, or one that has nothing else."""
        found = [each for each in objects_in(value) if self._is_declared(each)]
        if len(found) != 1:
            raise NoCallError
        self._set_all(found[0])

    def _take_call(self, value: object) -> None:
        """An object with the name, and maybe the arguments."""
        readings: list[tuple[str, Json]] = []
        for name, members in calls_in(value, self._tools):
            self._begin(name)
            if not members or self._is_declared(members):
                readings.append((name, members))
        if len(readings) != 1:
            raise NoCallError
        self._begin(readings[0][0])
        self._set_all(readings[0][1])

    # The shape

    def _show(self, tag: Tag, found: str, meaning: str) -> None:
        """`found`: a name or a key in it, and which of the two."""
        keys = properties(self._schema)
        word, joint, value = sides_of(tag.words[0])
        head = word.replace(found, meaning) if found in tag.words else word
        head += joint + (meaning if value == found else "VALUE") if value else ""
        shown = [
            f' {"KEY" if key in keys else key}="{meaning if value == found else "VALUE"}"'
            for key, value in tag.attributes
        ]
        slashes = "/" * tag.closes, "/" * tag.empty
        tag_text = f"{tag.opens}{slashes[0]}{head}{''.join(shown)}{slashes[1]}{end_of(tag.opens)}"
        self._shape.append(tag_text)

    def _outline(self, value: object) -> str:
        """JSON without names and values."""
        if isinstance(value, list):
            return f"[{', '.join(map(self._outline, value[:1]))}]"
        if not isinstance(value, dict):
            return "NAME" if value == self.name else "VALUE"
        keys = properties(self._schema)
        members = [
            "KEY: VALUE"
            if key in keys
            else f"{'NAME' if key == self.name else key}: {self._outline(each)}"
            for key, each in value.items()
        ]
        return f"{{{', '.join(dict.fromkeys(members))}}}"


def _is_note(name: str, value: str) -> bool:
    """Whether this attribute says of a call its number, or its kind."""
    said = name in NOTES and _NOTE.fullmatch(value) is not None
    return said and not (name == "type" and is_of_other(value))


def _object(values: dict[str, str]) -> str:
    return "{" + ",".join(f"{json_string(key)}:{value}" for key, value in values.items()) + "}"


class _Parser(LeakParser):
    """Reads a text to its end."""

    def _read_header(self) -> bool:
        reader = MarkupReader(self._tools)
        arguments = reader.arguments if reader.read(self._buffer, ended=True) else None
        if arguments is None:
            return self._refuse()
        self._events += [Header(reader.name, form="shape unknown"), Whole([arguments])]
        self._events.append(Dropped(Drop.SHAPE, reader.shape))
        self._in_head = False
        return self._leave(len(self._buffer))


class UnknownShape(LeakFormat):
    """Has no marker: a line of text is asked that begins with a tag."""

    alone = True
    line_begins = "<["


UNKNOWN_SHAPE = UnknownShape("unknown", (), MarkerPattern("(?!)", "(?!)"), _Parser)
