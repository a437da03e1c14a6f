"""Where in a text a call may stand that is in no known format: markup that begins a line, and with
which the turn ends (`formats/unknown_shape.py` reads it).

It is asked for a line only while nothing of a call has come in this text, in whatever format.

| state   | the text that is held …                  | and what comes next                         |
|---------|------------------------------------------|---------------------------------------------|
| LOOKING | has no such line so far                  | READING, from one on that nothing quotes    |
| READING | begins with one, which may be a call yet | LOOKING, if it is none, and named no tool;  |
|         |                                          | else OVER: it is a call, or too much was    |
|         |                                          | read, or one in a known format came         |
| OVER    | is not looked at                         | –                                           |

Text leaves, and so becomes `Text`, by the caller alone: see `next`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from ..wire.json_codec import loads
from .call_reader import CANDIDATE_LIMIT
from .declared_tools import DeclaredTools
from .events import Call, LeftAsText, Refusal
from .formats.protocol import MarkerMatch
from .formats.unknown_shape import MarkupReader
from .scan_state import ScanState


class State(enum.Enum):
    LOOKING = enum.auto()
    READING = enum.auto()
    OVER = enum.auto()


class Answer(enum.Enum):
    NONE = "no line of this text may begin a call"
    WAITS = "the text begins with what may be one; more decides"


class UnknownCallFinder:
    """Finds them in the text of one choice."""

    def __init__(
        self, tools: DeclaredTools, scan: ScanState, known_calls: Callable[[str], list[Call]]
    ) -> None:
        """`known_calls` gives those of a text in known formats."""
        self._tools = tools
        self._scan = scan
        self._known_calls = known_calls
        self._state = State.LOOKING
        self._reader = MarkupReader(tools)
        """Reads the text that is held; used while READING."""
        self.searched = 0
        """Up to where no marker begins in that."""
        self._markers: list[LeftAsText] = []
        """Those with which it begins, and which begin no call in their format."""
        self._refused = 1
        """How many characters of it are text at least, if it is no call."""

    @property
    def may_be(self) -> bool:
        """Whether there may be one: nothing of a call came before."""
        return self._state is not State.OVER and not self._scan.called

    @property
    def reading(self) -> bool:
        """Whether the text that is held may be one."""
        return self._state is State.READING

    @property
    def has_named(self) -> bool:
        """Whether that names a tool."""
        return self.reading and bool(self._reader.name)

    def left(self) -> None:
        """Text with which something might have begun has left: what follows is another."""
        if self._state is State.READING:
            self._state = State.LOOKING
        self.searched, self._markers, self._refused = 0, [], 1

    def end(self) -> None:
        """Something of a call has come in a known format."""
        self._state = State.OVER

    def hold(self, size: int, markers: list[LeftAsText]) -> bool:
        """Whether what is held may be one, though it begins with `markers`, of so many characters,
        that begin none in their formats."""
        may_be = self.may_be and self._scan.formats.of_lines is not None
        if not may_be or not self._scan.at_line_begin or self._is_quoted():
            return False
        self._read_from(size, markers)
        return True

    def next(
        self, text: str, after: int, *, ended: bool, ends_turn: bool
    ) -> int | Answer | MarkerMatch:
        """What becomes of the `text` that is held, but for so many characters at its end, where a
        marker may begin: how many of its characters leave, and then it is asked again; an `Answer`;
        or, at the end of the turn, where the call begins.  `ended`: no more of this text comes."""
        of_lines = self._scan.formats.of_lines
        if of_lines is None or self._state is State.OVER:
            return Answer.NONE
        before = len(text) - after
        if self._state is State.LOOKING:
            begin = self._line_begin(text[:before])
            if begin is None or begin > 0:
                return begin or Answer.NONE
            if not self._scan.budget.asks_lines:
                self.end()
                return Answer.NONE
            self._scan.budget.lines += 1
            if self._is_quoted():
                return 1
            self._read_from(0, [])
        if self._may_be_call(text, ended=ended):
            if not ended:
                self.searched = before
                return Answer.WAITS
            if ends_turn and self._is_alone(text):
                self.end()
                return MarkerMatch(of_lines, "markup", 0, 0, True, alone=True)
        return min(self._refuse(), before)

    def _line_begin(self, text: str) -> int | None:
        """Where in a text a line begins with markup, if one does."""
        formats = self._scan.formats
        blanks = len(text) - len(text.lstrip(" \t"))
        if text[blanks : blanks + 1] in formats.line_begins and self._scan.at_line_begin:
            return blanks
        found = formats.line_begin(text)
        return found.end() if found else None

    def _is_quoted(self) -> bool:
        """Whether the line that begins here is quoted, or follows another of markup."""
        code = self._scan.code
        above = code.tail.rstrip()
        follows = above.endswith((">", "]")) and not above.endswith("</think>")
        return follows or code.is_open() or code.quotation() is not None

    def _read_from(self, size: int, markers: list[LeftAsText]) -> None:
        """What is held may be one, whatever these markers at its beginning are."""
        self._state, self._reader = State.READING, MarkupReader(self._tools)
        self.searched, self._markers, self._refused = size, markers, size or 1

    def _may_be_call(self, text: str, *, ended: bool) -> bool:
        """Whether the text is one so far."""
        size = len(text) - (0 if ended else self._scan.formats.unfinished(text))
        may_be = self._reader.read(text[: min(size, CANDIDATE_LIMIT + 1)])
        return may_be and size <= CANDIDATE_LIMIT

    def _is_alone(self, text: str) -> bool:
        """Whether the text is a call, and no other in a known format."""
        reader = self._reader
        if (arguments := reader.arguments) is None:
            return False
        known = [(call.name, loads(call.arguments)) for call in self._known_calls(text)]
        same = known == [(reader.name, loads(arguments))]
        return not known or (same and not self._markers)

    def _refuse(self) -> int:
        """What was read is none: how many of its characters are text."""
        reader, size = self._reader, max(self._refused, self._reader.at)
        if reader.arguments is not None:
            self._scan.add(LeftAsText("call in an unknown shape", Refusal.NOT_LAST))
        for marker in self._markers:
            self._scan.add(marker)
        budget = self._scan.budget
        budget.read_again += reader.looked - reader.at
        self.left()
        if reader.name or not budget.asks_lines:
            self.end()
        return size
