"""What may be calls, from a begin marker on, until it is certain what they are.

From the marker on the `LeakParser` of its format reads.  What came since the last certain
point is a *candidate*, kept as it came:

- if its header is no header, or names a tool that the format's `CallRule` does not allow, or
  its tool is not known within `CANDIDATE_LIMIT`, it is refused: it is text;
- if it is in code that a Markdown text quotes, only the end of that text decides (see
  `call_finder`), and anything but whole calls refuses it;
- if it may be quoted otherwise, its lines and what follows its calls decide (`Quotation`); of a
  model that leaves quotations open, the end of the text, as in code;
- else it is a call as soon as its header is there; one whose header has no name is a call if
  its arguments fit one tool alone, or if the rule allows any name.

What is certain is given out; then the next call of the section is a candidate again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Literal

from ..wire.reply_bounds import MAX_CALLS, OF_A_QUOTATION
from .call_namer import CallNamer
from .call_rule import CallRule
from .declared_tools import DeclaredTools
from .events import (
    Call,
    Damaged,
    Drop,
    Dropped,
    Header,
    NoHeader,
    ParseEvent,
    Refusal,
    ScanEvent,
    SectionStart,
    Text,
    Whole,
)
from .formats.protocol import LeakFormat, LeakParser, MarkerMatch
from .markdown import MarkdownCode
from .quotation import AFTER_LIMIT, Quotation
from .scan_state import ScanState

CANDIDATE_LIMIT = 64 * 1024
"""Characters that are held to find out; a longer candidate is text."""
HELD_LIMIT = 1024 * 1024
"""Characters of a call that is held until it is whole; a longer one is text."""
LINES_LIMIT = 1024
"""The first characters of a candidate, any of which may show that it is not quoted by lines; after
them that is asked once its section is over."""
MAX_WAITING = 64
"""Calls of one candidate that waits, as it may be quoted; one with more is."""


@dataclass(slots=True)
class Candidate:
    """Everything since the last point that is certain."""

    in_code: bool = False
    """Whether it is in code that a Markdown text quotes."""
    quotation: Quotation | None = None
    """How it may be quoted otherwise."""
    markdown: MarkdownCode | None = None
    """That text."""
    header: str = ""
    """What stands before its marker; of a call, `markdown` is fed nothing else."""
    raw: list[str] = field(default_factory=list)
    """All of its text, and the text after it."""
    size: int = 0
    compared: int = 0
    """How many characters of it have been looked at for lines that show that it is not quoted."""
    events: list[ScanEvent] = field(default_factory=list)
    """What it becomes if it is a call."""
    alone: bool = False
    """Whether nothing may follow it (`MarkerMatch.alone`)."""
    named: bool = False
    """Whether a line of text names its marker, unless it begins a call (`call_finder`)."""
    odd: bool = False
    """Whether the header of its call is none, and only the end of its text makes it a call."""
    lacks: Literal["", "some", "all"] = ""
    """Which arguments its last call lacks, of which its tool requires some: a text behind it may be
    one, or show that a text shows the format (``bash[ARGS]{} calls bash``)."""
    calls: int = 0
    """That began in it."""
    whole: int = 0
    """How many of its characters are of whole calls and texts between them: of ``<call A><half of
    call B>`` those of A.  Its events are of these alone."""

    def add(self, text: str) -> None:
        self.raw.append(text)
        self.size += len(text)

    def split_whole(self) -> Candidate:
        """Take what comes after the `whole` out of it, in which no call begins."""
        rest = Candidate()
        rest.add("".join(self.raw)[self.whole :])
        return rest

    @property
    def is_quotation(self) -> bool:
        """Whether what follows its calls decides, and not only the end of the text."""
        return self.quotation is not None and not self.until_end

    @property
    def until_end(self) -> bool:
        """Whether it is a call only if its text ends with it."""
        return self.in_code or self.odd or self.alone

    @property
    def quoted_in_text(self) -> bool:
        """Whether it is in code, or may be in code that its line closes."""
        return self.until_end or (self.quotation is not None and self.quotation.in_line)

    @property
    def why_text(self) -> Refusal:
        """Why it is text, if it is too long, or something else follows."""
        if self.alone:
            return Refusal.NOT_LAST
        if self.lacks:
            return Refusal.LACKING
        if self.odd:
            return Refusal.WITHOUT_HEADER
        return Refusal.QUOTED if self.waits else Refusal.UNDECLARED

    @property
    def waits(self) -> bool:
        """Whether what follows decides if it is quoted."""
        return self.quotation is not None or self.in_code or self.odd or self.alone


class Outcome(enum.Enum):
    """How far what was pushed has been read."""

    WAITS = enum.auto()
    """More input is needed."""
    LEFT = enum.auto()
    """The section is over: the `rest` is text again."""
    REFUSED = enum.auto()
    """The candidate is text: `refuse`."""


class CallReader:
    """Reads what may be calls of one choice, one section after the other."""

    def __init__(self, tools: DeclaredTools, state: ScanState) -> None:
        self._tools = tools
        self._state = state
        self.namer = CallNamer(tools)
        self._rule = CallRule("none")
        self._format: LeakFormat | None = None
        """That of the section which began last."""
        self.parser: LeakParser | None = None
        """That of the open section."""
        self.candidate: Candidate | None = None
        """It outlives its section if what follows decides on it."""
        self.held: Candidate | None = None
        """The candidate, if it is a call that is given once it is whole, and nothing else may make
        it text: the frames of its text need not wait."""
        self.rest = ""
        """The text after the latest section."""
        self.refusal = Refusal.UNDECLARED
        """Why the candidate is text."""
        self._begins = 0
        """Where the marker is with which the section began; 0 where nothing is before it, or once
        it is known that no call begins."""
        self._committed = False
        """Whether there was a call, or text, since the section began."""
        self.damaged: Damaged | None = None
        """What the candidate is, if it is text and part of a call."""

    # Text in

    def begin(self, marker: MarkerMatch, rule: CallRule, header: str, text: str) -> None:
        """A section or a call may begin at this marker, between `header` and `text`."""
        state = self._state
        state.add_in_vain(marker.format)
        self._format, self._rule = marker.format, rule
        self.namer.begin(marker.format, rule)
        self._begins = state.fed - len(text) - (marker.end - marker.start)
        self.parser = marker.format.parser(marker, header, state.fed - len(text), self._tools)
        self.parser.push(text)
        self.damaged, self._committed = None, False

    def run(self) -> Outcome:
        """Read as much as can be of the open section."""
        parser = self.parser
        assert parser is not None
        self.held = None
        while (event := parser.next()) is not None:
            doubtful = self.candidate is not None and self.candidate.quotation is not None
            refusal = self._why_quoted(parser, event) if doubtful else None
            if refusal := refusal or self._read(event):
                if isinstance(event, Text):
                    parser.put_back(event)  # calls of other formats may be in it
                self.refusal = refusal
                return Outcome.REFUSED
        if self.candidate is not None and (refusal := self._why_refused(parser)):
            self.refusal = refusal
            return Outcome.REFUSED
        candidate = self.candidate
        if parser.over:
            if candidate is not None and candidate.named and not candidate.calls:
                self.refusal = Refusal.QUOTED
                return Outcome.REFUSED
            self.rest, self.parser, self.held = parser.rest, None, None
            if candidate is not None and not (candidate.waits or candidate.lacks):
                self.commit()
            return Outcome.LEFT
        return Outcome.WAITS

    def _why_quoted(self, parser: LeakParser, event: ParseEvent | None = None) -> Refusal | None:
        """Why the candidate is text, as its lines show that were read before the `event`; None if
        it may be a call."""
        candidate = self.candidate
        if candidate is None or candidate.compared >= LINES_LIMIT:
            return None
        unread = event.text + parser.unread if isinstance(event, Text) else parser.unread
        candidate.compared = candidate.size - len(unread)
        quoted = self._quoted_by_lines(candidate, unread, over=False, held=parser.holds)
        return Refusal.QUOTED if quoted else None

    def _why_refused(self, parser: LeakParser) -> Refusal | None:
        """Why the candidate is text, as far as it has come; None if it may be a call."""
        candidate = self.candidate
        if candidate and candidate.quotation:
            if refusal := self._why_quoted(parser):
                return refusal
            candidate = self.candidate
        if candidate is None:
            return None
        if parser.holds and self.namer.decided and not candidate.waits:
            self.held = candidate
            is_long = candidate.size > HELD_LIMIT or parser.too_long
            return Refusal.TOO_LONG if is_long else None
        if candidate.size <= CANDIDATE_LIMIT:
            return None
        # What follows is too far away to quote it.
        waited = candidate.quotation is not None and (candidate.calls or parser.holds)
        quoted = not waited or self.end_quotation(candidate, parser.unread, "", ended=True)
        return candidate.why_text if quoted or candidate.until_end else None

    # What becomes of the candidate

    def commit(self) -> None:
        """The candidate, if there is one, is what it seemed to be."""
        candidate, self.candidate = self.candidate, None
        if candidate is None:
            return
        self._committed = True
        if candidate.markdown is not None and candidate.header:
            candidate.markdown.feed(candidate.header)
        for event in candidate.events:
            self._add(event)

    def refuse(self, candidate: Candidate) -> None:
        """The candidate is text; nothing is open any more."""
        quoted = candidate.quoted_in_text and not candidate.odd
        apart = quoted or (self._committed and self.damaged is not None)
        if self._format is not None and not apart:
            self._state.begin_is_text.add(self._format)
        if self._format is not None and candidate.calls:
            self._state.add_in_vain(self._format, OF_A_QUOTATION * candidate.calls)
        self.forget()

    def forget(self) -> None:
        """Nothing is open any more."""
        self.candidate = self.parser = self.held = None

    def after_section(self, candidate: Candidate, buffer: str) -> Outcome | MarkerMatch:
        """What becomes of the candidate, as the `buffer` comes after its section: it has `LEFT`
        if it is a call, and continues if another begins at a marker."""
        formats = self._state.formats
        if candidate.lacks:
            return self._after_lacking(candidate, buffer)
        if candidate.is_quotation:
            found = self._after_quotation(candidate, buffer)
            if not candidate.until_end:
                return found
        marker = formats.find(buffer)
        end = marker.start if marker else len(buffer) - formats.unfinished(buffer)
        if buffer[:end].strip() or candidate.size > CANDIDATE_LIMIT or not candidate.calls:
            return Outcome.REFUSED
        if marker is None:
            return Outcome.WAITS
        continues = marker.opens_call and marker.alone >= candidate.alone
        return marker if continues else Outcome.REFUSED

    def _after_lacking(self, candidate: Candidate, buffer: str) -> Outcome:
        """What becomes of a call that lacks an argument: text right behind it, or before a closing
        tag, may be that argument."""
        marker, at = self._next_marker(buffer)
        end = marker.start if marker else len(buffer) - self._state.formats.unfinished(buffer)
        text = buffer[at:end]
        if text.strip():
            glued = not text[0].isspace() or text.lstrip()[0] in "{["
            if glued or candidate.lacks == "all" or "</" in text:
                return Outcome.REFUSED
        if marker or len(buffer) - at > AFTER_LIMIT:
            self.commit()
            return Outcome.LEFT
        return Outcome.WAITS

    def _next_marker(self, buffer: str) -> tuple[MarkerMatch | None, int]:
        """The first marker in a text that begins something or follows text, and where those end
        that are right before it."""
        formats, at = self._state.formats, 0
        marker = formats.find(buffer)
        while marker and not (marker.opens_call or buffer[at : marker.start].strip()):
            at = marker.end
            marker = formats.find(buffer, at)
        return marker, at

    def _after_quotation(self, candidate: Candidate, buffer: str) -> Outcome | MarkerMatch:
        """What becomes of a candidate that may be quoted, not in code: its lines decide, or what
        follows, but for markers that only end something."""
        if self._quoted_by_lines(candidate, buffer):
            return Outcome.REFUSED
        if candidate.quotation is None:
            return Outcome.LEFT
        formats, near = self._state.formats, buffer[:AFTER_LIMIT]
        marker, at = self._next_marker(near)
        if marker and marker.opens_call and not near[: marker.start].strip():
            return marker
        after = near[at:]
        bare = after.lstrip()
        ended = candidate.size > CANDIDATE_LIMIT or len(buffer) > AFTER_LIMIT
        if not ended and 0 < len(bare) == formats.unfinished(bare):
            return Outcome.WAITS
        quoted = self.end_quotation(candidate, buffer, after, ended=ended)
        if quoted is None:
            return Outcome.WAITS
        return Outcome.REFUSED if quoted else Outcome.LEFT

    def end_quotation(
        self, candidate: Candidate, rest: str, after: str, *, ended: bool
    ) -> bool | None:
        """Whether the candidate is quoted, as `after` follows its calls; None if more text
        is needed, unless it has `ended`.  `rest` is what has not been read of it.  If it is not
        quoted, it is no more in doubt than any other."""
        if self._quoted_by_lines(candidate, rest):
            return True
        if candidate.quotation is None:
            return False
        quoted = candidate.quotation.holds(after, ended=ended)
        if quoted is False:
            self._set_unquoted(candidate)
        return quoted

    def _quoted_by_lines(
        self, candidate: Candidate, rest: str, *, over: bool = True, held: bool = False
    ) -> bool:
        """Whether the text of the candidate, but for the `rest`, which has not been read, shows
        that it is quoted.  If nothing may quote it, it is not; if only the end of its text decides,
        it counts as `in_code` from here on.  `held`: whether the end of that text may be no part of
        its call."""
        quotation = candidate.quotation
        if quotation is None or not quotation.by_lines:
            return False
        text = "".join(candidate.raw).removesuffix(rest)
        left = quotation.within(text if over else text[:LINES_LIMIT], over=over)
        if left is None:
            candidate.in_code = over and self._may_be_last(candidate)
            if candidate.in_code:
                candidate.quotation = None
            return not candidate.in_code
        if held:
            return False
        candidate.quotation = left
        if not (left.by_lines or left.in_line or left.closers):
            self._set_unquoted(candidate)
        return False

    def _may_be_last(self, candidate: Candidate) -> bool:
        """Whether the candidate, which is quoted, is a call if its text ends with it."""
        has_text = any(isinstance(each, Text) for each in candidate.events)
        return self._rule.quoted_last and not has_text

    def _set_unquoted(self, candidate: Candidate) -> None:
        """The candidate is not quoted: what of it is a call for certain is one."""
        candidate.in_code, candidate.quotation = False, None
        if self.parser is None:
            self.commit()
        elif candidate.events:
            rest = candidate.split_whole()
            self.commit()
            self.candidate = rest

    # What the parser gives

    def _read(self, event: ParseEvent) -> Refusal | None:
        """Take in an event.  Returns why the candidate is text, or None if it may be a
        call."""
        candidate = self.candidate
        no_call = isinstance(event, Text | NoHeader | Damaged)
        if no_call and candidate is not None and candidate.quoted_in_text:
            return candidate.why_text
        if isinstance(event, Header):
            if self._state.budget.calls >= MAX_CALLS:
                return Refusal.AFTER_ALL
            if candidate is not None and candidate.calls >= MAX_WAITING:
                return Refusal.QUOTED
            if event.odd:
                if candidate is None or not self._rule.quoted_last:
                    return Refusal.WITHOUT_HEADER
                candidate.odd = event.last
            if candidate is not None and candidate.lacks:
                candidate.lacks = ""
                rest = candidate.split_whole()
                self.commit()
                self.candidate = rest
            return None if self.namer.takes(event) else Refusal.UNDECLARED
        if isinstance(event, Whole):
            return None if self._read_call(event) else Refusal.UNDECLARED
        if isinstance(event, NoHeader):
            return Refusal.WITHOUT_HEADER
        if isinstance(event, Damaged):
            self.damaged = event
            return Refusal.DAMAGED
        if self._is_in_vain(event):
            if self._format not in self._state.formats:
                return Refusal.TOO_MANY
            if candidate is not None and candidate.named:
                return Refusal.QUOTED
            if not (self._rule.strays or self._format in self._state.called_in):
                return Refusal.ALONE
            if self._begins and self._rule.quoted_last:
                self._add(SectionStart(self._begins))
            self._begins = 0
        if isinstance(event, Text):  # inside a section, before, between or after its calls
            if candidate is not None and candidate.lacks and event.text.strip():
                return Refusal.LACKING
            trailing = self._state.called or (candidate is not None and candidate.calls > 0)
            if candidate is not None and not candidate.waits:
                self.commit()
            self._add(Text(event.text, event.start, trailing, event.kind))
            self._begin_candidate()
        elif isinstance(event, Dropped):
            if self._format is not None:
                self._state.add_in_vain(self._format)
            self._add(event)
        return None

    def _is_in_vain(self, event: ParseEvent) -> bool:
        """Whether this belongs to a section without any call."""
        if self.candidate is None or self.candidate.calls or self.parser is None:
            return False
        if isinstance(event, Text):
            return self.candidate.named or bool(event.text.strip())
        stray = isinstance(event, Dropped) and event.kind is Drop.STRAY
        return stray or self.parser.over

    def _read_call(self, whole: Whole) -> bool:
        """A whole call; False if it is text."""
        call = self.namer.call(whole)
        if call is None:
            return False
        candidate = self.candidate
        if candidate is not None and not candidate.waits:
            candidate.lacks = self._tools.lacks(call.name, call.value)
            if not candidate.lacks:
                self.commit()
        self._add(call)
        self._begin_candidate()
        return True

    def _begin_candidate(self) -> None:
        """All up to here is certain, unless it may be quoted; in what comes, a call may be text
        again."""
        parser, candidate = self.parser, self.candidate
        if parser is None:
            return
        if candidate is not None:
            candidate.whole = candidate.size - len(parser.rest)
        elif not parser.over:
            self.candidate = Candidate()
            self.candidate.add(parser.rest)

    def _add(self, event: ScanEvent) -> None:
        """The event is the candidate's, or certain."""
        if self.candidate is not None:
            self.candidate.events.append(event)
            self.candidate.calls += type(event) is Call
            return
        self._state.add(event)
        if type(event) is Call and self._format is not None:
            self._state.add_call(self._format)
