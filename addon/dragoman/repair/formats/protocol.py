"""What repair asks of a leak format: a way of writing tool calls as text.

Two halves.  The `LeakFormat` finds its markers in a text that is not in a call, and says
which of them begin a section or a call.  From such a marker on its `LeakParser` reads, until
it is over.  Whether a call was meant (quoted code, the request, the name) is decided above
all formats, by the scanner; a parser only says what it reads.

The invariant of both: the result, joined, does not depend on how the text was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from ..declared_tools import DeclaredTools
from ..events import ParseEvent

Held = tuple[str, list[str], int]
"""A text that is held back, in pieces: so many of a list that may grow after the first."""
NOTHING_HELD: Held = "", [], 0


@dataclass(frozen=True, slots=True)
class MarkerMatch:
    """A marker that stands in a text."""

    format: LeakFormat
    name: str
    """What it is, for the evidence: ``section_begin``."""
    start: int
    end: int
    begins: bool
    """Whether a section, a call or a text of its own kind begins here, whatever stands around
    it."""
    kind: Literal["content", "reasoning"] | None = field(default=None, kw_only=True)
    """What the text after it is, up to the format's next marker."""

    @property
    def begins_call(self) -> bool:
        """Whether a section or a call begins here."""
        return self.begins and self.kind is None


class LeakFormat(Protocol):
    """A format.  It holds nothing of a reply, so one object serves them all."""

    @property
    def name(self) -> str:
        """What the evidence and the options call it."""

    @property
    def beginnings(self) -> tuple[str, ...]:
        """What its markers begin with: a text that holds none of these, nor ends in the start
        of one, holds no marker."""

    @property
    def markers(self) -> str:
        """A regular expression of all its markers, for those who only show or cut texts."""

    @property
    def look_back(self) -> int:
        """How many characters before a marker may be the header of a call whose beginning the
        host has stripped; 0 if a call always begins with a marker."""

    def match(self, text: str, at: int) -> MarkerMatch | None:
        """The marker that stands at this place, if it means anything outside of a section."""

    def unfinished(self, text: str) -> int:
        """How many characters at the end of `text`, which holds no marker, may be the start
        of one."""

    def may_be_header(self, text: str, tools: DeclaredTools) -> bool:
        """Whether `text`, where a call may begin, is or could grow into a header whose
        beginning was stripped."""

    def header_before(self, match: MarkerMatch, text: str, tools: DeclaredTools) -> str:
        """The header of that kind in which `text`, which ends at the marker, ends, with the
        blanks after it; empty if there is none."""

    def begins_call(self, match: MarkerMatch, header: str, text: str) -> bool | None:
        """Whether a call begins at a marker of `text` that begins none for certain, after
        this `header`; None if more of the text has to tell.  If not, the marker is a stray
        one."""

    def parser(
        self, match: MarkerMatch, header: str, start: int, tools: DeclaredTools
    ) -> LeakParser:
        """Reads on from right after the marker, which is at offset `start` of the whole text.
        `header` is that before the marker, if it was stripped of its beginning."""


class LeakParser(Protocol):
    """Reads one section, or one call without a section.

    It is pulled: of what is pushed it takes nothing beyond the event that `next` gives, so
    that whoever decides that this was no call after all gets back the `rest`.  What it gives
    need not be the text that it read: arguments are JSON, however the format writes them, and
    a header comes when the name is known.
    """

    @property
    def over(self) -> bool:
        """Whether all is done, and the `rest` is text again."""

    @property
    def rest(self) -> str:
        """The end of what was pushed, as it came, of which nothing was given yet."""

    @property
    def held(self) -> Held:
        """What was read of a value, before the `rest`, and cannot be given until its end tells
        what it is."""

    @property
    def in_call(self) -> bool:
        """Whether a call has begun, or its header."""

    @property
    def in_header(self) -> bool:
        """Whether a call has begun whose header is not there yet."""

    @property
    def whole(self) -> bool:
        """Whether the text may end here, as far as this section goes, and a call was meant."""

    def takes(self, text: str) -> str | None:
        """Take `text` if it is nothing but more of the open call's arguments, and `next`
        would give all that it means at once: this is returned.  Else nothing is taken."""

    def push(self, text: str) -> None:
        """More of the text."""

    def next(self) -> ParseEvent | None:
        """The next event; None if more text is needed, or the section is over."""

    def end(self) -> None:
        """The text has ended: `next` gives what was held back, and ends an open call."""
