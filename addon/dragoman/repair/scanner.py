"""The scanner: text of one choice in, text and tool calls out.

It reads the text of one choice in the order in which the model wrote it.  Outside of
sections the `TextReader` looks for markers of the active formats; from one that begins
something on the `CallReader` reads, and says which of it are calls.  What it refuses is text.

The invariants: every character of the input ends up in exactly one piece, or in a marker, a
header, or white space around them; what is left as text is text to the character; and the
pieces, joined, do not depend on how the input was cut, but for a header that has left as
text before its argument marker came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .call_reader import IN_CODE, CallReader, Outcome
from .call_rule import Rules
from .declared_tools import DeclaredTools
from .events import LeftAsText, ScanEvent, Text
from .formats.active import ActiveFormats
from .formats.protocol import Held, MarkerMatch
from .refused_markers import RefusedMarkers
from .text_reader import TextReader

_SEEN_AFTER = 256
"""Characters after a marker that distinguish it from another format's."""
_STEP = 2048
"""Characters that are read at once: what is held is copied with each marker."""


class Scanner:
    """Scans the text of one choice.

    `tools` name calls, and tell whether a text could be, or become, the header of a call
    whose begin markers the host has stripped; such text is held where a call may start.
    """

    def __init__(self, tools: DeclaredTools, rules: Rules, formats: ActiveFormats) -> None:
        self._rules = rules
        self._formats = formats
        self._calls = CallReader(tools)
        probe = partial(_probe, tools, rules, formats, self._calls)
        self._text = TextReader(tools, rules, formats, self._calls, probe)
        self.cut_in_header = False
        """Whether the text has ended in the header of a call, after its marker."""

    # What is asked

    @property
    def idle(self) -> bool:
        """Whether text in which no marker begins would come out as it went in."""
        calls, text = self._calls, self._text
        held = calls.parser or calls.candidate or text.buffer
        return not (held or text.fresh or text.channel)

    @property
    def between(self) -> bool:
        """Whether nothing is held or open; text that comes may still begin something."""
        return not (self._calls.parser or self._calls.candidate or self._text.buffer)

    @property
    def refused(self) -> RefusedMarkers | None:
        """What is known of markers, if nothing else than them matters in the text that comes."""
        text, calls = self._text, self._calls
        plain = text.channel is None and not (text.fresh or calls.candidate)
        return text.refused if plain and calls.parser is None else None

    @property
    def in_call(self) -> bool:
        """Whether a call is open, or may be."""
        return self._calls.in_call

    @property
    def undecided(self) -> int:
        """Characters at the end of the input that are text, or not, by what comes."""
        if self._calls.candidate is not None:
            return self._calls.candidate.size
        return len(self._calls.parser.rest if self._calls.parser else self._text.buffer)

    @property
    def held_call(self) -> Held:
        """What is held back that is no `undecided` text: the header of a call that has no name
        yet, and the pieces of its arguments; or those of a value of the open call."""
        return self._calls.held_call

    @property
    def may_skip(self) -> bool:
        """Whether text without a backtick or a tilde may go by without being kept."""
        return self._text.may_skip

    # What comes

    def feed(self, text: str) -> list[ScanEvent]:
        """The pieces that `text` completes."""
        calls, reader = self._calls, self._text
        held = reader.buffer
        reader.latest = len(text) if len(text) <= 8 * _STEP else 0
        for at in range(0, len(text), _STEP):
            step = text[at : at + _STEP]
            reader.fed += len(step)
            if calls.candidate is not None:
                calls.candidate.add(step)
            if calls.parser is not None:
                calls.parser.push(step)
            else:
                reader.buffer += step
            self._run()
        if held and 0 < len(reader.buffer) < len(held) + len(text):
            calls.in_vain += 1
        return reader.take()

    def takes(self, text: str) -> str | None:
        """Take `text` if it is nothing but more of what came before, be it text or arguments
        of the open call, and `feed` would have given all of it at once: what that is.  Else
        nothing is taken."""
        if self._calls.parser is not None:
            given = self._calls.takes(text)
        elif self.idle and not self._formats.may_begin_in(text):
            self._text.read(text)
            given = text
        else:
            return None
        self._text.fed += len(text) if given is not None else 0
        return given

    def give_back(self) -> None:
        """What is held of the text, where there are but `refused` markers, comes once more."""
        self._text.buffer = ""

    def passed(self, text: str) -> None:
        """`text` went by without being fed: there is no marker in it, nor part of one."""
        reader = self._text
        reader.read(text)
        if reader.fresh:
            reader.fresh = not text.strip()

    def passed_unread(self) -> None:
        """More text went by than anybody kept, without a backtick or a tilde in it."""
        self._text.skip()

    def enter(self, name: str) -> list[ScanEvent]:
        """From here on the text is that of the field `name`, a text of its own.  Returns the
        pieces that this completes."""
        if name == self._text.field:
            return []
        self._read_held()
        self._end_quoted(whole=True)
        if (parser := self._calls.parser) is not None and parser.whole:
            parser.end()
            self._run()
        if self._calls.parser is None:
            self._text.end()
            self._text.fresh = True
        self._text.enter(name)
        return self._text.take()

    def close(self, *, whole: bool = True) -> list[ScanEvent]:
        """The text has ended: what was held back, and the end of an open call.  `whole`:
        not by a limit, and not by a break."""
        self._read_held()
        self._end_quoted(whole=whole)
        while (parser := self._calls.parser) is not None:
            lone = self._calls.candidate is not None and not parser.rest.strip()
            self.cut_in_header = parser.in_header and not lone
            parser.end(whole=whole)
            self._run()
            self._end_quoted(whole=whole)
        self._calls.commit()
        self._receive()
        self._text.end()
        return self._text.take()

    def abandon(self) -> list[ScanEvent]:
        """The reply broke off: what may be text is, and a call that is open stays so."""
        if self._calls.candidate is not None:
            self._refuse("in a reply that broke off")
        elif self._calls.parser is not None:
            self._calls.parser.release()
            self._run_calls()
        if self._calls.parser is not None:
            header, texts, _ = self.held_call
            held = header + "".join(texts)
            # Its frames have left: it comes before all that is there.
            if held:
                self._text.add(Text(-len(held) - 1, held, self._calls.called))
            self._text.buffer = self._calls.parser.rest
            self._calls.forget()
        self._text.give(len(self._text.buffer))
        return self._text.take()

    # How it runs

    def _run(self) -> None:
        while self._run_calls() if self._calls.parser else self._step_text():
            pass

    def _run_calls(self) -> bool:
        """Read on in a section; False when more input is needed."""
        outcome = self._calls.run()
        self._receive()
        if outcome is Outcome.REFUSED:
            self._refuse(self._calls.refusal)
        elif outcome is Outcome.LEFT:
            self._text.buffer = self._calls.rest
            self._text.fresh = True
        return outcome is not Outcome.WAITS

    def _receive(self) -> None:
        """What the reader of calls is certain of."""
        for piece in self._calls.take():
            self._text.add(piece)
            if isinstance(piece, Text):
                self._text.read(piece.text)

    def _step_text(self) -> bool:
        """Decide as much as can be of text; False when more input is needed."""
        if self._calls.candidate is not None:
            return self._after_candidate()
        if (found := self._text.next_begin()) is None:
            return False
        self._begin(*found)
        return True

    def _read_held(self) -> None:
        """The text has ended: nothing more can refuse what is held because of what is known of
        markers."""
        if self._text.refused is not None:
            self._text.ended = True
            self._run()
            self._text.ended = False

    # Sections

    def _begin(self, marker: MarkerMatch, header: str = "") -> None:
        """A section or a call may begin here."""
        calls, text = self._calls, self._text
        if calls.candidate is None:
            calls.candidate = text.candidate_at(marker)
        rest, text.buffer = text.buffer[marker.end :], ""
        calls.begin(marker, self._rules(marker.format), header, text.fed - len(rest), rest)
        if header:
            text.before = ""  # one header serves one call

    def _refuse(self, why: str) -> None:
        """The candidate is text, up to what has not been read yet."""
        parser, text = self._calls.parser, self._text
        rest = parser.rest if parser else text.buffer
        candidate = self._calls.give_back()
        text.buffer = "".join(candidate.raw)
        size = len(text.buffer) - len(rest)
        text.learn(text.buffer[len(candidate.before) :], candidate.marker)
        near = text.buffer[: size + _SEEN_AFTER]
        text.give(size)
        for marker in self._formats.find_all(near):
            if marker.end <= size:
                text.add(LeftAsText(marker.name, why))
        if candidate.waits:
            text.quoted += size
        text.fresh = False

    def _after_candidate(self) -> bool:
        """Decide on a candidate whose section is over; False when more input is needed."""
        found = self._calls.after_section(self._text.buffer, self._formats)
        if isinstance(found, MarkerMatch):
            self._begin(found)
        elif found is Outcome.REFUSED:
            self._refuse(IN_CODE)
        self._receive()
        return found is not Outcome.WAITS

    def _end_quotation(self) -> None:
        """The turn, or a field of it, ends, and with it what may be quoted."""
        calls = self._calls
        while calls.candidate is not None and calls.candidate.quotation:
            rest = calls.parser.rest if calls.parser else self._text.buffer
            if calls.end_quotation(rest, rest, ended=True):
                self._refuse(IN_CODE)
            self._receive()
            self._run()

    def _end_quoted(self, *, whole: bool) -> None:
        """The turn, or a field of it, ends: a candidate in code is decided now."""
        self._end_quotation()
        calls = self._calls
        while (candidate := calls.candidate) is not None and candidate.in_code:
            if whole and calls.parser is not None and calls.parser.whole:
                calls.parser.end()
                self._run_calls()
                if calls.candidate is not candidate:
                    continue
            blank = not self._text.buffer.strip()
            if whole and calls.parser is None and candidate.calls and blank:
                self._text.buffer = ""
                self._text.fresh = True
                calls.commit()
                self._receive()
            else:
                self._refuse(IN_CODE)
                self._run()


def _probe(
    tools: DeclaredTools, rules: Rules, formats: ActiveFormats, calls: CallReader
) -> Callable[[str], list[ScanEvent]]:
    """Finds out what would become of a text that came now, with a scanner of its own."""
    probe = Scanner(tools, rules, formats)
    probe._text.is_probe, probe._text.fresh = True, False
    probe._calls.begin_is_text |= calls.begin_is_text
    probe._calls.in_vain = calls.in_vain
    return probe.feed
