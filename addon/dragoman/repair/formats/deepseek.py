"""DeepSeek's special tokens up to V3.1; later models write `DSML`.

::

    V3, R1   calls_begin call_begin function sep NAME ```json {…} ``` call_end … calls_end
    V3.1     calls_begin call_begin NAME sep {…} call_end … calls_end

A token is ``<｜tool▁calls▁begin｜>``; detokenizers also write its words with ``_`` or blanks
between them.  The model leaves out ``calls_begin``, ``call_begin``, and what closes a call.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Header
from .json_arguments import JsonArguments
from .marker_set import HEADER_LIMIT, MarkedFormat, MarkerSet
from .protocol import WORD, LeakParser, MarkerMatch

_WORDS = ("tool calls begin", "tool calls end", "tool call begin", "tool call end", "tool sep")
_NAMES = {
    f"<｜{words.replace(' ', between)}｜>": words.partition(" ")[2].replace(" ", "_")
    for words in _WORDS
    for between in ("▁", "_", " ", r"\_")
}
_MARKERS = MarkerSet(_NAMES)


def _token(*names: str) -> str:
    return "(?:" + "|".join(re.escape(t) for t, name in _NAMES.items() if name in names) + ")"


_HEADER = re.compile(
    rf"\s*(?:{_token('call_begin')}\s*)?(?P<first>{WORD})\s*{_token('sep')}\s*"
    rf"(?P<second>{WORD})?\s*(?P<fence>```\w*\s*)?"
)
_HEADER_SO_FAR = re.compile(
    rf"\s*(?:{_token('call_begin')}\s*)?"
    rf"(?:{WORD}\s*(?:{_token('sep')}\s*(?:{WORD})?\s*(?:`{{1,2}}|```\w*\s*)?)?)?"
)
_BLANKS = rf"\s{{0,{HEADER_LIMIT}}}"
_DECIDES = re.compile(rf"\{{|{_token('call_end', 'calls_end')}")
"""The end of a header: arguments, or the end of a call without arguments."""
_NEXT_CALL = re.compile(rf"{_BLANKS}(?:{_token('call_begin')}|{WORD}{_BLANKS}{_token('sep')})")
_CALL_END = re.compile(rf"{_BLANKS}{_token('call_end')}")
_CALLS_END = re.compile(rf"{_BLANKS}{_token('calls_end')}")
_FENCE = re.compile(rf"{_BLANKS}```")
_CONTINUES = re.compile(rf"{_BLANKS}(?:`{{0,2}}|{WORD}{_BLANKS})\Z")


class DeepSeekParser(LeakParser):
    """Reads on from ``calls_begin`` or ``call_begin``."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._fenced = False
        """Whether the arguments of the last call are in a fence, which is still open."""

    def _read_header(self) -> bool:
        decides = _DECIDES.search(self._buffer, self._at)
        unfinished = 0 if decides else _MARKERS.unfinished(self.rest)
        end = decides.start() if decides else len(self._buffer) - unfinished
        if end - self._at > HEADER_LIMIT:
            return self._refuse()
        if decides is None:
            begun = _HEADER_SO_FAR.fullmatch(self._buffer, self._at, end)
            return not begun and self._refuse()
        found = _HEADER.fullmatch(self._buffer, self._at, end)
        if found is None:
            return self._refuse()
        self._fenced = found["fence"] is not None
        header = Header(found["second"] or found["first"], found[0].strip())
        if decides[0] != "{":
            return self._call_without_arguments(header, end)
        return self._start_call(header, JsonArguments(_MARKERS), end)

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
