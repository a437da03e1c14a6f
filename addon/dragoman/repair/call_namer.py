"""Which tool a call is of, and whether it may be called: headers and whole calls in, calls out."""

from __future__ import annotations

from ..notes import LITERAL
from .call_rule import CallRule
from .declared_tools import DeclaredTools
from .events import Call, Header, Whole
from .formats.protocol import LeakFormat


class CallNamer:
    """Names the calls of one choice, one after the other.

    The tool of a call whose header has no name is inferred from its arguments.  If that fails and
    any name is allowed, it has its literal header.
    """

    def __init__(self, tools: DeclaredTools) -> None:
        self._tools = tools
        self._format: str
        self._any_name: bool
        self._header: Header | None = None
        """That of the open call."""

    def begin(self, leak_format: LeakFormat, rule: CallRule) -> None:
        """The next calls are of this format."""
        self._format, self._any_name = leak_format.name, rule.calls == "any"

    def takes(self, header: Header) -> bool:
        """Whether a call may have this header; else it is text."""
        self._header = header
        if header.name is None or header.odd:
            return bool(self._tools) or (header.name is None and not header.odd)
        if header.bare and self._tools:
            return False
        return self._any_name or self._name(header) is not None

    @property
    def decided(self) -> bool:
        """Whether the arguments of the open call do not decide if it is one."""
        header = self._header
        if header is None or header.name is not None:
            return True
        return self._any_name and bool(header.literal) and not header.odd

    def call(self, whole: Whole) -> Call | None:
        """The whole call; None if it is text."""
        header, self._header = self._header, None
        assert header is not None
        form, name = header.form, self._name(header)
        if header.name is None and self._tools:
            name = self._tools.meant_by("".join(whole.pieces), declared=header.doubtful)
            form = "inferred from its arguments"
            if name is None and (header.odd or not header.literal or not self._any_name):
                return None
        elif name not in (None, header.name):
            form = "mangled name"
        if name is None:
            name = header.name or header.literal or "unnamed"
            form = form if header.name else LITERAL
        unmarked, read = whole.unmarked, whole.read
        return Call(name, whole.pieces, header.call_id, form, self._format, unmarked, read)

    def _name(self, header: Header) -> str | None:
        """The declared tool that a header names."""
        name = header.name
        if name is None or name in self._tools:
            return name
        return None if header.resolved else self._tools.find(name)
