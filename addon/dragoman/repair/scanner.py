"""The scanner: text of one choice in, text and tool calls out.

It reads the text of one choice in the order in which the model wrote it.  Outside of
sections it looks for markers of the active formats; from one that begins something on the
`LeakParser` of its format reads, and what came since the last certain point is a
*candidate*, kept as it came, until it is certain that it is a call, or that it is text:

- its header is no header, or it names a tool that the `CallRule` does not allow: text;
- it stands in code that a Markdown text quotes: text, unless the model is Kimi's and
  nothing but white space comes after it in its turn or field.  Kimi leaves fences open, and
  a real section always ends its turn, where a quoted one is followed by the fence's end;
- else it is a call as soon as its header is there; one whose header has no name is a call
  if its arguments tell the tool, or if the rule allows any name.

The invariants: every character of the input ends up in exactly one piece, or in a marker, a
header, or white space around them; what is left as text is text to the character; and the
pieces, joined, do not depend on how the input was cut, but for a header that has left as
text before its argument marker came.
"""

from __future__ import annotations

from dataclasses import replace

from .call_namer import CallNamer
from .call_rule import ANY, CallRule
from .candidate import CANDIDATE_LIMIT, Candidate
from .declared_tools import DeclaredTools
from .events import (
    Arguments,
    CallEnd,
    Dropped,
    Header,
    LeftAsText,
    NoHeader,
    NoJson,
    ParseEvent,
    ScanEvent,
    Text,
    joined,
)
from .formats import ALL
from .formats.active import ActiveFormats
from .formats.protocol import LeakFormat, LeakParser, MarkerMatch
from .markdown import MarkdownCode

BLANK_LIMIT = 4096
"""Characters of white space after a call that are held, as formatting unless text follows."""
MAX_QUOTED = 4 * CANDIDATE_LIMIT
"""Characters of candidates in code that turned out to be text; after so many, markers in
code are text at once, as each of them is read twice."""
_STEP = 2048
"""Characters that are read at once: what is held is copied with each marker."""


