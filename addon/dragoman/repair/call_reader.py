"""What may be calls, from a begin marker on, until it is certain what they are.

From the marker on the `LeakParser` of its format reads.  What came since the last certain
point is a *candidate*, kept as it came:

- if its header is no header, or names a tool that the format's `CallRule` does not allow, or
  its tool is not known within `CANDIDATE_LIMIT`, it is refused: it is text;
- if it is in code that a Markdown text quotes, only the end of that text decides (see
  `text_reader`), and anything but whole calls refuses it;
- if it may be quoted otherwise, what follows its calls decides (`Quotation`);
- else it is a call as soon as its header is there; one whose header has no name is a call if
  its arguments fit one tool alone, or if the rule allows any name.

What is certain is given out; then the next call of the section is a candidate again.
"""

from __future__ import annotations

import enum
from dataclasses import replace

from .call_namer import CallNamer
from .call_rule import CallRule
from .candidate import Candidate
from .declared_tools import DeclaredTools
from .events import (
    Arguments,
    CallEnd,
    CallStart,
    Dropped,
    Header,
    NoHeader,
    NoJson,
    ParseEvent,
    ScanEvent,
    Text,
)
from .formats.active import ActiveFormats
from .formats.protocol import NOTHING_HELD, Held, LeakFormat, LeakParser, MarkerMatch
from .markdown import AFTER_LIMIT, NOT_QUOTED, Quotation

IN_CODE = "in quoted code"
"""Why a marker there is text."""
MAX_IN_VAIN = 256
"""Markers, and what looked like one, in a row without a call; after so many those that begin none
are text, as each that is taken out costs many times what text does."""
LINES_SEEN = 1024
"""Characters of a candidate up to which each new one may show that it is not quoted by lines;
later that is asked once its section is over."""
TOO_MANY = "after too many without a call"


class Outcome(enum.Enum):
    """How far what was pushed has been read."""

    WAITS = enum.auto()
    """More input is needed."""
    LEFT = enum.auto()
    """The section is over: the `rest` is text again."""
    REFUSED = enum.auto()
    """The candidate is text: `give_back` it."""


