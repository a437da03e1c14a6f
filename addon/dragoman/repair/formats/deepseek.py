"""DeepSeek's special tokens up to V3.1; later models write `DSML`.

::

    V3, R1   calls_begin call_begin function sep NAME ```json {…} ``` call_end … calls_end
    V3.1     calls_begin call_begin NAME sep {…} call_end … calls_end
    Composer calls_begin call_begin NAME sep KEY line-end VALUE line-end sep … call_end … calls_end

Composer is Cursor's model, which writes each argument as a line with its key and then its value.  A
token is ``<｜tool▁calls▁begin｜>``; detokenizers also write its words with ``_`` or blanks
between them, or ASCII bars.  The model leaves out ``calls_begin``, ``call_begin``, and what closes
a call.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Header, Whole
from ..schema import properties, required
from .held_arguments import CallEnds, HeldArguments
from .json_alone import fits
from .json_arguments import JsonArguments
from .marker_set import (
    HEADER_LIMIT,
    HeaderPattern,
    Missing,
    ahead,
    marker_set,
    named,
    optional,
    spelled,
)
from .protocol import WORD, LeakFormat, LeakParser
from .value_types import json_string, property_of, type_of

_WORDS = ("tool calls begin", "tool calls end", "tool call begin", "tool call end", "tool sep")
_NAMES = {
    f"<{bar}{words.replace(' ', between)}{bar}>": words.partition(" ")[2].replace(" ", "_")
    for words in _WORDS
    for bar, between in (*(("｜", each) for each in ("▁", "_", " ", r"\_")), ("|", "_"))
}
_MARKERS = marker_set(_NAMES)


def _tokens(name: str) -> tuple[str, ...]:
    return tuple(token for token, meant in _NAMES.items() if meant == name)


_CLOSERS = frozenset(token for token, name in _NAMES.items() if name.endswith("_end"))
_ENDS = CallEnds(_MARKERS, _CLOSERS)
_FENCED_ENDS = CallEnds(marker_set(("```", *_NAMES)), _CLOSERS | {"```"})
_SEP, _CALL_BEGIN = _tokens("sep"), _tokens("call_begin")
_HALF_TOKEN = re.compile(r"<[｜|]tool|tool[▁_ ]sep|sep[｜|]>")
_NOT_BLANK = re.compile(r"\S")
_SEPARATOR = re.compile(spelled(_SEP))
_CALL_END, _SECTION_END = _tokens("call_end"), _tokens("calls_end")
_JSON_HEADER = (
    r"\s*+",
    optional(_CALL_BEGIN, r"\s*+"),
    rf"(?P<first>{WORD}+)",
    r"\s*+",
    named("sep", _SEP),
    r"\s*+",
    rf"(?P<second>{WORD}+)?+",
    r"\s*+",
    optional(named("fence", ("```",)), r"\w*+", r"\s*+"),
    named("follows", ("{", *_CALL_END, *_SECTION_END)),
)
"""The name is the second word, if there is one: the first is the type of the tool then."""
_LINES_HEADER = (
    r"\s*+",
    optional(_CALL_BEGIN, r"\s*+"),
    rf"(?!function\b)(?P<name>{WORD}+)",
    r"\s*+",
    named("lines", _SEP),
    r"(?P<key>[\w.-]{1,64}+)",
    r"[ \t]*+",
    r"\n",
)
_HEADER = HeaderPattern.of(_JSON_HEADER, _LINES_HEADER)
_NEXT = HeaderPattern.of(
    (r"\s*+", named("fence", ("```",))),
    (r"\s*+", named("end", _CALL_END)),
    (r"\s*+", named("over", _SECTION_END)),
    (r"\s*+", ahead(_CALL_BEGIN)),
    (r"\s*+", ahead(f"{WORD}+", rf"\s{{0,{HEADER_LIMIT}}}+", _SEP)),
)
"""What follows arguments, but for other text."""


class LineArguments(HeldArguments):
    """Arguments in lines, from the token before the first one's key to the next other token: a call
    if the tool declares each, and accepts all.  As a value may quote a token, that has to be the
    end of a call, after which the section ends, another call begins, or nothing comes; and where
    one holds half a token, or the line of a key that is not there, a token is lost."""

    def __init__(self, name: str, tools: DeclaredTools) -> None:
        super().__init__(name, _ENDS)
        self._tools = tools

    def take_more(self, text: str) -> bool:
        if self.unread or "<" in text:
            return False
        self._text.add(text)
        return True

    def _follow(self) -> None:
        markers, begin = self._ends.markers, self._at
        while not self._closed and (found := markers.find(self._buffer, self._at)) is not None:
            self._closed = _NAMES[found[0]] != "sep"
            self._at = found.start() if self._closed else found.end()
        if not self._closed:
            self._at = len(self._buffer) - markers.unfinished(self._buffer, self._at)
        self._text.add(self._buffer[begin : self._at])

    def _is_whole(self, *, ended: bool) -> bool | None:
        markers, buffer = self._ends.markers, self._buffer
        found = markers.match(buffer, self._at)
        if found is None or _NAMES[found[0]] != "call_end":
            return False
        begin = _NOT_BLANK.search(buffer, found.end())
        if begin is None:
            return True if ended else None
        follows = markers.match(buffer, begin.start())
        if (
            follows is None
            and markers.unfinished(buffer, found.end()) == len(buffer) - begin.start()
        ):
            return True if ended else None
        return follows is not None and _NAMES[follows[0]] in ("calls_end", "call_begin")

    def _read(self, text: str) -> Whole | None:
        schema = self._tools.schema_of(self._name)
        lines = [part.partition("\n") for part in _SEPARATOR.split(text)[1:]]
        values = {
            (key := written.strip()): type_of(property_of(schema, key), schema).json_of(
                value.removesuffix("\n")
            )
            for written, _, value in lines
        }
        declared = properties(schema).keys()
        known = len(values) == len(lines) and values.keys() <= declared
        lost = {
            line.strip(" \t<｜|") for *_, value in lines for line in value.split("\n")
        } & declared
        half = any(_HALF_TOKEN.search(value) for *_, value in lines)
        if not known or half or lost - values.keys() or set(required(schema)) - values.keys():
            return None
        json = ",".join(f"{json_string(key)}:{value}" for key, value in values.items())
        return Whole([f"{{{json}}}"]) if fits(self._tools, self._name, f"{{{json}}}") else None


class DeepSeekParser(LeakParser):
    """Reads calls after the token of their section, or of the first."""

    header = _HEADER
    _fenced = False
    """Whether the arguments are in a fence that has not ended."""

    def _begin(self, found: re.Match[str]) -> bool:
        tool, key = found["name"] or found["first"], found["key"] or found["second"]
        if key in properties(self._tools.schema_of(tool)):
            at = found.start("lines" if found["name"] else "sep")
            return self._start_call(Header(tool), LineArguments(tool, self._tools), at)
        if found["name"]:
            return self._refuse()
        name, at = found["second"] or found["first"], found.start("follows")
        self._fenced = found["fence"] is not None
        if found["follows"] == "{":
            ends = _FENCED_ENDS if self._fenced else _ENDS
            return self._start_call(Header(name), JsonArguments(name, ends), at)
        self._give_call(Header(name))
        self._at = at
        self._read = type(self)._read_after
        return True

    def _read_after(self) -> bool:
        found = _NEXT.header_at(self._buffer, self._at)
        if isinstance(found, Missing) or (found["fence"] and not self._fenced):
            return found is not Missing.YET and self._leave(self._at)
        if found["over"]:
            return self._leave(found.end())
        self._at = found.end()
        if found["fence"]:
            self._fenced = False
        elif not found["end"]:
            self._in_head = True
            self._read = type(self)._read_header
        return True


DEEPSEEK = LeakFormat(
    "deepseek",
    ("<｜tool", "<|tool_"),
    _MARKERS,
    DeepSeekParser,
    openers=[token for token, name in _NAMES.items() if name.endswith("_begin")],
    names=_NAMES,
)
