"""Kimi K2's format: a section with calls, or a call without a section::

    <|tool_calls_section_begin|>
    <|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>
    <|tool_calls_section_end|>

without the line ends.  Hosts strip the begin markers of a call, so a marker of arguments begins
one as well: after a header, or where a JSON object follows.

The parser reads in a section outside of calls (`_read_section`), the header of a call up to
the marker of its arguments (`_read_header`), and these, which are JSON, up to the end marker.  Any
other marker closes a call as well; in a section any other is a stray one, which is dropped and
recorded.  No marker ends up in an event, except quoted in a JSON string.

What is held back, and why: the start of a marker (28 characters at most); a header; in a
section the last word, which may be a header whose marker the host has stripped; white
space, which is formatting unless text follows; and what `JsonArguments` holds.
"""

from __future__ import annotations

import re

from ..declared_tools import DeclaredTools
from ..events import Drop, Dropped, Header, NoHeader
from .held_arguments import CallEnds
from .json_arguments import JsonArguments
from .kimi_k2_names import header_at_end, header_of, is_odd, may_be_header, word_of
from .marker_set import HEADER_LIMIT, marker_set
from .protocol import CallArguments, LeakFormat, LeakParser, MarkerMatch

_SECTION_BEGIN, _SECTION_END = "section_begin", "section_end"
_CALL_BEGIN, _CALL_END, _ARGUMENTS_BEGIN = "call_begin", "call_end", "arguments_begin"

MARKERS = {
    "<|tool_calls_section_begin|>": _SECTION_BEGIN,
    "<|tool_call_section_begin|>": _SECTION_BEGIN,
    "<|tool_calls_section_end|>": _SECTION_END,
    "<|tool_call_section_end|>": _SECTION_END,
    "<|tool_call_begin|>": _CALL_BEGIN,
    "<|tool_call_argument_begin|>": _ARGUMENTS_BEGIN,
    "<|tool_call_end|>": _CALL_END,
}
"""What they mean; some hosts write the section markers in the singular."""
_MARKER_SET = marker_set(MARKERS)
_CALL_ENDS = re.compile(r"\s*+<\|tool_call_end\|>")
_MARKED = re.compile(rf"\s*+(?:{_MARKER_SET.expression}|\Z)")
_ENDS = CallEnds(
    _MARKER_SET,
    frozenset(text for text, name in MARKERS.items() if name.endswith("_end")),
    before="<|tool_call_argument_begin|>",
)
_LAST_WORD = re.compile(r"(?:\A|(?<!\S)(?=\S))(?:functions\.[ \t]{1,8})?\S*+\s*+\Z")

_KEY = r'"(?:[^"\\]|\\.){0,256}'
_OBJECT = re.compile(rf'\s{{0,256}}\{{\s{{0,256}}(?:\}}|{_KEY}"\s{{0,256}}:)')
_OBJECT_SO_FAR = re.compile(
    rf'\s{{0,256}}(?:\{{\s{{0,256}}(?:{_KEY}(?:\\|"\s{{0,256}})?)?)?\Z', re.DOTALL
)


def _begins_object(text: str, at: int) -> bool | None:
    """Whether a JSON object begins there, after blanks; None if that depends on text to come."""
    if _OBJECT.match(text, at):
        return True
    return None if _OBJECT_SO_FAR.match(text, at) else False


