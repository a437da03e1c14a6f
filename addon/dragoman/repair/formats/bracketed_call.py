"""Reads calls whose arguments stand in brackets: one is held until these close, then read."""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Header
from .bracketed_values import BracketedArguments, tool_of
from .held_arguments import CallEnds
from .json_calls import tag_at
from .marker_set import HeaderPattern, Missing
from .protocol import CallArguments, LeakParser, MarkerMatch


class BracketedParser(LeakParser):
    """Reads one section, from after its opening marker."""

    next_header: HeaderPattern
    """What comes before the brackets of a later call."""
    closers: tuple[str, ...]
    """What may follow a call, in this order."""
    ends: CallEnds
    must_fit = False
    """Whether the tool must accept the arguments, as no marker shows a call."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        self._closers = self.closers

    def _begin(self, found: re.Match[str]) -> bool:
        name, follows = tool_of(found, self._tools), self.next_header
        arguments = BracketedArguments(
            name, self.ends, self._tools, follows, must_fit=self.must_fit
        )
        return self._start_call(Header(name, found["name"]), arguments, found.end())

    def _arguments_ended(self, arguments: CallArguments) -> None:  # noqa: ARG002
        self._closers = self.closers

    def _read_after(self) -> bool:
        closer = tag_at(self._buffer, self._at, self._closers)
        if closer is not None and closer[0]:
            self._closers = self._closers[self._closers.index(closer[0]) + 1 :]
            self._at = closer[1]
            return True
        found = self.next_header.header_at(self._buffer, self._at)
        if not isinstance(found, Missing):
            return self._begin(found)
        return found is Missing.NONE and not closer and self._leave(self._at)

    def _is_half_marker(self, rest: str) -> bool:
        return bool(rest) and tag_at(self._buffer, self._at, self._closers) is not None
