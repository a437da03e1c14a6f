"""What the readers of a choice share: its events so far, and what these mean for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from .events import LeftAsText, Refusal, ScanEvent, Text, joined
from .formats.marker_search import MarkerSearch
from .formats.protocol import LeakFormat, MarkerMatch
from .markdown import MarkdownCode

MAX_IN_VAIN = 256
"""Markers of one format without a call; after so many, its markers are text for the rest of the
turn: each costs as much as ten thousand characters of text."""
MAX_ALL_IN_VAIN = 512
"""Markers of all formats together without a call; after so many, all that comes is text."""
OF_A_CALL = 16
"""Markers for which a call makes up."""
OF_A_QUOTATION = 3
"""Markers more that a whole call counts which is text: it costs as much as four."""
MAX_LIKENESSES = 4096
"""Beginnings of a format's markers that are those of none (``<| ``), which cost less."""
MAX_CALLS = 256
"""Calls of one reply, after which all markers are text: no client could run more at once."""


@dataclass(slots=True)
class ReplyCounts:
    """What all choices, or items, of one reply have found: a limit is one of the reply."""

    in_vain: dict[LeakFormat, int] = field(default_factory=dict)
    """See `MAX_IN_VAIN`."""
    likenesses: Counter[LeakFormat] = field(default_factory=Counter)
    """See `MAX_LIKENESSES`."""
    given_up: list[LeakFormat] = field(default_factory=list)
    """The formats of which there were too many."""
    calls: int = 0
    fence_lines: int = 0
    """See `markdown.MAX_FENCE_LINES`."""


class ScanState:
    """The state of one choice."""

    def __init__(self, formats: MarkerSearch, counts: ReplyCounts) -> None:
        self.formats = formats
        """The formats that are looked for."""
        self.counts = counts
        self._events: list[ScanEvent] = []
        self.fed = 0
        """Characters of the choice so far."""
        self.called = False
        """Whether there was a call."""
        self.called_in: set[LeakFormat] = set()
        """Formats of which there was a call."""
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
    def at_line_begin(self) -> bool:
        """Whether nothing but blanks is in the line so far."""
        return not self.code.tail.rpartition("\n")[2].strip()

    def find(self, text: str, start: int = 0) -> MarkerMatch | None:
        """The first marker in a text, which is not before `start`."""
        begin, likenesses = self.formats.begins_at(text, start), self.counts.likenesses
        if begin == len(text):
            return None
        many = [each for each, count in likenesses.items() if count > MAX_LIKENESSES]
        if many or self.counts.given_up:
            self._give_up([*self.counts.given_up, *many])
        return self.formats.find(text, begin, likenesses=likenesses)

    def add_in_vain(self, leak_format: LeakFormat, markers: int = 1) -> None:
        """So many more of its markers begin no call."""
        in_vain = self.counts.in_vain
        in_vain[leak_format] = count = in_vain.get(leak_format, 0) + markers
        if sum(in_vain.values()) > MAX_ALL_IN_VAIN:
            self._give_up(self.formats)
        elif count > MAX_IN_VAIN:
            self._give_up([leak_format])

    def give_up_all(self) -> None:
        """All that comes is text."""
        self.formats = self.formats.without(*self.formats)

    def _give_up(self, formats: Iterable[LeakFormat]) -> None:
        """The markers of these formats are text from here on."""
        given_up = [each for each in formats if each in self.formats]
        if given_up:
            self.formats = self.formats.without(*given_up)
        for each in given_up:
            if each not in self.counts.given_up:
                self.counts.given_up.append(each)
                self.add(LeftAsText(f"marker of {each.name}", Refusal.TOO_MANY))

    def read(self, text: str, calls: int = 0) -> None:
        """`text` is text for certain; so many characters of it are whole calls."""
        code = self.code
        code.fence_lines = self.counts.fence_lines
        if calls:
            code.feed_calls(text[:calls])
        code.feed(text[calls:] if calls else text)
        self.counts.fence_lines = code.fence_lines
        if look_back := self.formats.look_back:
            self.before = (self.before + text)[-look_back:]

    def enter(self, field: str) -> None:
        """From here on the text is that of this field."""
        self.field = field
        self.code = self._fields.setdefault(field, MarkdownCode())
        self.before = ""

    def add(self, event: ScanEvent, calls: int = 0) -> None:
        """The next event is certain.  `calls`: see `read`."""
        self._events.append(event)
        if type(event) is Text:
            self.read(event.text, calls)

    def add_call(self, leak_format: LeakFormat) -> None:
        """What was found is a call of this format."""
        self.called = True
        self.code.add_call()
        self.called_in.add(leak_format)
        counts = self.counts
        counts.calls += 1
        counts.in_vain[leak_format] = max(0, counts.in_vain.get(leak_format, 0) - OF_A_CALL)
        self.begin_is_text.clear()

    def take(self) -> list[ScanEvent]:
        """The events, once."""
        events, self._events = self._events, []
        return joined(events) if len(events) > 1 else events
