"""Mistral's format: ``[TOOL_CALLS][{"name": NAME, "arguments": {…}}, …]``, and from v11 on
``[TOOL_CALLS]NAME[ARGS]{…}`` for each call, where ``[CALL_ID]ID`` may precede ``[ARGS]``,
which some hosts leave out.  Only the next call, or text, ends one; hosts write a
``[/TOOL_CALLS]`` as well.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Header
from .json_arguments import JsonArguments
from .json_calls import JsonCallsParser
from .marker_set import HEADER_LIMIT, MarkedFormat, MarkerSet, begun
from .protocol import WORD, MarkerMatch

_BEGIN = "[TOOL_CALLS]"
_MARKERS = MarkerSet((_BEGIN, "[/TOOL_CALLS]"))
_HEADER = re.compile(rf"\s*(?P<name>{WORD})\s*(?:\[CALL_ID\]\s*(?P<id>{WORD})\s*)?(?:\[ARGS\]\s*)?")
_HEADER_SO_FAR = re.compile(
    rf"\s*{WORD}\s*(?:{begun('[CALL_ID]')}|\[CALL_ID\]\s*{WORD}\s*)?(?:{begun('[ARGS]')})?\s*"
)
_WORD_SO_FAR = re.compile(r"[^\s\[{]*")


class MistralParser(JsonCallsParser):
    """Reads on from after ``[TOOL_CALLS]``."""

    end_is_marked = False
    markers = _MARKERS

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._named_before = False
        """Whether the name precedes the arguments, and is not in an object."""

    @property
    def in_header(self) -> bool:
        word = _WORD_SO_FAR.match(self.rest.lstrip())
        return self._in_head and (word is None or self._tools.may_begin(word[0]))

    def _read_header(self) -> bool:
        text = self.rest.lstrip()
        if not text or text[0] in "[{":
            return super()._read_header()
        opened = self._buffer.find("{", self._at)
        if (opened if opened >= 0 else len(self._buffer)) - self._at > HEADER_LIMIT:
            return self._refuse()
        if opened < 0:
            return not _HEADER_SO_FAR.fullmatch(self._buffer, self._at) and self._refuse()
        found = _HEADER.fullmatch(self._buffer, self._at, opened)
        if found is None:
            return self._refuse()
        self._named_before = True
        header = Header(found["name"], found[0].strip(), found["id"] or "")
        return self._start_call(header, JsonArguments(_MARKERS), opened)

    def _read_after(self) -> bool:
        return self._leave(self._at) if self._named_before else super()._read_after()


MISTRAL = MarkedFormat(
    "mistral", _MARKERS, MistralParser, begin=(_BEGIN,), beginnings=_MARKERS.texts
)