class CallReader:
    """Reads what may be calls of one choice, one section after the other."""

    def __init__(self, tools: DeclaredTools) -> None:
        self._tools = tools
        self._namer = CallNamer(tools)
        self._rule = CallRule("none")
        self._format: LeakFormat | None = None
        """That of the section which began last."""
        self._pieces: list[ScanEvent] = []
        self.parser: LeakParser | None = None
        """That of the open section."""
        self.candidate: Candidate | None = None
        """In code it outlives its section."""
        self.rest = ""
        """What stood after a section that was left."""
        self.refusal = ""
        """Why the candidate is text."""
        self.called = False
        """Whether there was a call."""
        self.in_vain = 0
        """See `MAX_IN_VAIN`."""
        self.seen: set[LeakFormat] = set()
        """Formats of which a call or a section was there."""
        self.begin_is_text: set[LeakFormat] = set()
        """Formats of which a begin marker was left as text: then what belongs to it is, too."""

    @property
    def in_call(self) -> bool:
        """Whether a call is open, or may be."""
        return self.parser is not None and self.parser.in_call

    @property
    def too_many(self) -> bool:
        """See `MAX_IN_VAIN`."""
        return self.in_vain > MAX_IN_VAIN

    @property
    def held_call(self) -> Held:
        """See `Scanner.held_call`."""
        if self.candidate is not None or self.parser is None:
            return NOTHING_HELD
        return self._namer.held if self._namer.holds else self.parser.held

    # What comes

    def begin(
        self, marker: MarkerMatch, rule: CallRule, header: str, start: int, text: str
    ) -> None:
        """A section or a call may begin at this marker, after which `text` came, whose offset
        is `start`.  `header` is that before the marker."""
        self.in_vain += 1
        self._format, self._rule = marker.format, rule
        self._namer.begin(marker.format, rule)
        self.parser = marker.format.parser(marker, header, start, self._tools)
        self.parser.push(text)

    def takes(self, text: str) -> str | None:
        """See `Scanner.takes`: arguments of the open call."""
        if self.parser is None or self.candidate is not None or self._namer.holds:
            return None
        return self.parser.takes(text)

    def run(self) -> Outcome:
        """Read as much as can be of the open section."""
        parser = self.parser
        assert parser is not None
        while (event := parser.next()) is not None:
            if refusal := self._refusal(event):
                self.refusal = refusal
                return Outcome.REFUSED
        if self.candidate is not None and self.candidate.size <= LINES_SEEN:
            self._quoted_by_lines(parser.rest)
        candidate = self.candidate
        if candidate is not None and candidate.too_long and not self._be_no_quotation():
            self.refusal = IN_CODE if candidate.in_code else "of no declared tool"
            return Outcome.REFUSED
        if not parser.over:
            return Outcome.WAITS
        self.rest, self.parser = parser.rest, None
        if candidate is not None and not candidate.waits:
            self.commit()
        return Outcome.LEFT

    def take(self) -> list[ScanEvent]:
        """The pieces that are certain, once."""
        pieces, self._pieces = self._pieces, []
        return pieces

    # What becomes of the candidate

    def commit(self) -> None:
        """The candidate, if there is one, is what it seemed to be."""
        if self.candidate is not None:
            candidate, self.candidate = self.candidate, None
            self._pieces += candidate.pieces
            if candidate.markdown is not None:
                candidate.markdown.feed(candidate.before)
            if candidate.calls:
                self._has_called()
            if self._format is not None:
                self.seen.add(self._format)

    def after_section(self, buffer: str, formats: ActiveFormats) -> Outcome | MarkerMatch:
        """What becomes of the candidate, as the `buffer` comes after its section: it has `LEFT`
        if it is a call, and goes on if another begins at a marker."""
        candidate = self.candidate
        assert candidate is not None
        if candidate.quotation:
            return self._after_quotation(candidate, buffer, formats)
        marker = formats.find(buffer)
        end = marker.start if marker else len(buffer) - formats.unfinished(buffer)
        if buffer[:end].strip() or candidate.too_long or not candidate.calls:
            return Outcome.REFUSED
        if marker is None:
            return Outcome.WAITS
        return marker if marker.begins_call else Outcome.REFUSED

    def _after_quotation(
        self, candidate: Candidate, buffer: str, formats: ActiveFormats
    ) -> Outcome | MarkerMatch:
        """The same where it may be quoted otherwise than in code: its lines decide, or what
        follows, but for markers that only end something."""
        if self._quoted_by_lines(buffer):
            return Outcome.REFUSED
        if not candidate.quotation:
            return Outcome.LEFT
        near, at = buffer[:AFTER_LIMIT], 0
        marker = formats.find(near)
        while marker and not (marker.begins_call or near[at : marker.start].strip()):
            at = marker.end
            marker = formats.find(near, at)
        if marker and marker.begins_call and not near[: marker.start].strip():
            return marker
        after = near[at:]
        bare = after.lstrip()
        ended = candidate.too_long or len(buffer) > AFTER_LIMIT
        if not ended and 0 < len(bare) == formats.unfinished(bare):
            return Outcome.WAITS
        quoted = self.end_quotation(buffer, after, ended=ended)
        if quoted is None:
            return Outcome.WAITS
        return Outcome.REFUSED if quoted else Outcome.LEFT

    def _quoted_by_lines(self, rest: str) -> bool:
        """Whether all lines of the candidate are quoted, but for the `rest`, which has not been
        read.  If they are not, and nothing else may quote it, it is not quoted."""
        candidate = self.candidate
        if candidate is None or not candidate.quotation.by_lines:
            return False
        if candidate.quotation.holds_lines(candidate.read(rest)):
            return True
        candidate.quotation = Quotation(closers=candidate.quotation.closers)
        if not candidate.quotation:
            self._be_unquoted(candidate)
        return False

    def end_quotation(self, rest: str, after: str, *, ended: bool) -> bool | None:
        """Whether the candidate is quoted, see `Quotation.holds`; the `rest` has not been read.
        If it is not, it is no more in doubt than any other."""
        if self._quoted_by_lines(rest):
            return True
        candidate = self.candidate
        if candidate is None or not candidate.quotation:
            return False
        quoted = candidate.quotation.holds(after, ended=ended)
        if quoted is False:
            self._be_unquoted(candidate)
        return quoted

    def _be_unquoted(self, candidate: Candidate) -> None:
        """The candidate is not quoted: what of it is a call for certain is one."""
        candidate.quotation = NOT_QUOTED
        _, count = candidate.whole
        is_open = any(isinstance(piece, CallStart) for piece in candidate.pieces[count:])
        if self.parser is None or is_open:
            self.commit()
        elif count:
            rest = candidate.after_whole()
            self.commit()
            self.candidate = rest

    def _be_no_quotation(self) -> bool:
        """A candidate that is too long to be held is not quoted by what follows.  Whether it
        was held for that."""
        if self.candidate is None or not (self.candidate.quotation and self.candidate.calls):
            return False
        rest = self.parser.rest if self.parser else ""
        return self.end_quotation(rest, "", ended=True) is False

    def give_back(self) -> Candidate:
        """The candidate, which is text; nothing is open any more."""
        candidate = self.candidate
        assert candidate is not None
        if not candidate.in_code and self._format is not None:
            self.begin_is_text.add(self._format)
        self.candidate = None
        self.forget()
        return candidate

    def forget(self) -> None:
        """What is open has no end."""
        self.parser = None
        self._namer.forget()

    # What the parser gives

    def _refusal(self, event: ParseEvent) -> str:
        """Take in an event.  Returns why the candidate is text, or nothing if it may be a
        call."""
        if self.candidate is not None and self.candidate.in_code:
            cut = isinstance(event, CallEnd) and not event.valid
            if cut or isinstance(event, Text | NoHeader | NoJson):
                return IN_CODE
        if isinstance(event, Header | Arguments | CallEnd):
            return "" if self._take_call(event) else "of no declared tool"
        if isinstance(event, NoHeader):
            return "without a header"
        if self.too_many and self._is_in_vain(event):
            return TOO_MANY
        if isinstance(event, Text):  # inside a section, before, between or after its calls
            trailing = self.called or (self.candidate is not None and self.candidate.calls)
            if self.candidate is not None and not self.candidate.waits:
                self.commit()
            self._add(replace(event, trailing=trailing))
            self._begin_anew()
        elif isinstance(event, Dropped):
            self.in_vain += 1
            self._add(event)
        return ""

    def _is_in_vain(self, event: ParseEvent) -> bool:
        """Whether this belongs to a section without any call."""
        if self.candidate is None or self.candidate.calls or self.parser is None:
            return False
        if isinstance(event, Text):
            return bool(event.text.strip())
        stray = isinstance(event, Dropped) and event.what.startswith("stray")
        return stray or self.parser.over

    def _take_call(self, event: Header | Arguments | CallEnd) -> bool:
        """Part of a call; False where it is none."""
        pieces: list[ScanEvent] | None
        if isinstance(event, Header):
            pieces = self._namer.header(event)
        elif isinstance(event, Arguments):
            pieces = self._namer.arguments(event)
        else:
            pieces = self._namer.end(event)
        if pieces is None:
            return False
        if not self._namer.holds or self._rule.calls == "any":
            self._be_certain()
        for piece in pieces:
            self._add(piece)
        if isinstance(event, CallEnd):
            self._begin_anew()
        return True

    def _be_certain(self) -> None:
        """The candidate is a call; in code, that is known only in the end."""
        if self.candidate is not None and not self.candidate.waits:
            self.commit()
        if self.candidate is None:
            self._has_called()

    def _has_called(self) -> None:
        self.called = True
        self.in_vain = 0
        self.begin_is_text.clear()

    def _begin_anew(self) -> None:
        """All up to here is certain, unless it may be quoted; in what comes, a call may be text
        again."""
        if self.parser is None:
            return
        candidate = self.candidate
        if candidate is not None:
            candidate.whole = candidate.size - len(self.parser.rest), len(candidate.pieces)
        elif not self.parser.over:
            self.candidate = Candidate()
            self.candidate.add(self.parser.rest)

    def _add(self, piece: ScanEvent) -> None:
        (self.candidate.pieces if self.candidate else self._pieces).append(piece)
