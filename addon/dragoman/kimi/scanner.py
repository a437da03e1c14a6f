"""The scanner: text of one choice in, text and tool calls out.

One machine reads the text of one choice in the order in which the model wrote it.
Its states are where we stand in Kimi's format::

    TEXT       what the user reads
    SECTION    inside a section, outside any call
    HEADER     behind call_begin: the call's id, up to argument_begin
    ARGUMENTS  behind argument_begin: JSON, up to call_end

`_TRANSITIONS` says what each marker does in each state; a pair that is missing there
is a stray marker, which is dropped and reported.  Invariants: every character of the
input ends up in exactly one piece, or in a marker, a header, or white space around
them; no complete marker ever ends up in a piece, except one quoted inside a JSON
string; and the pieces, joined, do not depend on how the input was cut, but for a
header behind text that has left already (`CallStart` then has none).

What is held back, and why: the start of a marker (28 characters at most); a call
header; white space behind a call, which is formatting unless text follows; and
arguments behind a marker that is quoted in a JSON string, because only the rest of
the JSON can tell whether it was quoted (beyond `QUOTED_LIMIT` it was).
"""

from __future__ import annotations

import enum
import re

from .follow import JsonFollower, Status
from .headers import AT_END, Tools
from .markers import LONGEST, MARKERS, Marker, find_marker, unfinished_marker
from .pieces import Arguments, CallEnd, CallStart, Dropped, Piece, Text

HEADER_LIMIT = 256
"""Characters of a call header; something longer is text."""
QUOTED_LIMIT = 16 * 1024
"""Characters held back behind a quoted marker; after that many it counts as quoted."""

_BLANK = re.compile(r"\s*")


class _State(enum.Enum):
    TEXT = enum.auto()
    SECTION = enum.auto()
    HEADER = enum.auto()
    ARGUMENTS = enum.auto()


class _Do(enum.Enum):
    """What a transition does on its way."""

    NOTHING = enum.auto()
    START_CALL = enum.auto()
    START_CALL_BEHIND = enum.auto()
    EMPTY_CALL = enum.auto()
    END_CALL = enum.auto()


# None as the next state: back to where calls come from (inside a section, or text).
_TRANSITIONS: dict[tuple[_State, Marker], tuple[_Do, _State | None]] = {
    (_State.TEXT, Marker.SECTION_BEGIN): (_Do.NOTHING, _State.SECTION),
    (_State.TEXT, Marker.CALL_BEGIN): (_Do.NOTHING, _State.HEADER),
    (_State.TEXT, Marker.ARGUMENTS_BEGIN): (_Do.START_CALL_BEHIND, _State.ARGUMENTS),
    (_State.SECTION, Marker.CALL_BEGIN): (_Do.NOTHING, _State.HEADER),
    (_State.SECTION, Marker.ARGUMENTS_BEGIN): (_Do.START_CALL_BEHIND, _State.ARGUMENTS),
    (_State.SECTION, Marker.SECTION_END): (_Do.NOTHING, _State.TEXT),
    (_State.HEADER, Marker.ARGUMENTS_BEGIN): (_Do.START_CALL, _State.ARGUMENTS),
    (_State.HEADER, Marker.CALL_END): (_Do.EMPTY_CALL, None),
    (_State.HEADER, Marker.CALL_BEGIN): (_Do.EMPTY_CALL, _State.HEADER),
    (_State.HEADER, Marker.SECTION_BEGIN): (_Do.EMPTY_CALL, _State.SECTION),
    (_State.HEADER, Marker.SECTION_END): (_Do.EMPTY_CALL, _State.TEXT),
    (_State.ARGUMENTS, Marker.CALL_END): (_Do.END_CALL, None),
    (_State.ARGUMENTS, Marker.CALL_BEGIN): (_Do.END_CALL, _State.HEADER),
    (_State.ARGUMENTS, Marker.SECTION_BEGIN): (_Do.END_CALL, _State.SECTION),
    (_State.ARGUMENTS, Marker.SECTION_END): (_Do.END_CALL, _State.TEXT),
}


