"""The text of one choice outside of sections, up to where the next one may begin.

A marker is text at once where its format's `CallRule` allows no call, and in code that a
Markdown text quotes, unless nothing but white space may come after the section in its turn or
field (`CallRule.quoted_last`): Kimi leaves fences open, and a real section always ends its
turn, where a quoted one is followed by the fence's end.  Text before a marker is held while it
may be the header of a call whose begin marker the host has stripped.
"""

from __future__ import annotations

from collections.abc import Callable

from .call_reader import IN_CODE, TOO_MANY, CallReader
from .call_rule import Rules
from .candidate import CANDIDATE_LIMIT, Candidate
from .declared_tools import DeclaredTools
from .events import Dropped, LeftAsText, ScanEvent, Text, joined
from .formats.active import ActiveFormats
from .formats.protocol import MarkerMatch
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


class TextReader:
    """Reads the text, and collects the pieces of the choice in their order."""

    def __init__(
        self,
        tools: DeclaredTools,
        rules: Rules,
        formats: ActiveFormats,
        calls: CallReader,
        probe: Callable[[], Callable[[str], list[ScanEvent]]],
    ) -> None:
        """`calls` reads the sections; `probe` gives what finds out what would become of a text
        that came now."""
        self._tools = tools
        self._rules = rules
        self._formats = formats
        self._headers = [each for each in formats.looking_back if rules(each).calls != "none"]
        """Formats of which a stripped header may be known as one."""
        self._look_back = formats.look_back
        self._calls = calls
        self._probe = probe
        self._code = MarkdownCode()
        self.field = ""
        """The one whose text comes."""
        self._fields = {self.field: self._code}
        self._pieces: list[ScanEvent] = []
        self.buffer = ""
        """What is held of the text."""
        self.latest = 0
        """Characters of the text that came last, unless they are very many."""
        self.fed = 0
        """Characters of the choice so far."""
        self.before = ""
        """The end of the text that was given out, where a stripped header may stand."""
        self.fresh = True
        """Whether a call may start here whose begin marker was stripped."""
        self.channel: MarkerMatch | None = None
        """The marker that gives the kind of the text that comes."""
        self.quoted = 0
        """See `MAX_QUOTED`."""
        self._refused: RefusedMarkers | None = None
        self._seen = 0
        """How many formats had been seen when that began: of these, strays are no text."""
        self.ended = False
        """Whether no more of this text comes."""
        self.is_probe = False
        """Whether this only finds out what would become of a text."""

    @property
    def refused(self) -> RefusedMarkers | None:
        """What is known of markers, after `MANY_IN_VAIN`."""
        return self._refused if self._seen == len(self._calls.seen) else None

    @property
    def may_skip(self) -> bool:
        """See `Scanner.may_skip`."""
        return all(code.is_settled for code in self._fields.values())

    # What comes

    def read(self, text: str) -> None:
        """`text` was given out, or went by."""
        self._code.feed(text)
        if self._look_back:
            self.before = (self.before + text)[-self._look_back :]

    def skip(self) -> None:
        """See `Scanner.passed_unread`."""
        for code in self._fields.values():
            code.skip()
        self.before = ""
        self.fresh = False

    def enter(self, field: str) -> None:
        """From here on the text is that of a field."""
        self.field = field
        self._code = self._fields.setdefault(field, MarkdownCode())
        self.channel = None
        self.before = ""

    def end(self) -> None:
        """No more of this text comes."""
        marker = self._formats.find(self.buffer)
        if marker is not None:  # nothing came after it
            self._stray(marker)
        if self._calls.called and self.fresh and self.buffer and not self.buffer.strip():
            self.buffer = ""
            self._pieces.append(Dropped("white space after calls"))
        self.give(len(self.buffer))

    # What leaves

    def add(self, piece: ScanEvent) -> None:
        """The next piece."""
        self._pieces.append(piece)

    def take(self) -> list[ScanEvent]:
        """The pieces, once."""
        pieces, self._pieces = self._pieces, []
        return joined(pieces) if len(pieces) > 1 else pieces

    def give(self, size: int) -> None:
        """The buffer's first characters are text."""
        run, self.buffer = self.buffer[:size], self.buffer[size:]
        if run:
            start = self.fed - len(self.buffer) - size
            kind = self.channel.kind if self.channel else None
            self._pieces.append(Text(start, run, self._calls.called, kind))
            self.read(run)
            if self.fresh:
                formats = not self._calls.called or size <= BLANK_LIMIT
                self.fresh = formats and not run.strip()

    def learn(self, text: str, size: int = 1) -> None:
        """Keep how this goes on, which begins with a marker of this size that was refused."""
        refused = self.refused
        if refused is not None and not refused.full:
            refused.learn(self._probe(), text, size)

    # Where the next section begins

    def next_begin(self) -> tuple[MarkerMatch, str] | None:
        """The marker at which a section or a call may begin, before which all is decided, and
        the header before it; None when more input is needed."""
        formats, calls = self._formats, self._calls
        while not self._look():
            marker = formats.find(self.buffer)
            unfinished = 0 if marker else formats.unfinished(self.buffer)
            end = marker.start if marker else len(self.buffer) - unfinished
            if formats.begins(self.buffer, 0, end):
                calls.in_vain += 1
                self.learn(self.buffer)
            if marker is None:
                if not self._must_wait(self.buffer[:end]):
                    self.give(end)
                return None
            header, text = self._text_before(marker)
            if text:
                self.give(text)
            elif why := self._why_text(marker):
                self._leave(marker, why)
                if marker.begins_call:
                    calls.begin_is_text.add(marker.format)
            else:
                begins = marker.begins or marker.format.begins_call(marker, header, self.buffer)
                if begins is None:
                    return None
                if self.channel is not None and self.channel.format is marker.format:
                    self.channel = None
                if marker.kind and not calls.too_many:
                    self._begin_channel(marker)
                elif begins and not marker.kind:
                    return marker, header
                else:
                    self._stray(marker)
        return None

    def candidate_at(self, marker: MarkerMatch) -> Candidate:
        """What the text before a marker says of a section that begins there."""
        code = self._code_at(marker)
        in_code = code.is_open()
        declared = self._rules(marker.format).calls == "declared"
        may_be = declared and not in_code and self.quoted < MAX_QUOTED
        # What comes right after a call is as it was.
        may_be = may_be and not (self._calls.called and self.fresh)
        quotation = code.quotation() if may_be else NOT_QUOTED
        before, size = self.buffer[: marker.start], marker.end - marker.start
        candidate = Candidate(in_code, quotation, self._code, before, size)
        candidate.add(self.buffer)
        return candidate

    def _look(self) -> bool:
        """Whether nothing in the buffer has to be read, as far as it has come: then what is text
        is given out, but for that which came with what waits."""
        if self.is_probe or self._calls.in_vain <= MANY_IN_VAIN:
            self._refused = None
            return False
        if self._refused is None:
            self._pieces.append(LeftAsText("marker", f"as others like it, {TOO_MANY}"))
        if (refused := self.refused) is None:
            refused = self._refused = RefusedMarkers(self._formats)
            self._seen = len(self._calls.seen)
        certain, refused.certain = refused.certain, 0
        unknown = self.fresh or self.ended
        if not unknown:
            certain, unknown = refused.look(self.buffer, certain)
        size = len(self.buffer)
        given = certain if unknown or certain == size else min(certain, max(0, size - self.latest))
        self.give(given)
        refused.certain = certain - given
        return not unknown

    def _text_before(self, marker: MarkerMatch) -> tuple[str, int]:
        """What is before a marker: the header of a call whose begin marker was stripped;
        and how many characters are text."""
        run = self.buffer[: marker.start]
        if header := marker.format.header_before(marker, self.before + run, self._tools):
            begins = len(run) - len(header)
            return header.strip(), begins if begins >= 0 else len(run)
        formats = self._calls.called and self.fresh and len(run) <= BLANK_LIMIT
        return "", 0 if formats and not run.strip() else len(run)

    def _must_wait(self, run: str) -> bool:
        """Whether `run`, where nothing has been decided, may yet turn out not to be text."""
        if not self.fresh:
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
            may_be_last = rule.quoted_last and marker.begins_call and self.quoted < MAX_QUOTED
            return "" if may_be_last else IN_CODE
        if marker.format in self._calls.begin_is_text and not marker.begins:
            return "with what it belongs to"
        return ""

    def _code_at(self, marker: MarkerMatch) -> MarkdownCode:
        """The text up to a marker; what is before it, its header, may end quoted code."""
        if marker.start == 0:
            return self._code
        code = self._code.copy()
        code.feed(self.buffer[: marker.start])
        return code

    def _leave(self, marker: MarkerMatch, why: str) -> None:
        """The marker is text."""
        self._calls.in_vain += 1
        self.learn(self.buffer[marker.start :], marker.end - marker.start)
        self.give(marker.end)
        self._pieces.append(LeftAsText(marker.name, why))

    def _begin_channel(self, marker: MarkerMatch) -> None:
        """The text that comes is of a kind of its own."""
        self._calls.in_vain += 1
        self._calls.seen.add(marker.format)
        self.channel = marker
        self.buffer = self.buffer[marker.end :]
        self._pieces.append(Dropped(f"channel marker {marker.name}"))

    def _stray(self, marker: MarkerMatch) -> None:
        dropped = self._rules(marker.format).strays or marker.format in self._calls.seen
        if not dropped or self._calls.too_many:
            self._leave(marker, TOO_MANY if dropped else "alone")
            return
        self._calls.in_vain += 1
        self.buffer = self.buffer[marker.end :]
        self._pieces.append(Dropped(f"stray {marker.name}"))
        self.fresh = True
