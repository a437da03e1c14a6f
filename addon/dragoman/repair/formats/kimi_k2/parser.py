"""The parser: one section, or one call without a section, from its begin marker on.

Its states are where we stand in Kimi's format::

    SECTION    inside a section, outside any call
    HEADER     after call_begin: the call's header, up to argument_begin
    ARGUMENTS  after argument_begin: JSON, up to call_end
    OVER       after section_end, or after a call that stood in no section

`_NEXT` says which markers lead on; a call is closed by any other marker as well, and in
SECTION any other is a stray one, which is dropped and reported.  The parser is pulled: it
takes nothing from its input beyond the piece that `next` gives, so whoever decides that
this was no call after all gets back the `rest`.  The pieces, joined, do not depend on how
the input was cut, and no marker ends up in one, except quoted in a JSON string.

What is held back, and why: the start of a marker (28 characters at most); a header; in a
section the last word, which may be a header whose marker the host has stripped; white
space, which is formatting unless text follows; and what `JsonArguments` holds.
"""

from __future__ import annotations

import enum
import re
from collections import deque

from ...declared_tools import DeclaredTools
from ...events import CallEnd, Dropped, NoHeader, ParseEvent, Text
from ..json_arguments import JsonArguments
from ..protocol import NOTHING_HELD
from .markers import MARKERS, Marker, begins_object, find_marker, unfinished_marker
from .names import HEADER_LIMIT, header_at_end, header_of, may_be_word, word_of

_LAST_WORD = re.compile(r"\S*\s*\Z")


class State(enum.Enum):
    """See the top of this file."""

    SECTION = enum.auto()
    HEADER = enum.auto()
    ARGUMENTS = enum.auto()
    OVER = enum.auto()


_NEXT = {
    (State.SECTION, Marker.CALL_BEGIN): State.HEADER,
    (State.SECTION, Marker.ARGUMENTS_BEGIN): State.ARGUMENTS,
    (State.SECTION, Marker.SECTION_END): State.OVER,
    (State.HEADER, Marker.ARGUMENTS_BEGIN): State.ARGUMENTS,
}
_STRAYS = {
    text: marker.value for text, marker in MARKERS.items() if marker is Marker.ARGUMENTS_BEGIN
}
"""Markers that do not end a call."""