class Scanner:
    """Scans the text of one choice.

    `tools` tell whether a text could be, or become, the header of a call whose begin
    markers the host has stripped; such text is held where a call may start.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._state = _State.TEXT
        self._in_section = False
        self._buffer = ""
        # Positions in the buffer: before `_at` everything is decided.
        self._at = 0
        self._offset = 0  # of the buffer's start, in the text of the choice
        self._fresh = True
        self._trailing = False
        self._json = JsonFollower()
        self._followed = 0
        self._quoted_at: int | None = None
        self._arguments_seen = False
        self._pieces: list[Piece] = []
        self.cut_in_header = False

    @property
    def idle(self) -> bool:
        """Whether text without ``<`` would come out as it went in."""
        return self._state is _State.TEXT and not self._buffer and not self._fresh

    @property
    def between(self) -> bool:
        """Whether nothing is held or open; text that comes may still begin something."""
        return self._state is _State.TEXT and not self._buffer

    @property
    def in_call(self) -> bool:
        return self._state in (_State.HEADER, _State.ARGUMENTS)

    @property
    def undecided(self) -> int:
        """Characters at the end of the input that are text unless a marker follows."""
        return len(self._buffer) if self._state is _State.TEXT else 0

    @property
    def held(self) -> str:
        """What is held back of a header, a section or arguments, as it came."""
        return "" if self._state is _State.TEXT else self._buffer

    def fresh(self) -> None:
        """Another field of the message begins, where a stripped header may stand."""
        if self._state is _State.TEXT and not self._buffer:
            self._fresh = True

    def feed(self, text: str) -> list[Piece]:
        """The pieces that `text` completes."""
        self._buffer += text
        while self._step():
            pass
        return self._take()

    def takes(self, text: str) -> bool:
        """Take `text` if it is nothing but more of what came before, be it text or arguments
        of the open call, and `feed` would have told all of it, too; else nothing is taken."""
        if "<" in text or not (self.idle or self._goes_on(text)):
            return False
        self._offset += len(text)
        return True

    def _goes_on(self, text: str) -> bool:
        """Whether `text`, without a marker, is more of the open call's arguments; if so it
        has been followed."""
        if self._state is not _State.ARGUMENTS or self._buffer:
            return False
        if self._quoted_at is not None or not self._arguments_seen:
            return False
        if not self._json.stays_in_string(text):
            followed = self._json.copy()
            followed.follow(text, 0, len(text))
            if followed.status is not Status.OPEN:
                return False
            self._json = followed
        return True

    def close(self) -> list[Piece]:
        """The text has ended: what was held back, and the end of an open call."""
        while self._state is _State.ARGUMENTS and self._quoted_at is not None:
            self._quoted_marker_was_real()
            while self._step():
                pass
        if self._state is _State.ARGUMENTS:
            self._close_arguments()
        else:
            self.cut_in_header = self._state is _State.HEADER
            self._text(len(self._buffer))
            self._state = _State.TEXT
        return self._take()

    def _take(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        self._offset += self._at
        self._buffer = self._buffer[self._at :]
        self._followed -= self._at
        if self._quoted_at is not None:
            self._quoted_at -= self._at
        self._at = 0
        return pieces

    def _step(self) -> bool:
        """Decide as much as can be; False when more input is needed."""
        if self._state is _State.ARGUMENTS:
            return self._step_arguments()
        marker = find_marker(self._buffer, self._at)
        if marker is None:
            end = len(self._buffer) - unfinished_marker(self._buffer[self._at :])
            if not self._must_wait(end):
                self._text(end)
                if self._state is _State.HEADER:
                    self._go(None)
            return False
        if self._state is _State.HEADER and marker.start() - self._at > HEADER_LIMIT:
            self._text(marker.start())
            self._go(None)
            return True
        what = MARKERS[marker[0]]
        do, state = _TRANSITIONS.get((self._state, what), (None, self._state))
        if do is None:
            if self._state is _State.TEXT or self._buffer[self._at : marker.start()].strip():
                self._text(marker.start())
            self._pieces.append(Dropped(f"stray {what.name.lower()}"))
            self._at = marker.end()
            self._fresh = True
            return True
        if do is _Do.START_CALL_BEHIND:
            first = not self._pieces and not self._buffer[: marker.start()].strip()
            header = self._header_behind(marker.start())
            self._start_call(header, behind=first and self._state is _State.TEXT)
        elif do is _Do.START_CALL:
            self._start_call(self._buffer[self._at : marker.start()].strip())
        elif do is _Do.EMPTY_CALL:
            self._empty_call(self._buffer[self._at : marker.start()].strip())
        else:
            self._text(marker.start(), before_marker=True)
        self._at = marker.end()
        self._go(state)
        return True

    def _go(self, state: _State | None) -> None:
        if state is None:
            state = _State.SECTION if self._in_section else _State.TEXT
        if state in (_State.SECTION, _State.TEXT):
            self._in_section = state is _State.SECTION
        self._state = state
        self._trailing = self._fresh = True

    # Text, in every state but ARGUMENTS

    def _must_wait(self, end: int) -> bool:
        """Whether what stands before `end` may yet turn out not to be text."""
        run = self._buffer[self._at : end]
        if self._state is not _State.TEXT:
            return len(run) <= HEADER_LIMIT
        if not self._fresh:
            return False
        if self._trailing and len(run) <= LONGEST and not run.strip():
            return True
        return len(run) <= HEADER_LIMIT and self._tools.may_be_header(run)

    def _text(self, end: int, *, before_marker: bool = False) -> None:
        """Everything up to `end` is text, except white space that only formats."""
        run = self._buffer[self._at : end]
        if not run:
            return
        blank = not run.strip()
        formatting = self._state is not _State.TEXT or (self._trailing and before_marker)
        if blank and self._fresh and formatting:
            self._pieces.append(Dropped("white space between markers"))
        else:
            self._pieces.append(Text(self._offset + self._at, run, self._trailing))
        if not blank:
            self._fresh = False
        self._at = end

    def _header_behind(self, end: int) -> str:
        """The header that stands right before an argument marker, taken off the text."""
        run = self._buffer[self._at : end]
        behind = AT_END.search(run, max(0, len(run) - HEADER_LIMIT))
        one_word = len(run) <= HEADER_LIMIT and len(run.split()) == 1
        if behind and not self._tools.named_by(behind[0].strip()):
            behind = None
        if behind is None and self._state is _State.SECTION and one_word:
            return run.strip()
        start = behind.start() if behind else len(run)
        self._text(self._at + start, before_marker=True)
        return run[start:].strip()

    # Calls

    def _start_call(self, header: str, *, behind: bool = False) -> None:
        self._pieces.append(CallStart(header, behind))
        self._json = JsonFollower()
        self._quoted_at = None
        self._arguments_seen = False
        self._followed = -1  # set by the first step, behind the marker

    def _empty_call(self, header: str) -> None:
        if header:
            self._pieces += [CallStart(header), CallEnd(valid=True, cut=False)]
        else:
            self._pieces.append(Dropped("call without header and arguments"))

    def _step_arguments(self) -> bool:
        if not self._arguments_seen and not self._skip_leading_blanks():
            return False
        marker = find_marker(self._buffer, self._followed)
        if marker is None:
            end = len(self._buffer) - unfinished_marker(self._buffer[self._followed :])
            if self._follow(end):
                self._arguments(self._known_end())
                return False
        elif self._follow(marker.start()):
            if self._json.in_string:
                self._hold_quoted(marker.start(), marker.end())
            elif self._quoted_at is not None:
                self._quoted_marker_was_real()
            else:
                self._leave_arguments(marker.start(), marker.end(), MARKERS[marker[0]])
        return True

    def _skip_leading_blanks(self) -> bool:
        blanks = _BLANK.match(self._buffer, self._at)
        self._at = self._followed = blanks.end() if blanks else self._at
        self._arguments_seen = self._at < len(self._buffer)
        return self._arguments_seen

    def _follow(self, end: int) -> bool:
        """Follow the JSON up to `end`; False if an earlier quoted marker proved real."""
        while self._followed < end:
            if self._json.status is Status.OPEN:
                stop = end
                if self._quoted_at is not None:
                    stop = min(end, self._quoted_at + QUOTED_LIMIT)
                    if self._followed >= stop:  # long enough: it was quoted
                        self._quoted_at = None
                        self._arguments(self._followed)
                        continue
                self._followed = self._json.follow(self._buffer, self._followed, stop)
                if self._quoted_at is not None and self._json.broken:
                    self._quoted_marker_was_real()
                    return False
                if self._json.complete:
                    self._quoted_at = None
                    self._arguments(self._followed)
            elif self._json.complete:
                # White space behind the value is formatting, unless more follows.
                blanks = _BLANK.match(self._buffer, self._followed, end)
                self._followed = blanks.end() if blanks else end
                if self._followed < end or self._followed - self._at > HEADER_LIMIT:
                    self._json.status = Status.BROKEN
            else:
                self._followed = end
        return True

    def _known_end(self) -> int:
        """Up to where the buffer is arguments for certain."""
        if self._quoted_at is not None:
            return self._quoted_at
        return self._at if self._json.complete else self._followed

    def _hold_quoted(self, start: int, end: int) -> None:
        """A marker inside a JSON string: text, if the JSON completes."""
        if self._quoted_at is not None and end - self._quoted_at > QUOTED_LIMIT:
            self._quoted_at = None  # the first of them was quoted
        if self._quoted_at is None:
            self._arguments(start)
            self._quoted_at = start
        self._followed = end

    def _quoted_marker_was_real(self) -> None:
        """The JSON cannot complete any more: go back to the first quoted marker."""
        assert self._quoted_at is not None
        marker = find_marker(self._buffer, self._quoted_at)
        assert marker is not None
        self._quoted_at = None
        self._json.status = Status.BROKEN
        self._leave_arguments(marker.start(), marker.end(), MARKERS[marker[0]])

    def _leave_arguments(self, start: int, end: int, what: Marker) -> None:
        transition = _TRANSITIONS.get((_State.ARGUMENTS, what))
        if transition is None:
            self._arguments(start)
            self._pieces.append(Dropped(f"stray {what.name.lower()}"))
            self._at = self._followed = end
            return
        self._end_call(start, cut=False)
        self._at = end
        self._go(transition[1])

    def _arguments(self, end: int) -> None:
        if end > self._at:
            self._pieces.append(Arguments(self._buffer[self._at : end]))
            self._at = end

    def _end_call(self, end: int, *, cut: bool) -> None:
        if not self._json.complete:
            self._arguments(end)
        self._json.end()
        complete = self._json.complete
        self._at = end
        empty = not self._arguments_seen or self._followed < 0
        self._pieces.append(CallEnd(valid=complete or (empty and not cut), cut=cut))

    def _close_arguments(self) -> None:
        end = len(self._buffer)
        if self._json.status is not Status.OPEN or not self._json.in_string:
            end -= unfinished_marker(self._buffer[self._at :])
        if self._followed >= 0:
            self._follow(end)
        self._end_call(end, cut=True)
        self._at = len(self._buffer)
        self._go(_State.TEXT)
