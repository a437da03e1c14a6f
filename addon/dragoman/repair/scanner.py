"""The scanner: text of one choice in, text and tool calls out.

It reads the text of one choice in the order in which the model wrote it.  Outside of
sections it looks for markers of the active formats; from one that begins something on the
`CallReader` reads, and says which of it are calls.  What it refuses is text.  A marker is
text at once where its format's `CallRule` allows no call, and in code that a Markdown text
quotes, unless nothing but white space may come after the section in its turn or field
(`CallRule.quoted_last`): Kimi leaves fences open, and a real section always ends its turn,
where a quoted one is followed by the fence's end.

The invariants: every character of the input ends up in exactly one piece, or in a marker, a
header, or white space around them; what is left as text is text to the character; and the
pieces, joined, do not depend on how the input was cut, but for a header that has left as
text before its argument marker came.
"""

from __future__ import annotations

from .call_reader import IN_CODE, TOO_MANY, CallReader, Outcome
from .call_rule import Rules
from .candidate import CANDIDATE_LIMIT, Candidate
from .declared_tools import DeclaredTools
from .events import Dropped, LeftAsText, ScanEvent, Text, joined
from .formats.active import ActiveFormats
from .formats.protocol import Held, MarkerMatch
from .markdown import NOT_QUOTED, MarkdownCode
from .refused_markers import RefusedMarkers

