"""DeepSeek's special tokens up to V3.1; later models write `DSML`.

::

    V3, R1   calls_begin call_begin function sep NAME ```json {…} ``` call_end … calls_end
    V3.1     calls_begin call_begin NAME sep {…} call_end … calls_end

A token is ``<｜tool▁calls▁begin｜>``; detokenizers also write its words with ``_`` or blanks
between them, or ASCII bars.  The model leaves out ``calls_begin``, ``call_begin``, and what closes
a call.
"""

from __future__ import annotations

import re

from ..events import Header
from .held_arguments import CallEnds
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT, HeaderPattern, Missing, ahead, marker_set, named, optional
from .protocol import WORD, LeakFormat, LeakParser

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
_CALL_END, _SECTION_END = _tokens("call_end"), _tokens("calls_end")
_HEADER = HeaderPattern.of(
    (
        r"\s*+",
        optional(_CALL_BEGIN, r"\s*+"),
        rf"(?P<first>{WORD}+)",
        r"\s*+",
        _SEP,
        r"\s*+",
        rf"(?P<second>{WORD}+)?+",
        r"\s*+",
        optional(named("fence", ("```",)), r"\w*+", r"\s*+"),
        named("follows", ("{", *_CALL_END, *_SECTION_END)),
    )
)
"""The name is the second word, if there is one: the first is the type of the tool then."""
_NEXT = HeaderPattern.of(
    (r"\s*+", named("fence", ("```",))),
    (r"\s*+", named("end", _CALL_END)),
    (r"\s*+", named("over", _SECTION_END)),
    (r"\s*+", ahead(_CALL_BEGIN)),
    (r"\s*+", ahead(f"{WORD}+", rf"\s{{0,{HEADER_LIMIT}}}+", _SEP)),
)
"""What follows arguments, but for other text."""


class DeepSeekParser(LeakParser):
    """Reads calls after the token of their section, or of the first."""

    header = _HEADER
    _fenced = False
    """Whether the arguments are in a fence that has not ended."""

    def _begin(self, found: re.Match[str]) -> bool:
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