class Scanner:
    """Scans the text of one choice.

    `tools` name calls, and tell whether a text could be, or become, the header of a call
    whose begin markers the host has stripped; such text is held where a call may start.
    """

    def __init__(
        self, tools: DeclaredTools, rule: CallRule = ANY, formats: ActiveFormats = ALL
    ) -> None:
        self._tools = tools
        self._rule = rule
        self._formats = formats
        self._fields: dict[str, MarkdownCode] = {}
        self._code = self._fields.setdefault("", MarkdownCode())
        self._parser: LeakParser | None = None
        self._format: LeakFormat | None = None
        """That of the section which began last."""
        self._candidate: Candidate | None = None
        self._namer = CallNamer(tools, rule)
        self._buffer = ""
        """What is held of the text outside of sections."""
        self._fed = 0
        """Characters of the choice so far."""
        self._before = ""
        """The end of the text that was given out, where a stripped header may stand."""
        self._look_back = formats.look_back
        self._fresh = True
        """Whether a call may start here whose begin marker was stripped."""
        self._called = False
        """Whether a call came before."""
        self._begin_is_text: set[LeakFormat] = set()
        """Formats of which a begin marker was left as text: then what belongs to it is, too."""
        self._quoted = 0
        self._pieces: list[ScanEvent] = []
        self.cut_in_header = False
        """Whether the text has ended in the header of a call."""

    # What is asked

    @property
    def idle(self) -> bool:
        """Whether text in which no marker begins would come out as it went in."""
        return self.between and not self._fresh

    @property
    def between(self) -> bool:
        """Whether nothing is held or open; text that comes may still begin something."""
        return self._parser is None and self._candidate is None and not self._buffer

    @property
    def in_call(self) -> bool:
        """Whether a call is open, or may be."""
        return self._parser is not None and self._parser.in_call

    @property
    def undecided(self) -> int:
        """Characters at the end of the input that are text, or not, by what comes."""
        if self._candidate is not None:
            return self._fed - self._candidate.start
        return len(self._parser.rest if self._parser else self._buffer)

    @property
    def held_call(self) -> tuple[str, list[str], int]:
        """What is held back that is no `undecided` text: the header of a call that has no name
        yet, and the pieces of its arguments, so many of a list that may grow."""
        return ("", [], 0) if self._candidate is not None else self._namer.held

    @property
    def may_skip(self) -> bool:
        """Whether text without a backtick or a tilde may go by without being kept."""
        return all(code.is_settled for code in self._fields.values())

    # What comes

    def feed(self, text: str) -> list[ScanEvent]:
        """The pieces that `text` completes."""
        for at in range(0, len(text), _STEP):
            step = text[at : at + _STEP]
            self._fed += len(step)
            if self._candidate is not None:
                self._candidate.add(step)
            if self._parser is not None:
                self._parser.push(step)
            else:
                self._buffer += step
            self._run()
        return self._take()

    def takes(self, text: str) -> str | None:
        """Take `text` if it is nothing but more of what came before, be it text or arguments
        of the open call, and `feed` would have given all of it at once: what that is.  Else
        nothing is taken."""
        given: str | None
        if self._parser is None:
            if not self.idle or self._formats.may_begin_in(text):
                return None
            self._read(text)
            given = text
        elif self._candidate is not None or self._namer.holds:
            return None
        else:
            given = self._parser.takes(text)
        self._fed += len(text) if given is not None else 0
        return given

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
        self._end_quoted(whole=True)
        if self._parser is None:
            self._end_text()
            self._fresh = True
        self._code = code
        self._before = ""
        return self._take()

    def close(self, *, whole: bool = True) -> list[ScanEvent]:
        """The text has ended: what was held back, and the end of an open call.  `whole`:
        not by a limit, and not by a break."""
        self._end_quoted(whole=whole)
        while (parser := self._parser) is not None:
            self.cut_in_header = parser.in_header
            parser.end()
            self._run()
            self._end_quoted(whole=whole)
        self._commit()
        self._end_text()
        return self._take()

    def abandon(self) -> list[ScanEvent]:
        """The reply broke off: what may be text is, and a call that is open stays so."""
        header, texts, _ = self.held_call
        if self._candidate is not None:
            self._refuse("in a reply that broke off")
        elif self._parser is not None:
            held = header + "".join(texts)
            # Its frames have left: it comes before all that is there.
            self._pieces += [Text(-len(held) - 1, held, self._called)] if held else []
            self._buffer = self._parser.rest
        self._parser = None
        self._namer.forget()
        self._text(len(self._buffer))
        return self._take()

    # How it runs

    def _run(self) -> None:
        while self._step_parser(self._parser) if self._parser else self._step_text():
            pass

    def _take(self) -> list[ScanEvent]:
        pieces, self._pieces = self._pieces, []
        return joined(pieces) if len(pieces) > 1 else pieces

    def _add(self, piece: ScanEvent) -> None:
        (self._candidate.pieces if self._candidate else self._pieces).append(piece)

    def _read(self, text: str) -> None:
        """`text` was given out, or went by."""
        self._code.feed(text)
        if self._look_back:
            self._before = (self._before + text)[-self._look_back :]

    # Text

    def _step_text(self) -> bool:
        """Decide as much as can be; False when more input is needed."""
        marker = self._formats.find(self._buffer)
        if self._candidate is not None:
            return self._after_quoted_call(self._candidate, marker)
        if marker is None:
            end = len(self._buffer) - self._formats.unfinished(self._buffer)
            if not self._must_wait(self._buffer[:end]):
                self._text(end)
            return False
        header, text = self._text_before(marker)
        if text:
            self._text(text)
        elif why := self._why_text(marker):
            self._text(marker.end)
            self._add(LeftAsText(marker.name, why))
        else:
            begins = marker.begins or marker.format.begins_call(marker, header, self._buffer)
            if begins is None:
                return False
            if begins:
                self._begin(marker, header)
            else:
                self._stray(marker)
        return True

    def _text_before(self, marker: MarkerMatch) -> tuple[str, int]:
        """What stands before a marker: the header of a call whose begin marker was stripped;
        and how many characters are text."""
        run = self._buffer[: marker.start]
        if header := marker.format.header_before(marker, self._before + run, self._tools):
            begins = len(run) - len(header)
            return header.strip(), begins if begins >= 0 else len(run)
        formats = self._called and self._fresh and not run.strip()
        return "", 0 if formats else len(run)

    def _must_wait(self, run: str) -> bool:
        """Whether `run`, where nothing has been decided, may yet turn out not to be text."""
        if not self._fresh:
            return False
        if self._called and not run.strip():
            return len(run) <= BLANK_LIMIT
        if self._rule.calls == "none":
            return False
        return self._formats.may_be_header(run, self._tools)

    def _why_text(self, marker: MarkerMatch) -> str:
        """Why a marker, before which there is nothing but white space or its header, is text;
        empty if it may be real."""
        if self._rule.calls == "none":
            return "where no call is meant"
        if self._in_code(marker):
            may_end_turn = self._rule.kimi and marker.begins and self._quoted < MAX_QUOTED
            return "" if may_end_turn else "in quoted code"
        if marker.format in self._begin_is_text and not marker.begins:
            return "with what it belongs to"
        return ""

    def _in_code(self, marker: MarkerMatch) -> bool:
        """Whether a marker stands in quoted code; what is before it, its header, may end that."""
        code = self._code
        if marker.start > 0:
            code = code.copy()
            code.feed(self._buffer[: marker.start])
        return code.is_open()

    def _text(self, size: int) -> None:
        """The buffer's first characters are text."""
        run, self._buffer = self._buffer[:size], self._buffer[size:]
        if run:
            self._add(Text(self._fed - len(self._buffer) - size, run, self._called))
            self._read(run)
            self._fresh = self._fresh and not run.strip()

    def _stray(self, marker: MarkerMatch) -> None:
        self._buffer = self._buffer[marker.end :]
        self._add(Dropped(f"stray {marker.name}"))
        self._fresh = True

    def _end_text(self) -> None:
        """No more of this text comes."""
        if (marker := self._formats.find(self._buffer)) is not None:  # nothing came after it
            self._stray(marker)
        if self._called and self._fresh and self._buffer and not self._buffer.strip():
            self._buffer = ""
            self._add(Dropped("white space after calls"))
        self._text(len(self._buffer))

    # A candidate

    def _begin(self, marker: MarkerMatch, header: str = "") -> None:
        """A section or a call may begin here."""
        if self._candidate is None:
            before = self._buffer[: marker.start]
            start = self._fed - len(self._buffer)
            self._candidate = Candidate(start, self._in_code(marker), before)
            self._candidate.add(self._buffer)
        rest, self._buffer = self._buffer[marker.end :], ""
        start = self._fed - len(rest)
        self._format = marker.format
        self._parser = self._format.parser(marker, header, start, self._tools)
        self._parser.push(rest)
        if header:
            self._before = ""  # one header serves one call

    def _commit(self) -> None:
        """The candidate is what it seemed to be."""
        if self._candidate is not None:
            candidate, self._candidate = self._candidate, None
            self._pieces += candidate.pieces
            self._code.feed(candidate.before)

    def _begin_anew(self) -> None:
        """All up to here is certain; in what comes, a call may be text again."""
        self._commit()
        if self._parser is not None and not self._parser.over:
            rest = self._parser.rest
            self._candidate = Candidate(self._fed - len(rest))
            self._candidate.add(rest)

    def _refuse(self, why: str) -> None:
        """The candidate is text, up to what has not been read yet."""
        candidate = self._candidate
        assert candidate is not None
        rest = self._parser.rest if self._parser else self._buffer
        self._parser = self._candidate = None
        self._namer.forget()
        self._buffer = "".join(candidate.raw)
        text = self._buffer[: len(self._buffer) - len(rest)]
        self._text(len(text))
        for marker in self._formats.find_all(text):
            self._add(LeftAsText(marker.name, why))
        if candidate.in_code:
            self._quoted += len(text)
        elif self._format is not None:
            self._begin_is_text.add(self._format)
        self._fresh = False

    def _after_quoted_call(self, candidate: Candidate, marker: MarkerMatch | None) -> bool:
        """After a section or call in code only more of them may come, or it was text."""
        unfinished = 0 if marker else self._formats.unfinished(self._buffer)
        end = marker.start if marker else len(self._buffer) - unfinished
        if self._buffer[:end].strip() or candidate.too_long or not candidate.calls:
            self._refuse("in quoted code")
        elif marker is None:
            return False
        elif marker.begins:
            self._begin(marker)
        else:
            self._refuse("in quoted code")
        return True

    def _end_quoted(self, *, whole: bool) -> None:
        """The turn, or a field of it, ends: a candidate in code is decided now."""
        while (candidate := self._candidate) is not None and candidate.in_code:
            if whole and (parser := self._parser) is not None and parser.whole:
                parser.end()
                while self._parser is parser and self._step_parser(parser):
                    pass
                if self._candidate is not candidate:
                    continue
            if whole and self._parser is None and candidate.calls and not self._buffer.strip():
                self._buffer = ""
                self._called = self._fresh = True
                self._commit()
            else:
                self._refuse("in quoted code")
                self._run()

    # What the parser gives

    def _step_parser(self, parser: LeakParser) -> bool:
        event = parser.next()
        candidate = self._candidate
        if event is not None:
            self._take_in(event)
        elif candidate is not None and candidate.too_long:
            self._refuse("in quoted code" if candidate.in_code else "of no declared tool")
        elif parser.over:
            self._leave_section(parser)
        else:
            return False
        return True

    def _leave_section(self, parser: LeakParser) -> None:
        self._parser = None
        self._buffer = parser.rest
        self._fresh = True
        if self._candidate is not None and not self._candidate.in_code:
            self._commit()

    def _take_in(self, event: ParseEvent) -> None:
        in_code = self._candidate is not None and self._candidate.in_code
        cut = isinstance(event, CallEnd) and not event.valid
        if in_code and (cut or isinstance(event, Text | NoHeader | NoJson)):
            self._refuse("in quoted code")
        elif isinstance(event, Header | Arguments | CallEnd):
            self._take_call(event)
        elif isinstance(event, NoHeader):
            self._refuse("without a header")
        elif isinstance(event, Text):
            self._section_text(event)
        elif isinstance(event, Dropped):
            self._add(event)

    def _section_text(self, text: Text) -> None:
        """Text inside a section, before, between or after its calls."""
        self._begin_anew()
        self._pieces.append(replace(text, trailing=self._called))
        self._read(text.text)

    def _take_call(self, event: Header | Arguments | CallEnd) -> None:
        """Part of a call; where it is none, all of it is text."""
        pieces: list[ScanEvent] | None
        if isinstance(event, Header):
            pieces = self._namer.header(event)
        elif isinstance(event, Arguments):
            pieces = self._namer.arguments(event)
        else:
            pieces = self._namer.end(event)
        if pieces is None:
            self._refuse("of no declared tool")
            return
        if not self._namer.holds or self._rule.calls == "any":
            self._be_certain()
        for piece in pieces:
            self._add(piece)
        if isinstance(event, CallEnd) and self._candidate is None:
            self._begin_anew()

    def _be_certain(self) -> None:
        """The candidate is a call; in code, that is known only in the end."""
        if self._candidate is not None and not self._candidate.in_code:
            self._commit()
        if self._candidate is None:
            self._called = True
            self._begin_is_text.clear()