class KimiParser(LeakParser):
    """Parses from after a marker that begins a section, a call, or its arguments."""

    def __init__(self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools) -> None:
        super().__init__(match, header, start, tools)
        marker = match.name
        self._in_section = marker == _SECTION_BEGIN
        self._in_head = marker == _CALL_BEGIN
        self._read = type(self)._read_header if self._in_head else type(self)._read_section
        self._has_text = False
        """Whether there was text since the section began or the last call ended."""
        self._calls = 0
        """Calls that have begun."""
        if marker == _ARGUMENTS_BEGIN:
            self._begin_call(word_of(header), 0)

    @property
    def whole(self) -> bool:
        between = self._calls > 0 and not (self._in_head or self._is_over or self.rest.strip())
        return self._arguments.complete if self._arguments else between

    def _finish(self) -> None:
        if self._arguments is not None:
            super()._finish()
            return
        if self._in_head:
            self._in_head = False
            if self.rest.strip():
                self._events.append(NoHeader())
                return
            self._events.append(Dropped(Drop.STRAY, _CALL_BEGIN))
        half = _MARKER_SET.unfinished(self.rest) if self._calls else 0
        self._give_until(len(self._buffer) - (half if half > 1 else 0))
        self._drop_rest()
        self._end_section()

    def _end_section(self) -> None:
        self._is_over = True
        if not self._calls:
            self._events.append(Dropped(Drop.SECTION))

    # A section

    def _read_section(self) -> bool:
        if self._at == len(self._buffer):
            return False
        marker = _MARKER_SET.find(self._buffer, self._at)
        unfinished = 0 if marker else _MARKER_SET.unfinished(self.rest)
        end = marker.start() if marker else len(self._buffer) - unfinished
        if not self._has_text and (begun := self._read_unmarked(end)) is not None:
            return begun
        if marker is None:
            return self._give_but_last_word(end)
        what = MARKERS[marker[0]]
        if what == _ARGUMENTS_BEGIN:
            return self._read_arguments_begin(marker.end(), end)
        if self._give_until(end):
            return True
        self._at = marker.end()
        if what == _CALL_BEGIN:
            self._in_head = True
            self._read = type(self)._read_header
        elif what == _SECTION_END:
            self._end_section()
        else:
            self._events.append(Dropped(Drop.STRAY, what))
        return True

    def _read_arguments_begin(self, at: int, end: int) -> bool:
        """Arguments at `at`, without a begin marker: after a header, before which there may be
        text; with no header either, they must be an object."""
        run = self._buffer[self._at : end]
        header = header_at_end(run, self._tools)
        if not (header or self._has_text) and word_of(run):
            header = run
        if self._give_until(end - len(header)):
            return True
        if not header:
            begins = _begins_object(self._buffer, at)
            if begins is None and not self._ended:
                return False
            if not begins:
                self._at = at
                self._events.append(Dropped(Drop.STRAY, _ARGUMENTS_BEGIN))
                return True
        return self._begin_call(word_of(header) or "", at)

    def _give_but_last_word(self, end: int) -> bool:
        """There is no marker: up to the last word it is text."""
        run = self._buffer[self._at : end]
        last = _LAST_WORD.search(run)
        size = last.start() if last and len(last[0]) <= HEADER_LIMIT else len(run)
        blank = len(run) <= HEADER_LIMIT and not run[:size].strip()
        if size == 0 or (blank and not self._has_text):
            return False
        self._give_until(self._at + size)
        return True

    def _give_until(self, end: int) -> bool:
        """What comes up to this place is text, but for white space that only formats; False if
        there is nothing."""
        run = self._buffer[self._at : end]
        if run.strip() or self._has_text:
            self._has_text = self._give_text(end) or self._has_text
        elif run:
            self._events.append(Dropped(Drop.BLANKS, "between markers"))
            self._at = end
        return bool(run)

    # A call

    def _read_header(self) -> bool:
        marker = _MARKER_SET.find(self._buffer, self._at)
        end = marker.start() if marker else len(self._buffer)
        if (begun := self._read_unmarked(end)) is not None:
            return begun
        run = self._buffer[self._at : end]
        so_far = run if marker else run[: len(run) - _MARKER_SET.unfinished(run)]
        word, odd = word_of(so_far), is_odd(so_far, in_section=self._in_section)
        what = MARKERS[marker[0]] if marker else ""
        if word is not None or odd:
            if marker is None:
                return False
            if what == _ARGUMENTS_BEGIN:
                return self._begin_call(word, marker.end(), odd=run.strip())
        if marker is None or word is None:
            self._events.append(NoHeader())
            self._leave_call()
            return True
        self._at = marker.end() if what == _CALL_END else end
        if word:
            self._calls += 1
            header = header_of(word, self._tools, arguments=False)
            self._give_call(header)
        else:
            self._events.append(Dropped(Drop.CALL))
        self._leave_call()
        return True

    def _read_unmarked(self, end: int) -> bool | None:
        """Begin a call that comes before `end` without the marker of its arguments: the header of a
        declared tool, and an object.  None if there is none; False if more text is needed."""
        at = self._buffer.find("{", self._at, min(end, self._at + HEADER_LIMIT))
        word = word_of(self._buffer[self._at : at]) if at >= 0 else None
        if not word or header_of(word, self._tools, arguments=True).name not in self._tools:
            return None
        begins = _begins_object(self._buffer, at)
        if begins is None and not self._ended:
            return False
        return self._begin_call(word, at) if begins else None

    def _begin_call(self, word: str | None, at: int, odd: str = "") -> bool:
        """`odd` is what is no word."""
        self._calls += 1
        if word is None:
            last = not self._in_section
            header = Header(None, odd, form="odd header", resolved=True, odd=True, last=last)
        else:
            header = header_of(word, self._tools, arguments=True)
        return self._start_call(header, JsonArguments(header.name or header.literal, _ENDS), at)

    def _arguments_ended(self, arguments: CallArguments) -> None:  # noqa: ARG002
        end = _CALL_ENDS.match(self._buffer)
        self._at = end.end() if end else 0
        self._leave_call()
        self._has_text = _MARKED.match(self._buffer) is None

    def _leave_call(self) -> None:
        self._has_text = self._in_head = False
        self._read = type(self)._read_section
        if not self._in_section:
            self._end_section()


class _KimiK2(LeakFormat):
    """Looks for stripped headers as well."""

    look_back = HEADER_LIMIT

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        return len(text) <= HEADER_LIMIT and may_be_header(text, tools)

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:
        return header_at_end(text, tools) if match.name == _ARGUMENTS_BEGIN else ""

    def stray_opens_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:
        if match.name != _ARGUMENTS_BEGIN:
            return False
        return True if header else _begins_object(text, match.end)


_BEGIN = [text for text, name in MARKERS.items() if name in (_SECTION_BEGIN, _CALL_BEGIN)]
KIMI_K2 = _KimiK2(
    "kimi_k2", ("<|tool_call",), _MARKER_SET, KimiParser, openers=_BEGIN, names=MARKERS
)


def section(header: str, arguments: str) -> str:
    """A section with one call, as the model writes it."""
    text = {name: text for text, name in reversed(MARKERS.items())}
    call = f"{text[_CALL_BEGIN]}{header}{text[_ARGUMENTS_BEGIN]}{arguments}"
    return f"{text[_SECTION_BEGIN]}{call}{text[_CALL_END]}{text[_SECTION_END]}"
