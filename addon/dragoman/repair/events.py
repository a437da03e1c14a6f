"""The events that flow from a parser to the scanner, and from the scanner to the calls.

Each is a small record that nobody changes.  They are not frozen, as a frozen record takes three
times as long to make, and most deltas of a leaked call make some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


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
    """The header of what may be a call: the scanner makes a `CallStart` of it, or text."""

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
class NoHeader:
    """What followed a begin marker is no header of a call: the marker is text."""


@dataclass(slots=True)
class Damaged:
    """What was read, up to the `rest`, is no call, or only the beginning of one: it is text."""

    name: str
    """The name of its tool."""
    cut: bool = False
    """Whether the text ended in it."""


@dataclass(slots=True)
class CallStart:
    """A call begins: the name of its tool, the call id that is its header (or ""), the form in
    which the header has the name, and the format's name."""

    name: str
    call_id: str
    form: str
    format: str


@dataclass(slots=True)
class Arguments:
    """A piece of the open call's arguments."""

    text: str


@dataclass(slots=True)
class NoJson:
    """The open call's arguments have proved to be invalid JSON."""


@dataclass(slots=True)
class CallEnd:
    """The open call ends."""

    valid: bool
    """Whether its arguments were one whole JSON value (or nothing at all)."""
    cut: bool
    """Whether the stream ended before a marker closed the call."""

    @property
    def cuts_call(self) -> bool:
        """Whether its arguments are not whole because of that."""
        return self.cut and not self.valid


@dataclass(slots=True)
class Dropped:
    """A part of the input that is in no other event: a stray marker, white space."""

    what: str


@dataclass(slots=True)
class LeftAsText:
    """A marker stays in the text, which is another event."""

    what: str
    why: str


@dataclass(slots=True)
class SectionStart:
    """A section without calls begins here: what stands before it in the same frame is the answer
    (the specification's example of mixed content)."""

    start: int
    """Its offset in what the scanner was fed."""


CallEvent = CallStart | Arguments | CallEnd
"""Of a leaked call."""
ParseEvent = Text | Header | NoHeader | Damaged | Arguments | NoJson | CallEnd | Dropped
"""What the parser gives."""
ScanEvent = Text | CallStart | Arguments | CallEnd | Dropped | LeftAsText | SectionStart
"""What the scanner gives."""


def joined(events: list[ScanEvent]) -> list[ScanEvent]:
    """The events, with adjacent texts in one, and adjacent arguments."""
    runs: list[tuple[ScanEvent, list[str]]] = []
    last: ScanEvent | None = None
    for event in events:
        follows = isinstance(event, Arguments) and isinstance(last, Arguments)
        if isinstance(event, Text) and isinstance(last, Text):
            same = (event.trailing, event.kind) == (last.trailing, last.kind)
            follows = same and event.start == last.start + len(last.text)
        if not follows:
            runs.append((event, []))
        if isinstance(event, (Text, Arguments)):
            runs[-1][1].append(event.text)
        last = event
    return [
        replace(first, text="".join(texts))
        if len(texts) > 1 and isinstance(first, (Text, Arguments))
        else first
        for first, texts in runs
    ]
