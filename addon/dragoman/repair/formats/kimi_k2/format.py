"""Kimi K2's format, as the scanner asks for it."""

from __future__ import annotations

from ...declared_tools import DeclaredTools
from ..marker_set import HEADER_LIMIT, MarkedFormat
from ..protocol import MarkerMatch
from .markers import MARKER_SET, MARKERS, NAMES, Marker, begins_object
from .names import header_at_end, may_be_header
from .parser import KimiParser


class _KimiK2(MarkedFormat):
    """Hosts strip the begin markers of a call, so a marker of arguments begins one as well:
    after a header, or where a JSON object follows."""

    look_back = HEADER_LIMIT

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        return len(text) <= HEADER_LIMIT and may_be_header(text, tools)

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:
        if NAMES[match.name] is not Marker.ARGUMENTS_BEGIN:
            return ""
        return header_at_end(text, tools)

    def begins_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:
        if NAMES[match.name] is not Marker.ARGUMENTS_BEGIN:
            return False
        if header:
            return True
        return begins_object(text, match.end)


KIMI_K2 = _KimiK2(
    "kimi_k2",
    MARKER_SET,
    KimiParser,
    begin=[m for m, what in MARKERS.items() if what in (Marker.SECTION_BEGIN, Marker.CALL_BEGIN)],
    beginnings=("<|tool_call",),
    names={text: marker.value for text, marker in MARKERS.items()},
)
