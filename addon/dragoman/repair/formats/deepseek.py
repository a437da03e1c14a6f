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
from .marker_set import HEADER_LIMIT, HeaderPattern, Missing, begun, marker_set
from .protocol import WORD, LeakFormat, LeakParser

_WORDS = ("tool calls begin", "tool calls end", "tool call begin", "tool call end", "tool sep")
_NAMES = {
    f"<{bar}{words.replace(' ', between)}{bar}>": words.partition(" ")[2].replace(" ", "_")
    for words in _WORDS
    for bar, between in (*(("｜", each) for each in ("▁", "_", " ", r"\_")), ("|", "_"))
}
_MARKERS = marker_set(_NAMES)


def _token(*names: str) -> str:
    return "(?:" + "|".join(re.escape(t) for t, name in _NAMES.items() if name in names) + ")"


_CLOSERS = frozenset(token for token, name in _NAMES.items() if name.endswith("_end"))
_ENDS = CallEnds(_MARKERS, _CLOSERS)
_FENCED_ENDS = CallEnds(marker_set(("```", *_NAMES)), _CLOSERS | {"```"})
_SEP = _token("sep")
_BLANKS = rf"\s{{0,{HEADER_LIMIT}}}+"
_HALF_TOKEN = f"(?:{'|'.join(begun(token[:-1]) for token in _NAMES)})?"
_HEADER = HeaderPattern(
    rf"\s*+(?:{_token('call_begin')}\s*+)?+(?P<type>{WORD}+\s*+{_SEP}\s*+(?={WORD}))?+"
    rf"(?P<name>{WORD}+)(?(type)|\s*+{_SEP})\s*+(?P<fence>```\w*+\s*+)?+"
    rf"(?P<follows>\{{|{_token('call_end', 'calls_end')})",
    rf"\s*+(?:{_token('call_begin')}\s*+)?+"
    rf"(?:{WORD}+\s*+(?:{_SEP}\s*+(?:{WORD}+)?+\s*+(?:```\w*+\s*+|`{{1,2}})?+)?+)?+{_HALF_TOKEN}",
)
_NEXT = HeaderPattern(
    rf"\s*+(?:(?P<fence>```)|(?P<end>{_token('call_end')})|(?P<over>{_token('calls_end')})"
    rf"|(?={_token('call_begin')})|(?={WORD}{_BLANKS}{_SEP}))",
    rf"\s*+(?:`{{1,2}}|{WORD}+{_BLANKS})?+{_HALF_TOKEN}",
)
"""What follows arguments, but for other text."""


class DeepSeekParser(LeakParser):
    """Reads calls after the token of their section, or of the first."""

    header = _HEADER
    _fenced = False
    """Whether the arguments are in a fence that has not ended."""

    def _begin(self, found: re.Match[str]) -> bool:
        header, at = Header(found["name"]), found.start("follows")
        self._fenced = found["fence"] is not None
        if found["follows"] == "{":
            return self._start_call(
                header, JsonArguments(found["name"], _FENCED_ENDS if self._fenced else _ENDS), at
            )
        self._give_call(header)
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
