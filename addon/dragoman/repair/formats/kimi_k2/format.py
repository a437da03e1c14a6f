"""Kimi K2's format, as the scanner asks for it."""

from __future__ import annotations

import re

from ...declared_tools import DeclaredTools
from ..protocol import LeakFormat, MarkerMatch
from .markers import MARKERS, Marker, begins_object, match_marker, unfinished_marker
from .names import HEADER_LIMIT, header_at_end, may_be_header
from .parser import KimiParser, State

_LEADS_TO = {
    Marker.SECTION_BEGIN: State.SECTION,
    Marker.CALL_BEGIN: State.HEADER,
    Marker.ARGUMENTS_BEGIN: State.ARGUMENTS,
}


class _KimiK2:
    """See `LeakFormat`.  Hosts strip the begin markers of a call, so a marker of arguments
    begins one as well: after a header, or where a JSON object follows."""

    name = "kimi_k2"
    beginnings = ("<|tool_call",)
    markers = "|".join(map(re.escape, MARKERS))
    look_back = HEADER_LIMIT

    def match(self, text: str, at: int) -> MarkerMatch | None:
        found = match_marker(text, at)
        if found is None:
            return None
        marker = MARKERS[found[0]]
        begins = marker in (Marker.SECTION_BEGIN, Marker.CALL_BEGIN)
        return MarkerMatch(self, marker.value, found.start(), found.end(), begins)

    def unfinished(self, text: str) -> int:
        return unfinished_marker(text)

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        return len(text) <= HEADER_LIMIT and may_be_header(text, tools)

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:
        if Marker(match.name) is not Marker.ARGUMENTS_BEGIN:
            return ""
        return header_at_end(text, tools)

    def begins_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:
        if Marker(match.name) is not Marker.ARGUMENTS_BEGIN:
            return False
        if header:
            return True
        return begins_object(text, match.end)

    def parser(
        self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools
    ) -> KimiParser:
        return KimiParser(tools, start, _LEADS_TO[Marker(match.name)], header)


KIMI_K2: LeakFormat = _KimiK2()
