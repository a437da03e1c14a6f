"""Which tool a call is of, and whether it may be called: headers in, calls out, or text."""

from __future__ import annotations

from .call_rule import CallRule
from .declared_tools import DeclaredTools
from .events import Arguments, CallEnd, CallStart, Header, ScanEvent
from .formats.protocol import Held, LeakFormat
from .tool_fit import tool_of

NAMELESS_LIMIT = 1024 * 1024
"""Characters of arguments held until the tool of a call without a name is known."""
LITERAL = "literal header"
"""The form of a header that names no tool, where the call is kept all the same."""


class CallNamer:
    """Names the calls of one choice, one after the other.

    A call whose header has no name is held until its tool is inferred from its arguments.  If
    that fails and any name is allowed, it is released under its literal header.
    """

    def __init__(self, tools: DeclaredTools) -> None:
        self._tools = tools
        self._any = False
        """Whether a call may have any name."""
        self._format = ""
        self._header: Header | None = None
        """That of a call that is held."""
        self._texts: list[str] = []
        self._size = 0

    @property
    def holds(self) -> bool:
        return self._header is not None

    @property
    def held(self) -> Held:
        """The header of the call that is held, and the pieces of its arguments."""
        literal = self._header.literal if self._header else ""
        return literal, self._texts, len(self._texts)

    def begin(self, of: LeakFormat, rule: CallRule) -> None:
        """The calls to come are of this format."""
        self._format = of.name
        self._any = rule.calls == "any"

    def forget(self) -> None:
        self._header, self._texts, self._size = None, [], 0

    def header(self, header: Header) -> list[ScanEvent] | None:
        """The start of a call; none yet if it is held.  None if it is no call but text."""
        if header.name is None and self._tools:
            self._header = header
            return []
        name, form = header.name, header.form
        if name not in self._tools:
            fits = None if name is None or header.resolved else tool_of(name, self._tools)
            if fits is None and not self._any:
                return None
            name, form = (fits, "mangled name") if fits else (name, form)
        if header.bare and self._tools:
            return None
        if name is None:
            return [self._literal(header)]
        return [CallStart(name, header.call_id, form, self._format)]

    def arguments(self, arguments: Arguments) -> list[ScanEvent]:
        if self._header is None:
            return [arguments]
        self._texts.append(arguments.text)
        self._size += len(arguments.text)
        return self._release(None) if self._size > NAMELESS_LIMIT else []

    def end(self, end: CallEnd) -> list[ScanEvent] | None:
        """The end of the call, after all of it that was held.  None if it is no call but text."""
        if self._header is None:
            return [end]
        arguments, declared = "".join(self._texts), self._header.doubtful
        meant = self._tools.meant_by(arguments, declared=declared) if end.valid else None
        if meant is None and not self._any:
            return None
        return [*self._release(meant), end]

    def _release(self, meant: str | None) -> list[ScanEvent]:
        header, texts = self._header, self._texts
        assert header is not None
        self.forget()
        form = "inferred from its arguments"
        if meant:
            start = CallStart(meant, header.call_id, form, self._format)
        else:
            start = self._literal(header)
        return [start, *map(Arguments, texts)]

    def _literal(self, header: Header) -> CallStart:
        name = header.literal or "unnamed"
        return CallStart(name, header.call_id, LITERAL, self._format)
