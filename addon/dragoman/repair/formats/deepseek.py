"""DeepSeek's special tokens up to V3.1; later models write `DSML`.

::

    V3, R1   calls_begin call_begin function sep NAME ```json {…} ``` call_end … calls_end
    V3.1     calls_begin call_begin NAME sep {…} call_end … calls_end

A token is ``<｜tool▁calls▁begin｜>``; detokenizers also write its words with ``_`` or blanks
between them.  The model leaves out ``calls_begin``, ``call_begin``, and what closes a call.
"""

from __future__ import annotations

import re

from ..events import Header
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT, HeaderParser, MarkedFormat, MarkerPattern, MarkerSet, begun
from .protocol import WORD

_WORDS = ("tool calls begin", "tool calls end", "tool call begin", "tool call end", "tool sep")
_NAMES = {
    f"<｜{words.replace(' ', between)}｜>": words.partition(" ")[2].replace(" ", "_")
    for words in _WORDS
    for between in ("▁", "_", " ", r"\_")
}
_MARKERS = MarkerSet(_NAMES)


def _token(*names: str) -> str:
    return "(?:" + "|".join(re.escape(t) for t, name in _NAMES.items() if name in names) + ")"


_BLANKS = rf"\s{{0,{HEADER_LIMIT}}}"
_NEXT_CALL = re.compile(rf"{_BLANKS}(?:{_token('call_begin')}|{WORD}{_BLANKS}{_token('sep')})")
_CALL_END = re.compile(rf"{_BLANKS}{_token('call_end')}")
_CALLS_END = re.compile(rf"{_BLANKS}{_token('calls_end')}")
_FENCE = re.compile(rf"{_BLANKS}```")
_CONTINUES = re.compile(rf"{_BLANKS}(?:`{{0,2}}|{WORD}{_BLANKS})\Z")


class DeepSeekParser(HeaderParser):
    """Reads on from ``calls_begin`` or ``call_begin``."""

    header = MarkerPattern(
        rf"(?P<literal>\s*(?:{_token('call_begin')}\s*)?(?P<first>{WORD})\s*{_token('sep')}\s*"
        rf"(?P<second>{WORD})?\s*(?P<fence>```\w*\s*)?)"
        rf"(?P<follows>\{{|{_token('call_end', 'calls_end')})",
        rf"\s*(?:{_token('call_begin')}\s*)?"
        rf"(?:{WORD}\s*(?:{_token('sep')}\s*(?:{WORD})?\s*(?:`{{1,2}}|```\w*\s*)?)?)?"
        rf"(?:{'|'.join(begun(token[:-1]) for token in _NAMES)})?",
    )

    _fenced = False
    """Whether the arguments of the last call are in a fence, which is still open."""

    def _begin(self, found: re.Match[str]) -> bool:
        self._fenced = found["fence"] is not None
        header = Header(found["second"] or found["first"], found["literal"].strip())
        if found["follows"] != "{":
            return self._call_without_arguments(header, found.start("follows"))
        return self._start_call(header, JsonArguments(_MARKERS), found.start("follows"))

    def _read_after(self) -> bool:
        if self._fenced and (fence := _FENCE.match(self._buffer, self._at)):
            self._fenced = False
            self._at = fence.end()
        if end := _CALL_END.match(self._buffer, self._at):
            self._at = end.end()
        if end := _CALLS_END.match(self._buffer, self._at):
            return self._leave(end.end())
        if _NEXT_CALL.match(self._buffer, self._at):
            self._read = self._read_header
            self._in_head = True
            return True
        rest = self.rest
        if _CONTINUES.match(rest[: len(rest) - _MARKERS.unfinished(rest)]):
            return False
        return self._leave(self._at)


DEEPSEEK = MarkedFormat(
    "deepseek",
    _MARKERS,
    DeepSeekParser,
    begin=[token for token, name in _NAMES.items() if name.endswith("_begin")],
    beginnings=("<｜tool",),
    names=_NAMES,
)
