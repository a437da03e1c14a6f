"""Which tool a call is of, and whether it may be called: headers in, calls out, or text."""

from __future__ import annotations

from ..notes import LITERAL
from .call_rule import CallRule
from .declared_tools import DeclaredTools
from .events import Arguments, CallEnd, CallStart, Header, ScanEvent
from .formats.protocol import LeakFormat

NAMELESS_LIMIT = 1024 * 1024
"""Characters of arguments held until the tool of a call without a name is known."""


class CallNamer:
    """Names the calls of one choice, one after the other.

    A call whose header has no name is held until its tool is inferred from its arguments.  If
    that fails and any name is allowed, it is released under its literal header.
    """

    def __init__(self, tools: DeclaredTools) -> None:
        self._tools = tools
        self._format: str
        self._any_name: bool
        self.nameless: Header | None = None
        """The header of a call that is held."""
        self._arguments: list[str] = []
        """The pieces of its arguments."""
        self._size = 0

    @property
    def held(self) -> list[str]:
        """The text of the call that is held: its header, and the pieces of its arguments."""
        return [self.nameless.literal, *self._arguments] if self.nameless else []

    def begin(self, leak_format: LeakFormat, rule: CallRule) -> None:
        """The next calls are of this format."""
        self._format, self._any_name = leak_format.name, rule.calls == "any"

    def forget(self) -> None:
        self.nameless, self._arguments, self._size = None, [], 0

    def header(self, header: Header) -> list[ScanEvent] | None:
        """The start of a call; none yet if it is held.  None if it is no call but text."""
        name, form = header.name, header.form
        if name is None and self._tools:
            self.nameless = header
            return []
        if header.odd:
            return None
        if name not in self._tools:
            fits = None if name is None or header.resolved else self._tools.find(name)
            if fits is None and not self._any_name:
                return None
            name, form = (fits, "mangled name") if fits else (name, form)
        if header.bare and self._tools:
            return None
        if name is None:
            return [self._literal(header)]
        return [CallStart(name, header.call_id, form, self._format)]

    def arguments(self, arguments: Arguments) -> list[ScanEvent]:
        if self.nameless is None:
            return [arguments]
        self._arguments.append(arguments.text)
        self._size += len(arguments.text)
        return self._release(self.nameless, None) if self._size > NAMELESS_LIMIT else []

    def end(self, end: CallEnd) -> list[ScanEvent] | None:
        """The end of the call, after all of it that was held.  None if it is no call but text."""
        header = self.nameless
        if header is None:
            return [end]
        arguments = "".join(self._arguments)
        tool = self._tools.meant_by(arguments, declared=header.doubtful) if end.valid else None
        if tool is None and (header.odd or not header.literal or not self._any_name):
            return None
        return [*self._release(header, tool), end]

    def _release(self, header: Header, tool: str | None) -> list[ScanEvent]:
        start = self._literal(header)
        if tool:
            form = "inferred from its arguments"
            start = CallStart(tool, header.call_id, form, self._format)
        events: list[ScanEvent] = [start, *map(Arguments, self._arguments)]
        self.forget()
        return events

    def _literal(self, header: Header) -> CallStart:
        return CallStart(header.literal or "unnamed", header.call_id, LITERAL, self._format)
