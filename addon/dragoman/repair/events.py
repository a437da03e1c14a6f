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

    @property
    def cuts_call(self) -> bool:
        """Whether its arguments are not whole because of that."""
        return self.cut and not self.valid


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


def joined(pieces: list[ScanEvent]) -> list[ScanEvent]:
    """The same with adjacent texts in one piece, and adjacent arguments."""
    out: list[ScanEvent] = []
    run: list[str] = []
    end = 0
    for piece in [*pieces, None]:
        last = out[-1] if out else None
        follows = (
            piece.start == end and (piece.trailing, piece.kind) == (last.trailing, last.kind)
            if isinstance(piece, Text) and isinstance(last, Text)
            else isinstance(piece, Arguments) and isinstance(last, Arguments)
        )
        if not follows and len(run) > 1 and isinstance(last, Text | Arguments):
            out[-1] = replace(last, text="".join(run))
        if piece is None:
            break
        if follows:
            assert isinstance(piece, Text | Arguments)
            run.append(piece.text)
        else:
            out.append(piece)
            run = [piece.text] if isinstance(piece, Text | Arguments) else []
        if isinstance(piece, Text):
            end = piece.start + len(piece.text)
    return out
