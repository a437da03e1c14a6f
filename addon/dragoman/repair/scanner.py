"""The scanner: text of one choice in, text and tool calls out.

It reads the text of one choice in the order in which the model wrote it, and is in one of three
places, which two values tell: the open `parser`, and the `candidate` that is in doubt.

| parser | candidate | the scanner is …             | and continues                          |
|--------|-----------|------------------------------|----------------------------------------|
| none   | none      | in text (`CallFinder`)       | in a section, at a marker that begins  |
| one    | any       | in a section (`CallReader`)  | in text, or after it while in doubt    |
| none   | one       | after a section, in doubt    | in text, or in the next section        |

A candidate that is refused, wherever it is, becomes text.  What all of them know of the text so
far is in the `ScanState`.

The invariants: every character of the input ends up in exactly one event, or in a marker, a
header, or white space around them; what is left as text is text to the character; and the
events, joined, do not depend on how the input was cut, but for a header that has left as
text before its argument marker came.
"""

from __future__ import annotations

from copy import copy
from functools import partial

from ..wire.reply_bounds import Budget
from .call_finder import CallFinder
from .call_reader import CANDIDATE_LIMIT, HELD_LIMIT, CallReader, Candidate, Outcome
from .call_rule import Rules
from .declared_tools import DeclaredTools
from .events import Call, Drop, Dropped, LeftAsText, Refusal, ScanEvent
from .formats.marker_search import MarkerSearch
from .formats.marker_set import HEADER_LIMIT
from .formats.protocol import LeakParser, MarkerMatch
from .scan_state import ScanState

_STEP = 32 * 1024
"""Characters that are read at once: what is held is copied with each marker."""


