"""What the readers of a choice share: its events so far, and what these mean for the rest."""

from __future__ import annotations

from .events import ScanEvent, Text, joined
from .formats.protocol import LeakFormat
from .markdown import MarkdownCode

MAX_IN_VAIN = 256
"""Markers, or what looked like one, in a row without a call; after so many, those that begin none
are text, as to drop one costs much more than to forward text."""


class ScanState:
    """The state of one choice."""

    def __init__(self, look_back: int) -> None:
        """`look_back`: see `LeakFormat.look_back`."""
        self._look_back = look_back
        self._events: list[ScanEvent] = []
        self.fed = 0
        """Characters of the choice so far."""
        self.called = False
        """Whether there was a call."""
        self.in_vain = 0
        """See `MAX_IN_VAIN`."""
        self.seen: set[LeakFormat] = set()
        """Formats of which a call, a section or a channel was there."""
        self.begin_is_text: set[LeakFormat] = set()
        """Formats of which a begin marker was left as text: their other markers are text, too."""
        self.field = ""
        """The field of the text."""
        self.code = MarkdownCode()
        """The text of this field so far."""
        self._fields = {self.field: self.code}
        self.before = ""
        """The end of that text, where a stripped header may stand."""

    @property
    def too_many_in_vain(self) -> bool:
        return self.in_vain > MAX_IN_VAIN

    @property
    def may_skip(self) -> bool:
        """See `Scanner.may_skip`."""
        return all(code.is_settled for code in self._fields.values())

    def read(self, text: str) -> None:
        """`text` is text for certain."""
        self.code.feed(text)
        if self._look_back:
            self.before = (self.before + text)[-self._look_back :]

    def skip(self) -> None:
        """See `Scanner.passed_unread`."""
        for code in self._fields.values():
            code.skip()
        self.before = ""

    def enter(self, field: str) -> None:
        """From here on the text is that of this field."""
        self.field = field
        self.code = self._fields.setdefault(field, MarkdownCode())
        self.before = ""

    def add(self, event: ScanEvent) -> None:
        """The next event is certain."""
        self._events.append(event)
        if type(event) is Text:
            self.read(event.text)

    def add_call(self) -> None:
        """What was found is a call."""
        self.called = True
        self.in_vain = 0
        self.begin_is_text.clear()

    def take(self) -> list[ScanEvent]:
        """The events, once."""
        events, self._events = self._events, []
        return joined(events) if len(events) > 1 else events
