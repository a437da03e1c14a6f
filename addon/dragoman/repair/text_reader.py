"""The text of one choice outside of sections, up to where the next one may begin.

A marker is text at once where its format's `CallRule` allows no call, and in code that a
Markdown text quotes, unless nothing but white space may come after the section in its turn or
field (`CallRule.quoted_last`): Kimi leaves fences open, and a real section always ends its
turn, where a quoted one is followed by the fence's end.  Text before a marker is held while it
may be the header of a call whose begin marker the host has stripped.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

from .call_reader import CANDIDATE_LIMIT, IN_CODE, TOO_MANY, Candidate
from .call_rule import CallRule, Rules
from .declared_tools import DeclaredTools
from .events import Dropped, LeftAsText, ScanEvent, Text
from .formats.active import ActiveFormats
from .formats.protocol import MarkerMatch
from .markdown import MarkdownCode
from .refused_markers import RefusedMarkers
from .scan_state import ScanState

BLANK_LIMIT = 4096
"""Characters of white space after a call that are held, as formatting unless text follows."""
MANY_IN_VAIN = 32
"""Markers, and what looked like one, in a row without a call; after so many, what refuses them
is kept (`RefusedMarkers`)."""
MAX_QUOTED = 4 * CANDIDATE_LIMIT
"""Characters of candidates in code that turned out to be text; after so many, markers in
code are text at once, as each of them is read twice."""


class TextReader:
    """Reads the text outside of sections."""

    def __init__(
        self,
        tools: DeclaredTools,
        rules: Rules,
        formats: ActiveFormats,
        state: ScanState,
        new_probe: Callable[[], Callable[[str], list[ScanEvent]]] | None,
    ) -> None:
        """`new_probe` makes a function that tells what would become of a text that came now; it
        is None in a probe."""
        self._tools = tools
        self._rules = rules
        self._formats = formats
        self._state = state
        self._new_probe = new_probe
        self._stripped = [each for each in formats.looking_back if rules(each).calls != "none"]
        """Formats of which a stripped header can be recognised."""
        self.buffer = ""
        """What is held of the text."""
        self.latest = 0
        """The size of the latest text that was fed, unless it is very long."""
        self.fresh = True
        """Whether a call may start here whose begin marker was stripped."""
        self.channel: MarkerMatch | None = None
        """The marker that gives the kind of the text that comes."""
        self.quoted = 0
        """See `MAX_QUOTED`."""
        self._refused: RefusedMarkers | None = None
        self._seen = 0
        """How many formats had been seen when that was made: strays of these are not text."""
        self.ended = False
        """Whether no more of this text comes."""

    @property
    def refused(self) -> RefusedMarkers | None:
        """The markers that were refused, after `MANY_IN_VAIN`."""
        return self._refused if self._seen == len(self._state.seen) else None

    # What leaves

    def give(self, size: int) -> None:
        """The buffer's first characters are text."""
        run, self.buffer = self.buffer[:size], self.buffer[size:]
        if run:
            state = self._state
            start = state.fed - len(self.buffer) - size
            kind = self.channel.kind if self.channel else None
            state.add(Text(start, run, state.called, kind))
            if self.fresh:
                formats = not state.called or size <= BLANK_LIMIT
                self.fresh = formats and not run.strip()

    def end(self) -> None:
        """No more of this text comes."""
        marker = self._formats.find(self.buffer)
        if marker is not None:  # nothing came after it
            self._stray(marker, self._rules(marker.format))
        if self._state.called and self.fresh and self.buffer and not self.buffer.strip():
            self.buffer = ""
            self._state.add(Dropped("white space after calls"))
        self.give(len(self.buffer))

    def learn(self, text: str, size: int = 1) -> None:
        """Keep how a text continues that was refused, which begins with a marker of this size."""
        refused = self.refused
        if refused is not None and not refused.full and self._new_probe is not None:
            refused.learn(self._new_probe(), text, size)

    # Where the next section begins

    def next_begin(self) -> tuple[MarkerMatch, str, Candidate] | None:
        """The marker at which a section or a call may begin, before which all is decided, with
        the header before it, and a new candidate; None when more input is needed."""
        state = self._state
        while not self._is_known():
            marker = self._find()
            if marker is None:
                return None
            header, text = self._text_before(marker)
            if text:
                self.give(text)
                if state.in_vain > MANY_IN_VAIN:
                    continue
                marker = marker.moved(-text)
            rule, code = self._rules(marker.format), self._code_before(marker)
            in_code = code.is_open()
            if why := self._why_text(marker, rule, in_code=in_code):
                self._leave(marker, why)
                if marker.opens_call:
                    state.begin_is_text.add(marker.format)
                continue
            opens = marker.is_opener or marker.format.stray_opens_call(marker, header, self.buffer)
            if opens is None:
                return None
            if self.channel is not None and self.channel.format is marker.format:
                self.channel = None
            if marker.kind and not state.too_many_in_vain:
                self._begin_channel(marker)
            elif opens and not marker.kind:
                return marker, header, self._candidate(marker, rule, code, in_code=in_code)
            else:
                self._stray(marker, rule)
        return None

    def _find(self) -> MarkerMatch | None:
        """The first marker; if there is none, give what cannot become one."""
        if not self.buffer:
            return None
        formats, buffer, marker, end = self._formats, self.buffer, None, len(self.buffer)
        if formats.may_begin_in(buffer):
            marker = formats.find(buffer)
            end = marker.start if marker else end - formats.unfinished(buffer)
            if formats.find_beginning(buffer, 0, end):  # what only looks like one
                self._state.in_vain += 1
                self.learn(buffer)
        if marker is None and not self._must_wait(buffer[:end]):
            self.give(end)
        return marker

    def _candidate(
        self, marker: MarkerMatch, rule: CallRule, code: MarkdownCode, *, in_code: bool
    ) -> Candidate:
        """What the text before a marker says of a section that begins there."""
        may_be = rule.calls == "declared" and not in_code and self.quoted < MAX_QUOTED
        # What comes right after a call is as it was.
        may_be = may_be and not (self._state.called and self.fresh)
        quotation = (code.quotation() or None) if may_be else None
        before, size = self.buffer[: marker.start], marker.end - marker.start
        candidate = Candidate(in_code, quotation, self._state.code, before, size)
        candidate.add(self.buffer)
        return candidate

    def _is_known(self) -> bool:
        """Whether nothing in the buffer has to be read, as refused markers show: what they show to
        be text is given."""
        state = self._state
        if state.in_vain <= MANY_IN_VAIN or self._new_probe is None:
            self._refused = None
            return False
        if self._refused is None:
            state.add(LeftAsText("marker", f"as others like it, {TOO_MANY}"))
        if (refused := self.refused) is None:
            refused = self._refused = RefusedMarkers(self._formats)
            self._seen = len(state.seen)
        certain, refused.certain = refused.certain, 0
        unknown = self.fresh or self.ended
        if not unknown:
            certain, unknown = refused.look(self.buffer, certain)
        size = len(self.buffer)
        # What came with the text that waits leaves with it.
        gives = certain if unknown or certain == size else min(certain, max(0, size - self.latest))
        self.give(gives)
        refused.certain = certain - gives
        return not unknown

    def _text_before(self, marker: MarkerMatch) -> tuple[str, int]:
        """What is before a marker: the header of a call whose begin marker was stripped;
        and how many characters are text."""
        run = self.buffer[: marker.start]
        before = self._state.before + run
        if header := marker.format.header_before(marker, before, self._tools):
            begins = len(run) - len(header)
            return header.strip(), begins if begins >= 0 else len(run)
        formats = self._state.called and self.fresh and len(run) <= BLANK_LIMIT
        return "", 0 if formats and not run.strip() else len(run)

    def _must_wait(self, run: str) -> bool:
        """Whether `run`, where nothing has been decided, may yet turn out not to be text."""
        if not self.fresh:
            return False
        if self._state.called and not run.strip():
            return len(run) <= BLANK_LIMIT
        return any(each.may_be_header(run, self._tools) for each in self._stripped)

    def _why_text(self, marker: MarkerMatch, rule: CallRule, *, in_code: bool) -> str:
        """Why a marker, before which there is nothing but white space or its header, is text;
        empty if it may be real."""
        if rule.calls == "none":
            return "where no call is meant"
        if in_code:
            may_be_last = rule.quoted_last and marker.opens_call and self.quoted < MAX_QUOTED
            return "" if may_be_last else IN_CODE
        if marker.format in self._state.begin_is_text and not marker.is_opener:
            return "with what it belongs to"
        return ""

    def _code_before(self, marker: MarkerMatch) -> MarkdownCode:
        """The text up to a marker; what is before it, its header, may end quoted code."""
        code = self._state.code
        if marker.start > 0:
            code = copy(code)
            code.feed(self.buffer[: marker.start])
        return code

    def _leave(self, marker: MarkerMatch, why: str) -> None:
        """The marker is text."""
        self._state.in_vain += 1
        self.learn(self.buffer[marker.start :], marker.end - marker.start)
        self.give(marker.end)
        self._state.add(LeftAsText(marker.name, why))

    def _begin_channel(self, marker: MarkerMatch) -> None:
        """The text that comes is of a kind of its own."""
        self._state.seen.add(marker.format)
        self.channel = marker
        self._drop(marker, "channel marker")

    def _stray(self, marker: MarkerMatch, rule: CallRule) -> None:
        dropped = rule.strays or marker.format in self._state.seen
        if not dropped or self._state.too_many_in_vain:
            self._leave(marker, TOO_MANY if dropped else "alone")
            return
        self._drop(marker, "stray")
        self.fresh = True

    def _drop(self, marker: MarkerMatch, what: str) -> None:
        self._state.in_vain += 1
        self.buffer = self.buffer[marker.end :]
        self._state.add(Dropped(f"{what} {marker.name}"))