BLANK_LIMIT = 4096
"""Characters of white space after a call that are held, as formatting unless text follows."""
MANY_IN_VAIN = 32
"""Markers, and what looked like one, in a row without a call; after so many, what refuses them
is kept (`RefusedMarkers`)."""
MAX_QUOTED = 4 * CANDIDATE_LIMIT
"""Characters of candidates in code that turned out to be text; after so many, markers in
code are text at once, as each of them is read twice."""
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
        self._tools = tools
        self._rules = rules
        self._formats = formats
        self._headers = [each for each in formats.looking_back if rules(each).calls != "none"]
        """Formats of which a stripped header may be known as one."""
        self._look_back = formats.look_back
        self._fields: dict[str, MarkdownCode] = {}
        self._code = self._fields.setdefault("", MarkdownCode())
        self._calls = CallReader(tools)
        self._buffer = ""
        """What is held of the text outside of sections."""
        self._latest = 0
        """Characters of the text that came last, unless they are very many."""
        self._fed = 0
        """Characters of the choice so far."""
        self._before = ""
        """The end of the text that was given out, where a stripped header may stand."""
        self._fresh = True
        """Whether a call may start here whose begin marker was stripped."""
        self._channel: MarkerMatch | None = None
        """The marker that gives the kind of the text that comes."""
        self._quoted = 0
        self._refused: RefusedMarkers | None = None
        self._ended = False
        """Whether no more of this text comes."""
        self._is_probe = False
        """Whether this only finds out what would become of a text."""
        self._pieces: list[ScanEvent] = []
        self.cut_in_header = False
        """Whether the text has ended in the header of a call, after its marker."""

    # What is asked

    @property
    def idle(self) -> bool:
        """Whether text in which no marker begins would come out as it went in."""
        return self.between and not self._fresh and self._channel is None

    @property
    def between(self) -> bool:
        """Whether nothing is held or open; text that comes may still begin something."""
        return not (self._calls.parser or self._calls.candidate or self._buffer)

    @property
    def refused(self) -> RefusedMarkers | None:
        """What is known of markers, if nothing else than them matters in the text that comes."""
        plain = self._channel is None and not (self._fresh or self._calls.candidate)
        return self._refused if plain and self._calls.parser is None else None

    @property
    def in_call(self) -> bool:
        """Whether a call is open, or may be."""
        return self._calls.in_call

    @property
    def undecided(self) -> int:
        """Characters at the end of the input that are text, or not, by what comes."""
        if self._calls.candidate is not None:
            return self._calls.candidate.size
        return len(self._calls.parser.rest if self._calls.parser else self._buffer)

    @property
    def held_call(self) -> Held:
        """What is held back that is no `undecided` text: the header of a call that has no name
        yet, and the pieces of its arguments; or those of a value of the open call."""
        return self._calls.held_call

    @property
    def may_skip(self) -> bool:
        """Whether text without a backtick or a tilde may go by without being kept."""
        return all(code.is_settled for code in self._fields.values())

    # What comes

    def feed(self, text: str) -> list[ScanEvent]:
        """The pieces that `text` completes."""
        calls, held = self._calls, self._buffer
        self._latest = len(text) if len(text) <= 8 * _STEP else 0
        for at in range(0, len(text), _STEP):
            step = text[at : at + _STEP]
            self._fed += len(step)
            if calls.candidate is not None:
                calls.candidate.add(step)
            if calls.parser is not None:
                calls.parser.push(step)
            else:
                self._buffer += step
            self._run()
        if held and 0 < len(self._buffer) < len(held) + len(text):
            calls.in_vain += 1
        return self._take()

    def takes(self, text: str) -> str | None:
        """Take `text` if it is nothing but more of what came before, be it text or arguments
        of the open call, and `feed` would have given all of it at once: what that is.  Else
        nothing is taken."""
        if self._calls.parser is not None:
            given = self._calls.takes(text)
        elif self.idle and not self._formats.may_begin_in(text):
            self._read(text)
            given = text
        else:
            return None
        self._fed += len(text) if given is not None else 0
        return given

    def give_back(self) -> None:
        """What is held of the text, where there are but `refused` markers, comes once more."""
        self._buffer = ""

    def passed(self, text: str) -> None:
        """`text` went by without being fed: there is no marker in it, nor part of one."""
        self._read(text)
        self._fresh = self._fresh and not text.strip()

    def passed_unread(self) -> None:
        """More text went by than anybody kept, without a backtick or a tilde in it."""
        for code in self._fields.values():
            code.skip()
        self._before = ""
        self._fresh = False

    def enter(self, name: str) -> list[ScanEvent]:
        """From here on the text is that of the field `name`, a text of its own.  Returns the
        pieces that this completes."""
        code = self._fields.setdefault(name, MarkdownCode())
        if code is self._code:
            return []
        self._read_held()
        self._end_quoted(whole=True)
        if (parser := self._calls.parser) is not None and parser.whole:
            parser.end()
            self._run()
        if self._calls.parser is None:
            self._end_text()
            self._fresh = True
        self._channel = None
        self._code = code
        self._before = ""
        return self._take()

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
        self._end_text()
        return self._take()

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
            self._pieces += [Text(-len(held) - 1, held, self._calls.called)] if held else []
            self._buffer = self._calls.parser.rest
            self._calls.forget()
        self._text(len(self._buffer))
        return self._take()

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
            self._buffer = self._calls.rest
            self._fresh = True
        return outcome is not Outcome.WAITS

    def _receive(self) -> None:
        """What the reader of calls is certain of."""
        for piece in self._calls.take():
            self._pieces.append(piece)
            if isinstance(piece, Text):
                self._read(piece.text)

    def _take(self) -> list[ScanEvent]:
        pieces, self._pieces = self._pieces, []
        return joined(pieces) if len(pieces) > 1 else pieces

    def _read(self, text: str) -> None:
        """`text` was given out, or went by."""
        self._code.feed(text)
        if self._look_back:
            self._before = (self._before + text)[-self._look_back :]

    # Text

    def _step_text(self) -> bool:
        """Decide as much as can be; False when more input is needed."""
        if self._calls.candidate is not None:
            return self._after_candidate()
        if self._look():
            return False
        marker = self._formats.find(self._buffer)
        unfinished = 0 if marker else self._formats.unfinished(self._buffer)
        end = marker.start if marker else len(self._buffer) - unfinished
        if self._formats.begins(self._buffer, 0, end):
            self._calls.in_vain += 1
            self._learn(self._buffer)
        if marker is None:
            if not self._must_wait(self._buffer[:end]):
                self._text(end)
            return False
        header, text = self._text_before(marker)
        if text:
            self._text(text)
        elif why := self._why_text(marker):
            self._leave(marker, why)
            if marker.begins_call:
                self._calls.begin_is_text.add(marker.format)
        else:
            begins = marker.begins or marker.format.begins_call(marker, header, self._buffer)
            if begins is None:
                return False
            if self._channel is not None and self._channel.format is marker.format:
                self._channel = None
            if marker.kind and not self._calls.too_many:
                self._begin_channel(marker)
            elif begins and not marker.kind:
                self._begin(marker, header)
            else:
                self._stray(marker)
        return True

    def _look(self) -> bool:
        """Whether nothing in the buffer has to be read, as far as it has come: then what is text
        is given out, but for that which came with what waits."""
        if self._is_probe or self._calls.in_vain <= MANY_IN_VAIN:
            self._refused = None
            return False
        if self._refused is None:
            self._refused = RefusedMarkers(self._formats)
            self._pieces.append(LeftAsText("marker", f"as others like it, {TOO_MANY}"))
        certain, self._refused.certain = self._refused.certain, 0
        unknown = self._fresh or self._ended
        if not unknown:
            certain, unknown = self._refused.look(self._buffer, certain)
        size = len(self._buffer)
        given = certain if unknown or certain == size else min(certain, max(0, size - self._latest))
        self._text(given)
        self._refused.certain = certain - given
        return not unknown

    def _read_held(self) -> None:
        """The text has ended: nothing more can refuse what is held because of `_look`."""
        if self._refused is not None:
            self._ended = True
            self._run()
            self._ended = False

    def _learn(self, text: str, size: int = 1) -> None:
        """Keep how this goes on, which begins with a marker of this size that was refused."""
        if self._refused is None or self._refused.full:
            return
        probe = Scanner(self._tools, self._rules, self._formats)
        probe._is_probe, probe._fresh = True, False
        probe._calls.begin_is_text |= self._calls.begin_is_text
        probe._calls.in_vain = self._calls.in_vain
        self._refused.learn(probe.feed, text, size)

    def _text_before(self, marker: MarkerMatch) -> tuple[str, int]:
        """What is before a marker: the header of a call whose begin marker was stripped;
        and how many characters are text."""
        run = self._buffer[: marker.start]
        if header := marker.format.header_before(marker, self._before + run, self._tools):
            begins = len(run) - len(header)
            return header.strip(), begins if begins >= 0 else len(run)
        formats = self._calls.called and self._fresh and len(run) <= BLANK_LIMIT
        return "", 0 if formats and not run.strip() else len(run)

    def _must_wait(self, run: str) -> bool:
        """Whether `run`, where nothing has been decided, may yet turn out not to be text."""
        if not self._fresh:
            return False
        if self._calls.called and not run.strip():
            return len(run) <= BLANK_LIMIT
        return any(each.may_be_header(run, self._tools) for each in self._headers)

    def _why_text(self, marker: MarkerMatch) -> str:
        """Why a marker, before which there is nothing but white space or its header, is text;
        empty if it may be real."""
        rule = self._rules(marker.format)
        if rule.calls == "none":
            return "where no call is meant"
        if self._code_at(marker).is_open():
            may_be_last = rule.quoted_last and marker.begins_call and self._quoted < MAX_QUOTED
            return "" if may_be_last else IN_CODE
        if marker.format in self._calls.begin_is_text and not marker.begins:
            return "with what it belongs to"
        return ""

    def _code_at(self, marker: MarkerMatch) -> MarkdownCode:
        """The text up to a marker; what is before it, its header, may end quoted code."""
        if marker.start == 0:
            return self._code
        code = self._code.copy()
        code.feed(self._buffer[: marker.start])
        return code

    def _text(self, size: int) -> None:
        """The buffer's first characters are text."""
        run, self._buffer = self._buffer[:size], self._buffer[size:]
        if run:
            start = self._fed - len(self._buffer) - size
            kind = self._channel.kind if self._channel else None
            self._pieces.append(Text(start, run, self._calls.called, kind))
            self._read(run)
            formats = not self._calls.called or size <= BLANK_LIMIT
            self._fresh = self._fresh and formats and not run.strip()

    def _leave(self, marker: MarkerMatch, why: str) -> None:
        """The marker is text."""
        self._calls.in_vain += 1
        self._learn(self._buffer[marker.start :], marker.end - marker.start)
        self._text(marker.end)
        self._pieces.append(LeftAsText(marker.name, why))

    def _begin_channel(self, marker: MarkerMatch) -> None:
        """The text that comes is of a kind of its own."""
        self._calls.in_vain += 1
        self._calls.seen.add(marker.format)
        self._channel = marker
        self._buffer = self._buffer[marker.end :]
        self._pieces.append(Dropped(f"channel marker {marker.name}"))

    def _stray(self, marker: MarkerMatch) -> None:
        dropped = self._rules(marker.format).strays or marker.format in self._calls.seen
        if not dropped or self._calls.too_many:
            self._leave(marker, TOO_MANY if dropped else "alone")
            return
        self._calls.in_vain += 1
        self._buffer = self._buffer[marker.end :]
        self._pieces.append(Dropped(f"stray {marker.name}"))
        self._fresh = True

    def _end_text(self) -> None:
        """No more of this text comes."""
        marker = self._formats.find(self._buffer)
        if marker is not None:  # nothing came after it
            self._stray(marker)
        if self._calls.called and self._fresh and self._buffer and not self._buffer.strip():
            self._buffer = ""
            self._pieces.append(Dropped("white space after calls"))
        self._text(len(self._buffer))

    # Sections

    def _begin(self, marker: MarkerMatch, header: str = "") -> None:
        """A section or a call may begin here."""
        rule = self._rules(marker.format)
        if self._calls.candidate is None:
            before = self._buffer[: marker.start]
            code = self._code_at(marker)
            in_code = code.is_open()
            may_be = rule.calls == "declared" and not in_code and self._quoted < MAX_QUOTED
            # What comes right after a call is as it was.
            may_be = may_be and not (self._calls.called and self._fresh)
            quotation = code.quotation() if may_be else NOT_QUOTED
            size = marker.end - marker.start
            self._calls.candidate = Candidate(in_code, quotation, self._code, before, size)
            self._calls.candidate.add(self._buffer)
        rest, self._buffer = self._buffer[marker.end :], ""
        self._calls.begin(marker, rule, header, self._fed - len(rest), rest)
        if header:
            self._before = ""  # one header serves one call

    def _refuse(self, why: str) -> None:
        """The candidate is text, up to what has not been read yet."""
        parser = self._calls.parser
        rest = parser.rest if parser else self._buffer
        candidate = self._calls.give_back()
        self._buffer = "".join(candidate.raw)
        size = len(self._buffer) - len(rest)
        self._learn(self._buffer[len(candidate.before) :], candidate.marker)
        near = self._buffer[: size + _SEEN_AFTER]
        self._text(size)
        for marker in self._formats.find_all(near):
            if marker.end <= size:
                self._pieces.append(LeftAsText(marker.name, why))
        if candidate.waits:
            self._quoted += size
        self._fresh = False

    def _after_candidate(self) -> bool:
        """Decide on a candidate whose section is over; False when more input is needed."""
        found = self._calls.after_section(self._buffer, self._formats)
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
            rest = calls.parser.rest if calls.parser else self._buffer
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
            if whole and calls.parser is None and candidate.calls and not self._buffer.strip():
                self._buffer = ""
                self._fresh = True
                calls.commit()
                self._receive()
            else:
                self._refuse(IN_CODE)
                self._run()
