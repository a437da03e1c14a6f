"""Which tool a call is of, and whether it may be called: headers in, calls out, or text."""

from __future__ import annotations

from .call_rule import CallRule
from .declared_tools import DeclaredTools
from .events import Arguments, CallEnd, CallStart, Header, ScanEvent

NAMELESS_LIMIT = 1024 * 1024
"""Characters of arguments kept until a call without a name can be told from them."""


class CallNamer:
    """Names the calls of one choice, one after the other.

    A call whose header has no name is held until its arguments tell the tool; then, or if
    they do not and any name is allowed, it is given out under its literal header.
    """

    def __init__(self, tools: DeclaredTools, rule: CallRule) -> None:
        self._tools = tools
        self._any = rule.calls == "any"
        self._header: Header | None = None
        """That of a call that is held."""
        self._texts: list[str] = []
        self._size = 0

    @property
    def holds(self) -> bool:
        """Whether a call is held."""
        return self._header is not None

    @property
    def held(self) -> tuple[str, list[str], int]:
        """The header of the call that is held, and the pieces of its arguments: so many of a
        list that may grow."""
        literal = self._header.literal if self._header else ""
        return literal, self._texts, len(self._texts)

    def forget(self) -> None:
        """The call that is held is none."""
        self._header, self._texts, self._size = None, [], 0

    def header(self, header: Header) -> list[ScanEvent] | None:
        """The start of a call; none yet if it is held.  None if it is no call but text."""
        if header.name is None and self._tools:
            self._header = header
            return []
        if header.name not in self._tools and not self._any:
            return None
        if header.bare and self._tools:
            return None
        if header.name is None:
            return [_literal(header)]
        return [CallStart(header.name, header.call_id, header.form)]

    def arguments(self, arguments: Arguments) -> list[ScanEvent]:
        """More of the call, if it is not held."""
        if self._header is None:
            return [arguments]
        self._texts.append(arguments.text)
        self._size += len(arguments.text)
        return self._release(None) if self._size > NAMELESS_LIMIT else []

    def end(self, end: CallEnd) -> list[ScanEvent] | None:
        """The end of the call, after all of it that was held.  None if it is no call but text."""
        if self._header is None:
            return [end]
        meant = self._tools.meant_by("".join(self._texts)) if end.valid else None
        if meant is None and not self._any:
            return None
        return [*self._release(meant), end]

    def _release(self, meant: str | None) -> list[ScanEvent]:
        header, texts = self._header, self._texts
        assert header is not None
        self.forget()
        form = "inferred from its arguments"
        start = CallStart(meant, header.call_id, form) if meant else _literal(header)
        return [start, *map(Arguments, texts)]


def _literal(header: Header) -> CallStart:
    return CallStart(header.literal or "unnamed", header.call_id, "literal header")