class Scanner:
    """Scans the text of one choice.

    `tools` also show whether a text could be, or become, the header of a call whose begin markers
    the host has stripped; such text is held where a call may start.
    """

    def __init__(
        self,
        tools: DeclaredTools,
        rules: Rules,
        formats: MarkerSearch,
        budget: Budget | None = None,
    ) -> None:
        """`budget`: that of its reply, which may have several texts."""
        self._rules = rules
        if tools.wants_json or any(rules(each).calls == "none" for each in formats.alone):
            formats = formats.without_alone()
        self._state = ScanState(formats, budget or Budget())
        self._calls = CallReader(tools, self._state)
        self._text = CallFinder(
            tools, rules, self._state, partial(_known_calls, tools, rules, self._state)
        )
        self.cut = False
        """Whether the text has ended within a call, or in its header after the marker."""

    # Its state

    @property
    def between(self) -> bool:
        """Whether nothing is held or open; text that comes may still begin something."""
        return not (self._calls.parser or self._calls.candidate or self._text.buffer)

    @property
    def alone(self) -> bool:
        """Whether a call may be open that is one only if the turn has nothing else."""
        return self._calls.candidate is not None and self._calls.candidate.alone

    @property
    def in_call(self) -> bool:
        """Whether a call is open, or may be."""
        return self._calls.parser is not None and self._calls.parser.in_call

    @property
    def fed(self) -> int:
        """Characters of the input: where the next text starts."""
        return self._state.fed

    @property
    def undecided(self) -> int:
        """Characters at the end of the input that are text or not, as the next text decides."""
        if self._calls.candidate is not None:
            return 0 if self._calls.held else self._calls.candidate.size
        return len(self._calls.parser.rest if self._calls.parser else self._text.buffer)

    @property
    def held_call(self) -> list[str]:
        """The text of a call that is held until it is whole, in pieces; it is not `undecided`."""
        return self._calls.held.raw if self._calls.held else []

    @property
    def held_size(self) -> int:
        """Characters of it."""
        return self._calls.held.size if self._calls.held else 0

    # Text in, events out

    def feed(self, text: str) -> list[ScanEvent]:
        """The events that `text` completes."""
        calls = self._calls
        for at in range(0, len(text), _STEP):
            piece = text[at : at + _STEP]
            self._state.fed += len(piece)
            if calls.candidate is not None:
                calls.candidate.add(piece)
            if calls.parser is not None:
                calls.parser.push(piece)
            else:
                self._text.buffer += piece
            self._run()
        return self._state.take()

    def take_more(self, text: str) -> str | None:
        """Take `text` if it only continues the text, and `feed` would give all of it at once, or
        the call that is held: return what is given.  Else nothing is taken."""
        calls, outside, held = self._calls, self._text, self._calls.held
        if (parser := calls.parser) is not None:
            if held is None or held.size > HELD_LIMIT or not parser.take_more(text):
                return None
            held.add(text)
            self._state.fed += len(text)
            return ""
        waits = calls.candidate or outside.buffer or outside.fresh or outside.channel
        formats = self._state.formats
        if waits or len(text) > _STEP or formats.may_begin_in(text):
            return None
        if not self._state.called:
            for first in formats.line_begins:
                if first in text and self._may_begin_line(text):
                    return None
        if text:
            outside.after_named = False
        self._state.read(text)
        self._state.fed += len(text)
        return text

    def _may_begin_line(self, text: str) -> bool:
        """Whether a line of `text`, or the line that it continues, begins with markup."""
        formats = self._state.formats
        if formats.line_begin(text):
            return True
        return text.lstrip()[:1] in formats.line_begins and self._state.at_line_begin

    def enter(self, name: str) -> list[ScanEvent]:
        """From here on the text is that of the field `name`, a separate text.  Returns the events
        that this completes."""
        if name == self._state.field:
            return []
        self._end_text(whole=not self.alone, last=False)  # it is not all of the turn
        if (parser := self._calls.parser) is not None and parser.whole:
            parser.end()
            self._run()
        if self._calls.parser is None:
            self._text.end()
            self._text.fresh = True
        self._text.ended = False
        self._state.enter(name)
        self._text.channel = None
        return self._state.take()

    def not_alone(self) -> list[ScanEvent]:
        """The turn has more than this text, as a native call: what must be alone is no call."""
        state, candidate = self._state, self._calls.candidate
        state.formats = state.formats.without_alone()
        if self._text.unknown.reading:
            self._run()
        if candidate is not None and candidate.alone:
            self._refuse(candidate, candidate.why_text)
            self._run()
        return state.take()

    def end_before_more(self, *, whole: bool = True) -> list[ScanEvent]:
        """This text has ended, but the turn may not have."""
        return [*self.not_alone(), *self.close(whole=whole)]

    def close(self, *, whole: bool = True) -> list[ScanEvent]:
        """The text has ended: what was held back, and the end of an open call.  `whole`:
        not by a limit, and not by a break."""
        self._end_text(whole=whole)
        while self._calls.parser is not None:
            self._end_section(self._calls.parser, whole=whole)
            self._end_quoted(whole=whole)
        self._calls.commit()
        self._text.end()
        return self._state.take()

    def release(self) -> list[ScanEvent]:
        """Repair ends here: what is held is text."""
        return self.close(whole=False)

    def abandon(self) -> list[ScanEvent]:
        """The reply broke off: what is held of a call, or of its marker, is not given, as clients
        keep the text of a turn and send it with the next request.  After a call nothing else is,
        either: kimi-cli runs a call once something follows it, and asks again."""
        calls, text, formats = self._calls, self._text, self._state.formats
        if calls.candidate is not None or calls.parser is not None:
            calls.forget()
            text.buffer = ""
            self._state.add(Dropped(Drop.HALF, "call"))
        marker, half = formats.find(text.buffer), formats.unfinished(text.buffer)
        if text.unknown.has_named:
            marker, text.buffer = None, ""
            self._state.add(Dropped(Drop.HALF, "call"))
        certain = marker.start if marker else len(text.buffer) - (half if half > 2 else 0)
        text.release(0 if self._state.called else certain)
        if text.buffer:
            text.buffer = ""
            self._state.add(Dropped(Drop.HALF, "marker"))
        return self._state.take()

    # Transitions

    def _run(self) -> None:
        """Read until more input is needed."""
        calls, text = self._calls, self._text
        while True:
            if calls.parser is not None:
                if (outcome := calls.run()) is Outcome.WAITS:
                    return
                self._leave_section(outcome)
            elif (candidate := calls.candidate) is not None:
                found = calls.after_section(candidate, text.buffer)
                if found is Outcome.WAITS:
                    return
                if isinstance(found, MarkerMatch):
                    if not text.ended and found.format.is_undecided(found, text.buffer):
                        return
                    self._begin(found)
                elif found is Outcome.REFUSED:
                    self._refuse(candidate, candidate.why_text)
            elif (begin := text.next_begin()) is not None:
                marker, header, calls.candidate = begin
                self._begin(marker, header)
            else:
                return

    def _leave_section(self, outcome: Outcome) -> None:
        if outcome is Outcome.REFUSED and self._calls.candidate is not None:
            self._refuse(self._calls.candidate, self._calls.refusal)
        elif outcome is Outcome.LEFT:
            self._text.buffer = self._calls.rest
            self._text.fresh = True

    def _begin(self, marker: MarkerMatch, header: str = "") -> None:
        """A section or a call may begin here."""
        text = self._text
        rest, text.buffer = text.buffer[marker.end :], ""
        self._calls.begin(marker, self._rules(marker.format), header, rest)
        if header:
            self._state.before = ""  # one header serves one call

    def _refuse(self, candidate: Candidate, why: Refusal) -> None:
        """The candidate is text, up to what has not been read yet."""
        calls, text = self._calls, self._text
        rest = calls.parser.rest if calls.parser else text.buffer
        calls.refuse(candidate)
        text.buffer = "".join(candidate.raw)
        size = len(text.buffer) - len(rest)
        if why is Refusal.WITHOUT_HEADER and not candidate.waits and not candidate.calls:
            found = self._state.formats.find_all(text.buffer[: size + HEADER_LIMIT])
            refused = [LeftAsText(each.name, why) for each in found if each.end <= size]
            if text.unknown.hold(size, refused):
                text.fresh = False
                return
        if not candidate.alone:
            text.unknown.end()
        near = text.buffer[: size + HEADER_LIMIT]
        code = copy(self._state.code)
        text.release(size, size if candidate.calls else 0)
        if not (candidate.calls or candidate.alone):
            self._state.code.end_header(code)
        text.after_named = candidate.named
        if calls.damaged is not None:
            why_damaged = ", cut off" if calls.damaged.cut else ""
            why_damaged = f": {calls.damaged.why}" if calls.damaged.why else why_damaged
            what = f"damaged call of {calls.damaged.name}{why_damaged}"
            self._state.add(LeftAsText(what, Refusal.DAMAGED))
        elif why is Refusal.TOO_LONG:
            self._state.add(LeftAsText("call", why))
        elif candidate.alone:
            if candidate.calls or candidate.size > CANDIDATE_LIMIT:
                self._state.add(LeftAsText("JSON call", why))
        else:
            for marker in self._state.formats.find_all(near):
                if marker.end > size:
                    break
                self._state.add(LeftAsText(marker.name, why))
        if why in (Refusal.TOO_LONG, Refusal.AFTER_ALL):
            self._state.give_up_all()
        if candidate.waits:
            self._state.budget.read_again += size
        if candidate.alone and (text.ended or candidate.size > CANDIDATE_LIMIT):
            self._state.budget.read_again += len(rest)
        text.fresh = False

    # Where a text ends

    def _end_text(self, *, whole: bool, last: bool = True) -> None:
        """No more of this text comes: what waits for it is decided.  `last`: nor of its turn."""
        self._text.ended = True
        self._text.ends_turn = whole and last
        self._run()
        self._end_quoted(whole=whole)

    def _end_section(self, parser: LeakParser, *, whole: bool) -> None:
        """No more comes of the open section: what of it is a call, and what is text."""
        lone = self._calls.candidate is not None and not parser.rest.strip()
        self.cut = parser.in_header and not lone
        parser.end(whole=whole)
        self._run()
        if self._calls.damaged is not None:
            self.cut = self._calls.damaged.cut

    def _end_quoted(self, *, whole: bool) -> None:
        """The turn, or a field of it, ends, and with it what may be quoted: a candidate in doubt
        is decided now."""
        calls = self._calls
        if calls.candidate is not None and calls.candidate.lacks and calls.parser is None:
            calls.commit()
            self._run()
        while (candidate := calls.candidate) is not None and candidate.is_quotation:
            if calls.parser is not None and calls.parser.holds:  # its end shows what follows it
                self._end_section(calls.parser, whole=whole)
                continue
            rest = calls.parser.unread if calls.parser else self._text.buffer
            if calls.end_quotation(candidate, rest, rest, ended=True):
                self._refuse(candidate, Refusal.QUOTED)
            self._run()
        while (candidate := calls.candidate) is not None and candidate.until_end:
            if whole and calls.parser is not None and calls.parser.whole:
                calls.parser.end()
                self._leave_section(calls.run())
                if calls.candidate is not candidate:
                    continue
            blank = not self._text.buffer.strip()
            if whole and calls.parser is None and candidate.calls and blank:
                self._text.buffer = ""
                calls.commit()
            else:
                self._refuse(candidate, candidate.why_text)
                self._run()


def _known_calls(tools: DeclaredTools, rules: Rules, state: ScanState, text: str) -> list[Call]:
    """The calls that are a text's in known formats."""
    of_lines = state.formats.of_lines
    formats = state.formats.without(of_lines) if of_lines else state.formats
    scanner = Scanner(tools, rules, formats)
    return [each for each in scanner.feed(text) + scanner.close() if isinstance(each, Call)]
