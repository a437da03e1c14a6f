"""Mistral's format: ``[TOOL_CALLS][{"name": NAME, "arguments": {…}}, …]``, and from v11 on
``[TOOL_CALLS]NAME[ARGS]{…}`` for each call, where ``[CALL_ID]ID`` may precede ``[ARGS]``,
which some hosts leave out.  Only the next call, or text, ends one; hosts write a
``[/TOOL_CALLS]`` as well.
"""

from __future__ import annotations

import re

from ..events import Header
from .json_arguments import JsonArguments
from .json_calls import OBJECT, OBJECT_SO_FAR, JsonCallsParser
from .marker_set import MarkerPattern, begun, marker_set
from .protocol import WORD, LeakFormat, named

_BEGIN, _END = "[TOOL_CALLS]", "[/TOOL_CALLS]"
_MARKERS = marker_set((_BEGIN, _END))
_WORD_SO_FAR = re.compile(r"[^\s\[{]*")


class MistralParser(JsonCallsParser):
    """Reads on from after ``[TOOL_CALLS]``."""

    end_is_marked = False
    markers = _MARKERS
    header = MarkerPattern(
        rf"{OBJECT}|\s*(?P<name>{WORD})\s*(?:\[CALL_ID\]\s*(?P<id>{WORD})\s*)?(?:\[ARGS\]\s*)?"
        r"(?P<follows>\{)",
        rf"{OBJECT_SO_FAR}|\s*{WORD}\s*(?:{begun('[CALL_ID]')}|\[CALL_ID\]\s*{WORD}\s*)?"
        rf"(?:{begun('[ARGS]')})?\s*",
    )

    _named_before = False
    """Whether the name precedes the arguments, and is not in an object."""

    @property
    def in_header(self) -> bool:
        word = _WORD_SO_FAR.match(self.rest.lstrip())
        return self._in_head and (word is None or self._tools.may_begin(word[0]))

    def _begin(self, found: re.Match[str]) -> bool:
        if not found["name"]:
            return super()._begin(found)
        self._named_before = True
        at = found.start("follows")
        literal = self._buffer[self._at : at].strip()
        header = Header(found["name"], literal, found["id"] or "")
        return self._start_call(header, JsonArguments(_MARKERS), at)

    def _read_after(self) -> bool:
        return self._leave(self._at) if self._named_before else super()._read_after()


MISTRAL = LeakFormat("mistral", (_BEGIN, _END), _MARKERS, MistralParser, named((_BEGIN,)))