class KimiParser:
    """Parses from right after a begin marker.  `start` is the offset of what is pushed first,
    in the text of the choice; `state` is where that marker leads: SECTION, HEADER, or
    ARGUMENTS of a call with this `header`."""

    held = NOTHING_HELD

    def __init__(self, tools: DeclaredTools, start: int, state: State, header: str = "") -> None:
        self._tools = tools
        self._end = start
        """The offset after what was pushed."""
        self._in_section = state is State.SECTION
        self._buffer = ""
        self._at = 0
        """Before this position in the buffer everything has become a piece."""
        self._pieces: deque[ParseEvent] = deque()
        self._ended = False
        self._texts = False
        """Whether there was text since the section began or the last call ended."""
        self._calls = 0
        """Calls that have begun."""
        self._arguments: JsonArguments | None = None
        """Those of the open call: they hold what is not decided, and the buffer nothing."""
        self._state = state
        if state is State.ARGUMENTS:
            self._start_call(header)

    # What is asked

    @property
    def over(self) -> bool:
        """Whether all is done, and the `rest` is text again."""
        return self._state is State.OVER and not self._pieces

    @property
    def rest(self) -> str:
        """What no piece was made of, and no marker or white space between them was."""
        return self._arguments.rest if self._arguments else self._buffer[self._at :]

    @property
    def in_call(self) -> bool:
        """Whether a call has begun, or its header."""
        return self._state in (State.HEADER, State.ARGUMENTS)

    @property
    def in_header(self) -> bool:
        """Whether a call has begun, and its header has not ended."""
        return self._state is State.HEADER

    @property
    def whole(self) -> bool:
        """Whether nothing is missing but the end of the section, or of a call whose
        arguments are complete."""
        if self._arguments is not None:
            return self._arguments.complete
        return self._state is State.SECTION and self._calls > 0 and not self.rest.strip()

    def takes(self, text: str) -> str | None:
        """Take `text` if it is nothing but more of the open call's arguments, and `next`
        would give all of it, too; else nothing is taken."""
        if self._arguments is None or "<" in text or self._pieces:
            return None
        given = self._arguments.takes(text)
        self._end += len(text) if given is not None else 0
        return given

    # What comes and goes

    def push(self, text: str) -> None:
        """More of the input."""
        self._end += len(text)
        if self._arguments is not None:
            self._arguments.push(text)
        else:
            self._buffer = self._buffer[self._at :] + text
            self._at = 0

    def next(self) -> ParseEvent | None:
        """The next piece; None if more input is needed, or it is `over`."""
        while not self._pieces:
            if self._step() or self._pieces:
                continue
            if not self._ended or self._state is State.OVER:
                return None
            self._finish()
        return self._pieces.popleft()

    def end(self) -> None:
        """The text has ended: `next` gives what was held back, and ends an open call."""
        self._ended = True

    def _finish(self) -> None:
        """Nothing more can be decided by what has come."""
        if self._arguments is not None:
            self._arguments.finish()
            self._take_arguments(self._arguments)
            return
        if self._state is State.HEADER:
            self._pieces.append(Dropped(f"stray {Marker.CALL_BEGIN.value}"))
        self._text(len(self._buffer))
        self._enter(State.OVER)

    def _enter(self, state: State) -> None:
        self._state = state
        if state is State.OVER and not self._calls:
            self._pieces.append(Dropped("empty section"))

    def _step(self) -> bool:
        """Decide as much as can be; False when more input is needed."""
        if self._state is State.OVER:
            return False
        if self._arguments is not None:
            decided = self._arguments.step()
            self._take_arguments(self._arguments)
            return decided
        marker = find_marker(self._buffer, self._at)
        end = marker.start() if marker else len(self._buffer)
        if self._state is State.HEADER:
            return self._step_header(marker, end)
        if marker is None:
            return self._text_without_marker(end - unfinished_marker(self.rest))
        return self._step_section(marker, end)

    # A section

    def _step_section(self, marker: re.Match[str], end: int) -> bool:
        what = MARKERS[marker[0]]
        state = _NEXT.get((State.SECTION, what))
        if state is State.ARGUMENTS:
            return self._step_arguments_begin(marker, end)
        if self._at < end:
            self._text(end)
            return True
        self._at = marker.end()
        if state is None:
            self._pieces.append(Dropped(f"stray {what.value}"))
        else:
            self._enter(state)
        return True

    def _step_arguments_begin(self, marker: re.Match[str], end: int) -> bool:
        """Arguments without a begin marker; with no header either, only JSON tells them."""
        header = self._header_before(end)
        if header is None:
            return True
        if not header:
            begins = begins_object(self._buffer, marker.end())
            if begins is None and not self._ended:
                return False
            if not begins:
                self._at = marker.end()
                self._pieces.append(Dropped(f"stray {Marker.ARGUMENTS_BEGIN.value}"))
                return True
        self._at = marker.end()
        self._start_call(header)
        return True

    def _text_without_marker(self, end: int) -> bool:
        """Text up to the last word."""
        run = self._buffer[self._at : end]
        last = _LAST_WORD.search(run)
        size = len(run) - len(last[0]) if last else len(run)
        if len(run) - size > HEADER_LIMIT:
            size = len(run)
        if size == 0 or (not self._texts and len(run) <= HEADER_LIMIT and not run[:size].strip()):
            return False
        self._text(self._at + size)
        return True

    def _text(self, end: int) -> None:
        """Everything up to `end` is text, but for white space that only formats."""
        run = self._buffer[self._at : end]
        if not run:
            return
        if run.strip() or self._texts:
            start = self._end - len(self._buffer) + self._at
            self._pieces.append(Text(start, run))
            self._texts = True
        else:
            self._pieces.append(Dropped("white space between markers"))
        self._at = end

    def _header_before(self, end: int) -> str | None:
        """The header that stands right before an argument marker; None if there was text
        before it, which is the next piece."""
        run = self._buffer[self._at : end]
        header = header_at_end(run, self._tools)
        if not (header or self._texts) and run.strip() and (word := word_of(run)):
            return word
        if len(header) < len(run):
            self._text(end - len(header))
            return None
        return word_of(header) or ""

    # A header

    def _step_header(self, marker: re.Match[str] | None, end: int) -> bool:
        run = self._buffer[self._at : end]
        if marker is None and may_be_word(run[: len(run) - unfinished_marker(run)]):
            return False
        word = word_of(run) if marker else None
        if marker is None or word is None:
            self._pieces.append(NoHeader())
            self._leave_call()
            return True
        what = MARKERS[marker[0]]
        if _NEXT.get((State.HEADER, what)) is State.ARGUMENTS:
            self._at = marker.end()
            self._start_call(word)
            return True
        self._at = marker.end() if what is Marker.CALL_END else end
        if word:
            self._calls += 1
            header = header_of(word, self._tools, arguments=False)
            self._pieces += [header, CallEnd(valid=True, cut=False)]
        else:
            self._pieces.append(Dropped("call without header and arguments"))
        self._leave_call()
        return True

    # A call

    def _start_call(self, header: str) -> None:
        self._calls += 1
        self._pieces.append(header_of(header, self._tools, arguments=True))
        self._state = State.ARGUMENTS
        self._arguments = JsonArguments(find_marker, unfinished_marker, _STRAYS)
        self._arguments.push(self._buffer[self._at :])
        self._buffer, self._at = "", 0

    def _take_arguments(self, arguments: JsonArguments) -> None:
        self._pieces += arguments.take()
        if arguments.over:
            self._arguments = None
            self._buffer = arguments.rest
            ended_by = MARKERS.get(arguments.ended_by)
            self._at = len(arguments.ended_by) if ended_by is Marker.CALL_END else 0
            self._leave_call()
            self._texts = ended_by is None

    def _leave_call(self) -> None:
        self._texts = False
        self._enter(State.SECTION if self._in_section else State.OVER)
