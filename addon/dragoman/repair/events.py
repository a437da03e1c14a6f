"""What repair makes of text: the pieces that flow from the parser to the scanner, and from
the scanner to the calls.

Each is a small record that nobody changes, and nothing subclasses.  They are not frozen: to make
one takes three times as long then, and most events of a leaked call make some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(slots=True)
class Text:
    """What the user reads; `start` is its offset in the text of the choice."""

    start: int
    text: str
    trailing: bool = False
    """Whether a call came before it in this choice."""
    kind: Literal["content", "reasoning"] | None = None
    """Its kind in its format; None: that of the field in which it came."""


@dataclass(slots=True)
class Header:
    """A call begins, if this is one: the scanner makes a `CallStart` of it, or text."""

    name: str | None
    """The name of its tool; None if the header has none."""
    literal: str
    """Its text, which may be empty."""
    call_id: str = ""
    """The header, if it is an id of a call."""
    form: str = "plain name"
    """In which form it gives the name."""
    bare: bool = False
    """Whether there is nothing but a name, not even arguments."""
    resolved: bool = False
    """Whether the format has looked for the tool among the declared ones itself."""
    doubtful: bool = False
    """Whether it may be that of a text: then only arguments that a tool declares tell a call."""


@dataclass(slots=True)
class NoHeader:
    """What followed a begin marker is no header of a call: the marker is text."""


@dataclass(slots=True)
class CallStart:
    """A call begins: the name of its tool, the id that its header is (empty: none), in which
    form the header gave the name, and in which format."""

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
    """What comes now makes it certain that the open call's arguments are no JSON."""


@dataclass(slots=True)
class CallEnd:
    """The open call ends."""

    valid: bool
    """Whether its arguments were one whole JSON value (or nothing at all)."""
    cut: bool
    """Whether the stream ended before a marker closed the call."""


@dataclass(slots=True)
class Dropped:
    """Something of the input that is in no other piece: a stray marker, white space."""

    what: str


@dataclass(slots=True)
class LeftAsText:
    """A marker stays in the text, which is another piece."""

    what: str
    why: str


ParseEvent = Text | Header | NoHeader | Arguments | NoJson | CallEnd | Dropped
"""What the parser gives."""
ScanEvent = Text | CallStart | Arguments | CallEnd | Dropped | LeftAsText
"""What the scanner gives."""


def joined(events: list[ScanEvent]) -> list[ScanEvent]:
    """The same with adjacent texts in one event, and adjacent arguments."""
    runs: list[list[ScanEvent]] = []
    for event in events:
        if runs and _continues(runs[-1][-1], event):
            runs[-1].append(event)
        else:
            runs.append([event])
    return [run[0] if len(run) == 1 else _in_one(run) for run in runs]


def _continues(last: ScanEvent, event: ScanEvent) -> bool:
    if isinstance(event, Text) and isinstance(last, Text):
        same = (event.trailing, event.kind) == (last.trailing, last.kind)
        return same and event.start == last.start + len(last.text)
    return isinstance(event, Arguments) and isinstance(last, Arguments)


def _in_one(run: list[ScanEvent]) -> ScanEvent:
    text, first = "".join(each.text for each in run if isinstance(each, (Text, Arguments))), run[0]
    return replace(first, text=text) if isinstance(first, (Text, Arguments)) else first
