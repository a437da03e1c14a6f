"""The events that flow from a parser to the scanner, and from the scanner to the calls.

A call is one event, as nothing is certain of it before its end.  Each is a small record that nobody
changes.  They are not frozen, as a frozen record takes three times as long to make.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..wire.json_codec import NotJson, loads

UNREAD: Any = object()
"""The value of arguments that nobody has read."""
NOT_JSON: Any = object()
"""That of arguments that are no JSON."""


@dataclass(slots=True)
class Text:
    """What the user reads."""

    text: str
    start: int = 0
    """Its offset in what the scanner was fed; a writer has no use for it."""
    trailing: bool = False
    """Whether a call came before it in this choice."""
    kind: Literal["content", "reasoning"] | None = None
    """Its kind in its format; None: the kind of the field in which it came."""


@dataclass(slots=True)
class Header:
    """The header of what may be a call; its `Whole` follows, or it is text."""

    name: str | None
    """The name of its tool; None if the header has none."""
    literal: str = ""
    """Its text, if the call may be known by nothing else; empty if that is no id either: then it is
    a call only if exactly one tool takes the arguments."""
    call_id: str = ""
    """The header, if it is a call id."""
    form: str = "plain name"
    """The form in which it has the name."""
    bare: bool = False
    """Whether nothing but a name was there, not even arguments."""
    resolved: bool = False
    """Whether the parser has already looked the name up among the declared tools."""
    odd: bool = False
    """Whether this looks like no header (``!!!``).  It is one all the same if exactly one tool
    takes the arguments."""
    last: bool = False
    """Whether it is one only if its call ends the text, too."""
    doubtful: bool = False
    """Whether a text may begin so as well: then only arguments that a tool declares are a call."""


@dataclass(slots=True)
class Whole:
    """All of the call whose header came last."""

    pieces: list[str]
    """Its arguments, see `Call`."""
    unmarked: bool = False
    """Whether the text ended where a marker should have closed the call."""
    read: Any = field(default=UNREAD, repr=False, compare=False)
    """What they say, if the parser has read them."""


@dataclass(slots=True)
class NoHeader:
    """What followed a begin marker is no header of a call: the marker is text."""


@dataclass(slots=True)
class Damaged:
    """What was read, up to the `rest`, is no call, or only the beginning of one: it is text."""

    name: str
    """The name of its tool."""
    cut: bool = False
    """Whether the text ended in it."""
    why: str = ""
    """By which rule, if it has a name."""


@dataclass(slots=True)
class Call:
    """A whole call that has leaked."""

    name: str
    """That of its tool."""
    pieces: list[str]
    """The JSON text of its arguments, in the pieces in which it leaves: where it is the model's own
    text, those in which it came."""
    call_id: str = ""
    """The header, if it is a call id."""
    form: str = "plain name"
    """The form in which the header has the name."""
    format: str = ""
    """The name of its format."""
    unmarked: bool = False
    """See `Whole`."""
    read: Any = field(default=UNREAD, repr=False, compare=False)
    """See `Whole`."""

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    @property
    def value(self) -> Any:
        """What its arguments say, read once; `NOT_JSON` if they are none."""
        if self.read is UNREAD:
            try:
                self.read = loads(self.arguments)
            except NotJson:
                self.read = NOT_JSON
        return self.read


class Drop(enum.Enum):
    """What is taken out of a text, in the words of its note."""

    STRAY = "stray"
    """A marker without its call."""
    CHANNEL = "channel marker"
    HALF = "unfinished"
    """Of a marker or a call, at the end of a text."""
    SECTION = "empty section"
    CALL = "call without header and arguments"
    HEADER = "header of a message"
    REPEATED = "repeated header"
    VALUE = "a second value of an argument"
    BLANKS = "white space"
    SHAPE = "shape unknown:"
    """All of a call but its name and values."""


@dataclass(slots=True)
class Dropped:
    """A part of the input that is in no other event."""

    kind: Drop
    what: str = ""
    """Which, or where it was."""


class Refusal(enum.Enum):
    """Why what looks like a call is text, in the words of its note."""

    QUOTED = "in quoted code"
    NAMED = "that its line names"
    ALONE = "alone"
    WITHOUT_HEADER = "without a header"
    UNDECLARED = "of no declared tool"
    LACKING = "without an argument that its tool requires"
    NOT_LAST = "that does not end its text"
    NOT_MEANT = "where no call is meant"
    OF_TEXT = "of a call that is text"
    DAMAGED = ""
    TOO_LONG = "that is too long to be held"
    TOO_MANY = "after too many without a call"
    AFTER_ALL = "after as many calls as a reply may have"


@dataclass(slots=True)
class LeftAsText:
    """A marker stays in the text, which is another event."""

    what: str
    why: Refusal


@dataclass(slots=True)
class SectionStart:
    """A section without calls begins here: what stands before it in the same frame is the answer
    (the specification's example of mixed content)."""

    start: int
    """Its offset in what the scanner was fed."""


ParseEvent = Text | Header | Whole | NoHeader | Damaged | Dropped
"""What the parser gives."""
ScanEvent = Text | Call | Dropped | LeftAsText | SectionStart
"""What the scanner gives."""


def joined(events: list[ScanEvent]) -> list[ScanEvent]:
    """The events, with adjacent texts in one."""
    runs: list[tuple[ScanEvent, list[str]]] = []
    last: ScanEvent | None = None
    for event in events:
        follows = False
        if isinstance(event, Text) and isinstance(last, Text):
            same = (event.trailing, event.kind) == (last.trailing, last.kind)
            follows = same and event.start == last.start + len(last.text)
        if not follows:
            runs.append((event, []))
        if isinstance(event, Text):
            runs[-1][1].append(event.text)
        last = event
    return [
        replace(first, text="".join(texts)) if isinstance(first, Text) and len(texts) > 1 else first
        for first, texts in runs
    ]
