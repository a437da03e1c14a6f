"""A text of a host's item while it is scanned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...repair.events import ScanEvent, Text
from ...repair.scanner import Scanner
from .host_items import HostText


@dataclass(slots=True)
class ScannedText:
    """A text that is scanned.  Offsets count the characters that its scanner was fed."""

    text: HostText
    scanner: Scanner
    end: int = 0
    shown: int = 0
    """Up to where the text is text for certain."""
    sent: int = 0
    """Up to where its frames have left."""
    pieces: list[ScanEvent] = field(default_factory=list)
    """What the scanner made of it since its frames wait."""

    def take(self, pieces: list[ScanEvent]) -> bool:
        """Returns whether anything has come of it but the very text that was fed."""
        self.pieces += pieces
        for piece in pieces:
            if not isinstance(piece, Text) or piece.kind is not None:
                return True
            self.shown = piece.start + len(piece.text)
        return self.end - self.shown != self.scanner.undecided

    @property
    def is_blank(self) -> bool:
        """Whether all that is undecided is white space."""
        size = self.scanner.undecided
        return size > 0 and self.text.text.getvalue()[-size:].isspace()

    @property
    def sent_text(self) -> str:
        """The text in the frames that have left."""
        text = self.text.text.getvalue()
        return text[: len(text) - (self.end - self.sent)]

    @property
    def unsent(self) -> list[ScanEvent]:
        """The pieces without the text that has left."""
        return [
            replace(piece, text=piece.text[max(0, self.sent - piece.start) :])
            if isinstance(piece, Text)
            else piece
            for piece in self.pieces
            if not isinstance(piece, Text) or piece.start + len(piece.text) > self.sent
        ]
