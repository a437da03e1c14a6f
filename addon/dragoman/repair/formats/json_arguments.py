"""Arguments that a format writes as JSON text, and what follows a call that ends with JSON.

The JSON between the markers is the arguments, or there is no call: after the end of the JSON there
is white space, then a marker, or the end of the text.  So a quotation mark that the model did not
escape makes it none (``{"command": "echo "}" >> a.txt"}``), as does a missing bracket.  What reads
as a marker in a string of the JSON is part of the string.

Two spellings are read as what they mean: line ends and other control characters in strings, which
JSON has escaped, and an object that is written as a JSON string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...wire.json_progress import JsonProgress
from ..events import Damaged, Whole
from .marker_set import MarkerPattern
from .protocol import CallArguments
from .value_types import read_json

MAX_PIECES = 1000
"""Pieces in which the arguments of one call leave; those of a longer one are joined, as all leave
at once."""
MAX_AFTER = 4096
"""Characters after a call, or after the place at which its JSON is broken, in which its end is
looked for."""
_NOT_BLANK = re.compile(r"\S")


class HeldText:
    """The text of a call that comes in pieces."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.size = 0

    def __bool__(self) -> bool:
        return self.size > 0

    def add(self, text: str) -> None:
        pieces = self._pieces
        pieces.append(text)
        self.size += len(text)
        if len(pieces) >= 2 * MAX_PIECES:
            self._pieces = ["".join(pieces[at : at + 2]) for at in range(0, len(pieces), 2)]

    def __str__(self) -> str:
        return "".join(self._pieces)

    def pieces(self, start: int, end: int) -> list[str]:
        """A part of the text, in the pieces in which it came."""
        found: list[str] = []
        for piece in self._pieces:
            if part := piece[max(start, 0) : max(end, 0)]:
                found.append(part)
            start, end = start - len(piece), end - len(piece)
        step = -(-len(found) // MAX_PIECES) or 1
        return ["".join(found[at : at + step]) for at in range(0, len(found), step)]


@dataclass(frozen=True, slots=True)
class CallEnds:
    """How the calls of a format end.

    `markers` may follow a call.  One that is damaged reaches up to the next of the `closers`; a
    format without any leaves its calls open, and then text may follow.
    """

    markers: MarkerPattern
    closers: frozenset[str] = frozenset()

    def is_whole(self, text: str, at: int, *, ended: bool) -> bool | None:
        """Whether a call, whose JSON ends there in a text, is one; None if that depends on text to
        come.  `ended`: no more comes."""
        if self.is_last(text, at):
            return True if ended else None
        found = self.markers.find(text, at)
        if found is not None and not text[at : found.start()].strip():
            return True
        if found is None and self.closers and not ended and len(text) - at < MAX_AFTER:
            return None
        if found is not None and found[0] in self.closers:
            return False
        return self._may_be_followed(text[at : found.start() if found else None], ended=ended)

    def is_last(self, text: str, at: int) -> bool:
        """Whether there is nothing but white space or half a marker."""
        begin = _NOT_BLANK.search(text, at)
        return begin is None or self.markers.unfinished(text, at) == len(text) - begin.start()

    def _may_be_followed(self, text: str, *, ended: bool) -> bool | None:
        """Whether this is a text after a call, and not more of it: its first line closes nothing
        that it did not open."""
        line, line_end, _ = text[:MAX_AFTER].partition("\n")
        if not (line_end or ended or len(line) == MAX_AFTER):
            return None
        closes = any(line.count(end) > line.count(begin) for begin, end in ("{}", "[]"))
        return not (closes or line.count('"') % 2)

    def of_damaged(self, text: str, at: int) -> int | None:
        """Where a call ends that is damaged there; None if more text may show that."""
        found = self.markers.find(text, at) if self.closers else None
        while found is not None and found[0] not in self.closers:
            found = self.markers.find(text, found.end())
        if found is None:
            return None if self.closers and len(text) - at < MAX_AFTER else at
        return found.end()


class JsonArguments(CallArguments):
    """The arguments of a call of the tool `name`."""

    def __init__(self, name: str, ends: CallEnds) -> None:
        super().__init__()
        self._name = name
        self._ends = ends
        self._json = JsonProgress()
        self._text = HeldText()
        self._damaged = False

    @property
    def complete(self) -> bool:
        return self._json.complete

    @property
    def rest(self) -> str:
        return self.unread if self.over else f"{self._text}{self.unread}"

    def take_more(self, text: str) -> bool:
        json = self._json
        if self.unread or not json.in_string or json.escaped or '"' in text or "\\" in text:
            return False
        self._text.add(text)
        return True

    def step(self) -> bool:
        json = self._json
        if not (json.complete or json.broken) and (self._text or self._begins()):
            begin = self._at
            self._at = json.follow(self._buffer, begin, len(self._buffer))
            if self._at > begin:
                self._text.add(self._buffer[begin : self._at])
        if json.complete and not self._damaged:
            whole = self._ends.is_whole(self._buffer, self._at, ended=False)
            if whole:
                self._give()
            self._damaged = whole is False
        self._damaged = self._damaged or json.broken
        if self._damaged and (end := self._ends.of_damaged(self._buffer, self._at)) is not None:
            self._damage(end)
        return self.over

    def finish(self, *, whole: bool = True) -> None:
        cut = not (self._damaged or self._json.broken)
        self._json.end()
        if self._json.complete and not self._damaged:
            is_last = self._ends.is_last(self._buffer, self._at)
            cut = is_last and not whole
            if not cut and self._ends.is_whole(self._buffer, self._at, ended=True):
                self._give(unmarked=is_last)
                return
        end = None if cut else self._ends.of_damaged(self._buffer, self._at)
        self._damage(len(self._buffer) if end is None else end, cut=cut)

    def _begins(self) -> bool:
        """Step over the blanks before the JSON, to where it begins: where there are none, the call
        is whole."""
        begin = _NOT_BLANK.search(self._buffer, self._at)
        self._at = begin.start() if begin else len(self._buffer)
        if begin is None or begin[0] in '{["':
            return begin is not None
        if self._ends.markers.match(self._buffer, self._at):
            self._end(Whole(["{}"]))
            return False
        return self._ends.markers.unfinished(self._buffer, self._at) < len(self.unread)

    def _damage(self, end: int, *, cut: bool = False) -> None:
        self._at = end
        self._end(Damaged(self._name, cut))

    def _give(self, *, unmarked: bool = False) -> None:
        text = str(self._text)
        found = read_json(text)
        if found is not None and isinstance(found[0], str):
            inner = read_json(found[0])
            found = inner if inner and isinstance(inner[0], dict) else found
        if found is None:
            self._damage(self._at)
            return
        pieces = self._text.pieces(0, len(text)) if found[1] == text else [found[1]]
        self._end(Whole(pieces, unmarked))

    def _end(self, event: Whole | Damaged) -> None:
        self._events.append(event)
        self.over = True
