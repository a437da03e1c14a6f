"""What the readers of a choice share: its events so far, and what these mean for the rest."""

from __future__ import annotations

from collections.abc import Iterable

from ..wire.reply_bounds import LIKENESSES, MAX_COST, MAX_IN_VAIN, OF_A_CALL, Budget
from .events import LeftAsText, Refusal, ScanEvent, Text, joined
from .formats.marker_search import MarkerSearch
from .formats.protocol import LeakFormat, MarkerMatch
from .markdown import MarkdownCode


class ScanState:
    """The state of one choice."""

    def __init__(self, formats: MarkerSearch, budget: Budget) -> None:
        self.formats = formats
        """The formats that are looked for."""
        self.budget = budget
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
        budget, begin = self.budget, self.formats.begins_at(text, start)
        if begin == len(text):
            return None
        spent = [each for each, cost in budget.in_vain.items() if cost > MAX_COST]
        if spent or budget.given_up:
            self._give_up([*budget.given_up, *spent])
        return self.formats.find(text, begin, likenesses=budget.in_vain)

    def add_in_vain(self, leak_format: LeakFormat, markers: int = 1) -> None:
        """So many more of its markers begin no call."""
        budget = self.budget
        budget.in_vain[leak_format] += LIKENESSES * markers
        budget.all_in_vain += markers
        if budget.all_in_vain > 2 * MAX_IN_VAIN:
            self._give_up(self.formats)
        elif budget.in_vain[leak_format] > MAX_COST:
            self._give_up([leak_format])

    def give_up_all(self) -> None:
        """All that comes is text."""
        self.formats = self.formats.without(*self.formats)

    def _give_up(self, formats: Iterable[object]) -> None:
        """The markers of these formats are text from here on."""
        given_up = [each for each in self.formats if each in formats]
        if given_up:
            self.formats = self.formats.without(*given_up)
        for each in given_up:
            if each not in self.budget.given_up:
                self.budget.given_up.append(each)
                self.add(LeftAsText(f"marker of {each.name}", Refusal.TOO_MANY))

    def read(self, text: str, calls: int = 0) -> None:
        """`text` is text for certain; so many characters of it are whole calls."""
        code = self.code
        code.fence_lines = self.budget.fence_lines
        if calls:
            code.feed_calls(text[:calls])
        code.feed(text[calls:] if calls else text)
        self.budget.fence_lines = code.fence_lines
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
        budget = self.budget
        budget.calls += 1
        made_up = min(budget.in_vain[leak_format], LIKENESSES * OF_A_CALL)
        budget.in_vain[leak_format] -= made_up
        budget.all_in_vain -= min(budget.all_in_vain, made_up // LIKENESSES)
        self.begin_is_text.clear()

    def take(self) -> list[ScanEvent]:
        """The events, once."""
        events, self._events = self._events, []
        return joined(events) if len(events) > 1 else events
