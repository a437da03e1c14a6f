"""A call that is held until its own text ends, and then until what follows shows that it has.

After the call's last bracket there is white space, then a marker, or the end of the text.  So a
quotation mark that the model did not escape makes no call of it
(``{"command": "echo "}" >> a.txt"}``), as does a missing bracket.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..events import Damaged, Whole
from .marker_set import MarkerPattern
from .protocol import CallArguments

MAX_PIECES = 1000
"""Pieces in which the arguments of one call leave; those of a longer one are joined, as all leave
at once."""
MAX_AFTER = 4096
"""Characters after a call, or after the place at which its JSON is broken, in which its end is
looked for."""
_NOT_BLANK = re.compile(r"\S")
_GOES_ON = tuple("\"'),;]}")


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

    `markers` may follow a call, and text, unless one of the `closers` follows that.  One that is
    damaged reaches up to the next of these.
    """

    markers: MarkerPattern
    closers: frozenset[str] = frozenset()
    bracket: str = ""
    """What may stand between a call and its marker."""
    before: str = ""
    """The marker before arguments, if one that comes twice counts once."""
    others: frozenset[str] = frozenset()
    """The closers of other formats among these: what follows such a one shows if it is real."""

    def is_whole(self, text: str, at: int, *, ended: bool) -> bool | None:
        """Whether a call, whose last bracket is before this place in a text, is one; None if that
        depends on text to come.  `ended`: no more comes."""
        at = self._after_bracket(text, at)
        if self._is_last(text, at):
            return True if ended else None
        found = self.markers.find(text, at)
        if found is not None and not text[at : found.start()].strip():
            return found[0] not in self.others or ends_call(text, found.end(), ended=ended)
        if found is None and not ended and len(text) - at < MAX_AFTER:
            return None
        if found is not None and found[0] in self.closers:
            return False
        return _may_follow(text[at : found.start() if found else None][:MAX_AFTER])

    def _after_bracket(self, text: str, at: int) -> int:
        begin = _NOT_BLANK.search(text, at)
        found = begin is not None and text.startswith(self.bracket, begin.start())
        return begin.start() + len(self.bracket) if self.bracket and found and begin else at

    def is_last(self, text: str, at: int) -> bool:
        """Whether there is nothing but white space or half a marker."""
        return self._is_last(text, self._after_bracket(text, at))

    def _is_last(self, text: str, at: int) -> bool:
        begin = _NOT_BLANK.search(text, at)
        return begin is None or self.markers.unfinished(text, at) == len(text) - begin.start()

    def of_damaged(self, text: str, at: int) -> int | None:
        """Where a call ends that is damaged there; None if more text may show that."""
        found = self.markers.find(text, at) if self.closers else None
        while found is not None and found[0] not in self.closers:
            found = self.markers.find(text, found.end())
        if found is None:
            return None if self.closers and len(text) - at < MAX_AFTER else at
        return found.end()


def ends_call(text: str, at: int, *, ended: bool) -> bool | None:
    """Whether a closer before this place in a text is real, and not one that a string quotes whose
    quotation mark before it is not escaped: what follows in its line is no more of the call.  None
    if that depends on text to come."""
    rest = text[at : at + MAX_AFTER]
    line, line_end, _ = rest.partition("\n")
    if line.strip()[:1] in ("", "<") if line_end or ended else line.lstrip()[:1] == "<":
        return True
    return _may_follow(line.lstrip()) if ended or line_end or len(rest) == MAX_AFTER else None


def _may_follow(text: str) -> bool:
    """Whether this is a text after a call, and not more of it: it begins with no mark that ends
    something, and closes nothing that it did not open."""
    closes = any(text.count(end) > text.count(begin) for begin, end in ("{}", "[]"))
    goes_on = text[:1] in _GOES_ON or text.partition("\n")[0].count('"') % 2 == 1
    return not (goes_on or closes)


class HeldArguments(CallArguments):
    """The arguments of a call of the tool `name`.  A format says how they are followed to their
    end (`_follow`), and what they are (`_read`)."""

    def __init__(self, name: str, ends: CallEnds) -> None:
        super().__init__()
        self._name = name
        self._ends = ends
        self._text = HeldText()
        """What has been followed of them."""
        self._closed = self._damaged = False
        """Whether their last bracket has come; whether they are none for certain."""

    def _follow(self) -> None:
        """Follow what has come."""
        raise NotImplementedError

    def _read(self, text: str) -> Whole | None:
        """The arguments; None if this is no call."""
        raise NotImplementedError

    def _is_whole(self, *, ended: bool) -> bool | None:
        """See `CallEnds`."""
        return self._ends.is_whole(self._buffer, self._at, ended=ended)

    @property
    def complete(self) -> bool:
        return self._closed and not self._damaged

    @property
    def rest(self) -> str:
        return self.unread if self.over else f"{self._text}{self.unread}"

    def step(self) -> bool:
        if not (self._closed or self._damaged):
            self._follow()
        if self.complete and not self.over:
            whole = self._is_whole(ended=False)
            if whole:
                self._give()
            self._damaged = whole is False
        if self._damaged and (end := self._ends.of_damaged(self._buffer, self._at)) is not None:
            self._damage(end)
        return self.over

    def finish(self, *, whole: bool = True) -> None:
        cut = not self._damaged
        if self.complete:
            is_last = self._ends.is_last(self._buffer, self._at)
            cut = is_last and not whole
            if not cut and self._is_whole(ended=True):
                self._give(unmarked=is_last)
                return
        end = None if cut else self._ends.of_damaged(self._buffer, self._at)
        self._damage(len(self._buffer) if end is None else end, cut=cut)

    def _give(self, *, unmarked: bool = False) -> None:
        whole = self._read(str(self._text))
        if whole is None:
            self._damage(self._at)
        else:
            whole.unmarked = unmarked
            self._end(whole)

    def _damage(self, end: int, *, cut: bool = False) -> None:
        self._at = end
        self._end(Damaged(self._name, cut))

    def _end(self, event: Whole | Damaged) -> None:
        self._events.append(event)
        self.over = True
