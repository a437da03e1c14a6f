"""The text of one choice outside of sections, up to where the next one may begin.

A marker is text at once where its format's `CallRule` allows no call, and in code that a
Markdown text quotes, unless nothing but white space may come after the section in its turn or
field (`CallRule.quoted_last`): Kimi leaves fences open, and a real section always ends its
turn, where a quoted one is followed by the fence's end.  Text before a marker is held while it
may be the header of a call whose begin marker the host has stripped.

A marker that begins no call is a stray one, or a line of text names it (``K3 begins a thought with
<|open|>think<|sep|> and …``): a word and a blank are before it, and a blank, punctuation or nothing
after it, or after those that follow it with nothing but blanks between.  Then it is text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy

from ..wire.reply_bounds import MAX_BLANK, MAX_CALLS
from .call_reader import Candidate
from .call_rule import CallRule, Rules
from .declared_tools import DeclaredTools
from .events import Call, Drop, Dropped, LeftAsText, Refusal, Text
from .formats.formats_by_family import lone_at_end
from .formats.marker_set import HEADER_LIMIT
from .formats.protocol import LeakFormat, MarkerMatch
from .quotation import AFTER_LIMIT, Quotation
from .scan_state import ScanState
from .unknown_call_finder import Answer, UnknownCallFinder

_MARKS = r"[^\w\s<{\[]{0,16}+"
_NAMED = re.compile(rf"{_MARKS}(?:\s|\Z|(?<=[^>])<)")
"""What follows a marker that is named; a bold word would be an answer."""
_MAY_BE_NAMED = re.compile(_MARKS)
"""The start of it."""
_MAX_BLANKS = 8
"""Blanks between a marker that is named and one with it that begins no call."""
_AROUND = r"[\w:.▁｜|-]{0,64}"
_OF_CALLS = "call|tool|func|invo|param|arg_|antml|DSML|GCML"
_SQUARE = "(?:CALLS?|REQUEST)"
_ENDS = "im_end|eot_id|eom_id|endoftext|end_of_text|end|return"
"""Tokens that end a turn, between bars."""
_REST = re.compile(
    rf"\s*+(?:</(?P<name>s|{_AROUND}?(?:{_OF_CALLS}){_AROUND}+)>"
    rf"|\[(?:/TOOL_{_SQUARE}|END_TOOL_{_SQUARE}|TOOL_{_SQUARE}_END)\]"
    rf"|<eos>|<｜end▁of▁sentence｜>|<\|(?:{_ENDS})\|>)"
)
"""What belongs to a call that it follows directly: a closing tag that some format may have, be it
misspelt, or a token that ends a turn."""
_REST_SO_FAR = re.compile(
    rf"\s*+(?:<(?:/{_AROUND}|[｜|]{_AROUND}|e(?:os?)?)?+|\[(?:/|[A-Z_]{{1,32}})?+)\Z"
)


class CallFinder:
    """Reads the text outside of sections."""

    def __init__(
        self,
        tools: DeclaredTools,
        rules: Rules,
        state: ScanState,
        known_calls: Callable[[str], list[Call]],
    ) -> None:
        """`known_calls` gives those of a text in known formats."""
        self._tools = tools
        self._rules = rules
        self._state = state
        without = [*state.formats.looking_back, *state.formats.alone]
        self._stripped = [each for each in without if rules(each).calls != "none"]
        """Formats of which a stripped header can be recognised."""
        self.buffer = ""
        """What is held of the text."""
        self.fresh = True
        """Whether a call may start here whose begin marker was stripped."""
        self.channel: MarkerMatch | None = None
        """The marker that gives the kind of the text that comes."""
        self.ended = False
        """Whether no more of this text comes."""
        self.ends_turn = False
        """Whether its turn has ended with it, whole."""
        self.after_named = False
        """Whether a marker that is text, in a line that may name one, has just been left."""
        self.unknown = UnknownCallFinder(tools, state, known_calls)
        """Finds calls in no known format."""

    # What leaves

    def release(self, size: int, calls: int = 0) -> None:
        """The buffer's first characters are text.  `calls`: see `ScanState.read`."""
        run, self.buffer = self.buffer[:size], self.buffer[size:]
        if run:
            self.after_named = False
            self.unknown.left()
            state = self._state
            start = state.fed - len(self.buffer) - size
            kind = self.channel.kind if self.channel else None
            state.add(Text(run, start, state.called, kind), calls)
            if self.fresh:
                few = not state.called or size <= MAX_BLANK
                self.fresh = few and not run.strip()

    def end(self) -> None:
        """No more of this text comes; what may begin in it has been read."""
        self.ended = False
        after_call = self._state.called and self.fresh
        code, before = self._state.code, "" if after_call else self._state.code.tail
        strays = [each for each in self._state.formats if self._takes_out(each, self._rules(each))]
        marker = lone_at_end(self.buffer, before, strays)
        if marker is not None:
            self.release(marker.start)
            marker = marker.moved(-marker.start)
            rule = self._rules(marker.format)
            quotation = code.quotation()
            quoted = self._state.begin_is_text or (quotation and quotation.quotes_line)
            named = code.names and not after_call and not quoted
            if quoted or named or self._why_text(marker, rule, is_open=code.is_open()):
                self._leave(marker, Refusal.NAMED if named else Refusal.QUOTED)
            else:
                self._drop(marker, rule, Drop.STRAY)
        after_call = self._state.called and self.fresh
        if after_call and self.buffer and not self.buffer.strip():
            self.buffer = ""
            self._state.add(Dropped(Drop.BLANKS, "after calls"))
        self.release(len(self.buffer))

    # Where the next section begins

    def next_begin(self) -> tuple[MarkerMatch, str, Candidate] | None:
        """The marker at which a section or a call may begin, before which all is decided, with
        the header before it, and a new candidate; None when more input is needed."""
        while (marker := self._find()) is not None:
            if not self.ended and marker.format.is_undecided(marker, self.buffer):
                return None
            header, text = self._text_before(marker)
            if text:
                self.release(text)
                marker = marker.moved(-text)
            rule, code = self._rules(marker.format), self._state.code
            if marker.start > 0:  # what is before it, its header, may end quoted code
                code = copy(code)
                code.feed(self.buffer[: marker.start])
            is_open = code.is_open()
            if why := self._why_text(marker, rule, is_open=is_open):
                self._leave(marker, why)
                continue
            opens = marker.is_opener or marker.format.stray_opens_call(marker, header, self.buffer)
            if opens is None and not self.ended:
                return None
            opens_call = opens and marker.kind is None
            after_call = self._state.called and self.fresh
            quotation = code.quotation(after_call=after_call)
            quoted: bool | None = False
            if quotation is not None:
                after = self.buffer[marker.end : marker.end + AFTER_LIMIT]
                ended = self.ended or len(after) == AFTER_LIMIT
                if opens_call:
                    quoted = marker.alone or not self._state.budget.reads_again
                else:
                    quoted = quotation.quotes_line or quotation.holds(after, ended=ended)
            if quoted is None:
                return None
            if quoted:
                self._leave(marker, Refusal.QUOTED)
                continue
            names = code.names or (self.after_named and not marker.start)
            named = self._named_until(marker) if names and not after_call else 0
            if named is None:
                return None
            if named and not opens_call:
                self._leave_all(marker, named)
                continue
            if self.channel is not None and self.channel.format is marker.format:
                self.channel = None
            if opens_call:
                candidate = self._candidate(marker, rule, quotation, is_open=is_open)
                candidate.named = named > 0
                return marker, header, candidate
            dropped = self._drop(marker, rule, Drop.CHANNEL if marker.kind else Drop.STRAY)
            if marker.kind and dropped:
                self.channel = marker
        return None

    def _find(self) -> MarkerMatch | None:
        """The first marker; if there is none, give what cannot become one."""
        if self._state.called and self.fresh and self._rest_waits():
            return None
        if not self.buffer:
            return None
        state, buffer = self._state, self.buffer
        marker = state.find(buffer, self.unknown.searched)
        if self.fresh and state.formats.alone and not (state.called or state.code.tail.strip()):
            for each in state.formats.alone:
                alone = each.at_start(buffer, self._tools)
                if alone is not None and (marker is None or alone.start < marker.start):
                    marker = alone
        may_be = self.unknown.may_be
        if marker and (marker.alone or not may_be):
            return marker
        end = marker.start if marker else len(buffer) - state.formats.unfinished(buffer)
        if marker is None and self._must_wait(buffer[:end]):
            return None
        after = len(buffer) - end
        if may_be and (unknown := self._find_unknown(after)) is not Answer.NONE:
            return unknown if isinstance(unknown, MarkerMatch) else None
        end = len(self.buffer) - after
        if marker is None:
            self.release(end)
            return None
        return marker.moved(end - marker.start)

    def _find_unknown(self, after: int) -> MarkerMatch | Answer:
        """Whether the buffer has a line that may be a call in no known format, or where such a call
        begins, but for so many characters at its end; what is before it is given."""
        while True:
            buffer, ended, ends_turn = self.buffer, self.ended, self.ends_turn
            found = self.unknown.next(buffer, after, ended=ended, ends_turn=ends_turn)
            if not isinstance(found, int):
                return found
            self.release(found)

    def _rest_waits(self) -> bool:
        """Take out what is left of the markup of a call right after it, but for the end of an
        element that is open in the text; True if more text decides what follows."""
        at, buffer = 0, self.buffer
        while found := _REST.match(buffer, at):
            if found["name"] and self._state.code.in_element(found["name"]):
                break
            at = found.end()
        if at:
            self.buffer = buffer[at:]
            self._state.add(Dropped(Drop.STRAY, "tag after a call"))
        half = _REST_SO_FAR.match(buffer, at)
        if half and self.ended and half[0].lstrip()[1:2] in ("/", "｜"):
            self.buffer = ""
            self._state.add(Dropped(Drop.HALF, "marker"))
        return half is not None and not self.ended

    def _candidate(
        self, marker: MarkerMatch, rule: CallRule, quotation: Quotation | None, *, is_open: bool
    ) -> Candidate:
        """What the text before a marker says of a section that begins there."""
        in_element = quotation is not None and quotation.in_element
        in_code = is_open or (rule.quoted_last and in_element)
        may_be, before = None if is_open else quotation, self.buffer[: marker.start]
        candidate = Candidate(in_code, may_be, self._state.code, before, alone=marker.alone)
        candidate.add(self.buffer)
        return candidate

    def _text_before(self, marker: MarkerMatch) -> tuple[str, int]:
        """What is before a marker: the header of a call whose begin marker was stripped;
        and how many characters are text."""
        run = self.buffer[: marker.start]
        before = self._state.before + run
        if header := marker.format.header_before(marker, before, self._tools):
            begins = len(run) - len(header)
            return header.strip(), begins if begins >= 0 else len(run)
        after_call = self._state.called and self.fresh and len(run) <= MAX_BLANK
        return "", 0 if after_call and not run.strip() else len(run)

    def _must_wait(self, run: str) -> bool:
        """Whether `run`, where nothing has been decided, may yet turn out not to be text."""
        if not self.fresh:
            return False
        if self._state.called and not run.strip():
            return len(run) <= MAX_BLANK
        return any(each.may_be_header(run, self._tools) for each in self._stripped)

    def _why_text(self, marker: MarkerMatch, rule: CallRule, *, is_open: bool) -> Refusal | None:
        """Why a marker, before which there is nothing but white space or its header, is text,
        whatever follows; None if it may be real."""
        if rule.calls == "none":
            return Refusal.NOT_MEANT
        if self._state.budget.calls >= MAX_CALLS:
            return Refusal.AFTER_ALL
        if marker.alone and not self._state.budget.reads_again:
            return Refusal.TOO_MANY
        if is_open:
            may_be_last = rule.quoted_last and marker.opens_call
            return None if may_be_last and self._state.budget.reads_again else Refusal.QUOTED
        if marker.format in self._state.begin_is_text and not marker.is_opener:
            return Refusal.OF_TEXT
        return None

    def _named_until(self, marker: MarkerMatch) -> int | None:
        """Where the markers that are named with this one end in the buffer, if what follows them
        shows that they are named; 0 if not, None if more text is needed."""
        find, near = self._state.formats.find, self.buffer[: marker.end + HEADER_LIMIT]
        ended = self.ended or len(near) == marker.end + HEADER_LIMIT
        if len(near) == marker.end and not ended:
            return None
        last, end = marker, marker.format.named_end(marker, near, ended=ended)
        while end is not None and (found := find(near, end)):
            if found.start > end + _MAX_BLANKS or near[end : found.start].strip(" "):
                break
            found_end = found.format.named_end(found, near, ended=ended)
            if found.start > end and found.opens_call and found_end == found.end:
                break
            last, end = found, found_end
        named = end and self._is_named(near, end, ended=ended)
        if not (end and named):
            return named
        return self._no_call_until(near, end, ended=ended) if last.opens_call else end

    def _no_call_until(self, text: str, end: int, *, ended: bool) -> int | None:
        """`end`, where a marker ends that begins calls, if none begins after it, in its line; 0 if
        one does, None if more text is needed."""
        formats, after = self._state.formats, text[end:].lstrip()
        half = 0 < len(after) == formats.unfinished(after)
        if not ended and (half or not after):
            return None
        if after.startswith("<") and not formats.begins_at(after):
            return 0
        line, line_end, _ = text[end:].partition("\n")
        found = formats.find(line)
        while found is not None:
            line_ended = ended or bool(line_end)
            found_end = found.format.named_end(found, line, ended=line_ended)
            named = found_end and self._is_named(line, found_end, ended=line_ended)
            if found.opens_call and not named:
                return named
            if found.format.header_before(found, line[: found.start], self._tools):
                return 0
            found = formats.find(line, found_end or found.end)
        return end if ended or line_end else None

    def _is_named(self, text: str, at: int, *, ended: bool) -> bool | None:
        """Whether a marker that ends at this place in a text is named, as what follows shows; one
        that takes blanks in is followed by them."""
        at = len(text[:at].rstrip())
        if not ended:
            rest = text[at:]
            half = rest and self._state.formats.unfinished(rest) == len(rest)
            if half or _MAY_BE_NAMED.fullmatch(rest):
                return None
        return _NAMED.match(text, at) is not None

    def _leave_all(self, marker: MarkerMatch | None, end: int) -> None:
        """The markers from this one on, up to this place in the buffer, are text."""
        while marker is not None and marker.end <= end:
            end -= marker.end
            self._leave(marker, Refusal.NAMED)
            marker = self._state.formats.find(self.buffer) if end else None

    def _leave(self, marker: MarkerMatch, why: Refusal) -> None:
        """The marker is text."""
        self._state.add_in_vain(marker.format)
        if marker.alone:
            self.release(marker.end)
            self.fresh = False
            return
        names = self._state.code.names or self.after_named
        self.release(marker.end)
        self.after_named = names
        self._state.add(LeftAsText(marker.name, why))
        if why is Refusal.AFTER_ALL:
            self._state.give_up_all()
        if marker.opens_call:
            self.unknown.end()
        if marker.opens_call or marker.within_call:
            self._state.begin_is_text.add(marker.format)

    def _drop(self, marker: MarkerMatch, rule: CallRule, kind: Drop) -> bool:
        """Whether a marker that begins no call is taken out; else it is text."""
        if marker.within_call or not self._takes_out(marker.format, rule):
            self._leave(marker, Refusal.ALONE)
            return False
        self._state.add_in_vain(marker.format)
        self.buffer = self.buffer[marker.end :]
        self._state.add(Dropped(kind, marker.name))
        self.fresh |= marker.kind is None
        return True

    def _takes_out(self, leak_format: LeakFormat, rule: CallRule) -> bool:
        """Whether the stray markers of a format are taken out."""
        return rule.strays or leak_format in self._state.called_in
