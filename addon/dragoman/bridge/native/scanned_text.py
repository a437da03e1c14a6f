"""A text of a host's item while it is scanned."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...repair.events import ScanEvent, Text
from ...repair.scanner import Scanner
from .host_items import HostText


@dataclass(slots=True)
class ScannedText:
    """A text that is scanned.  Offsets count the characters that its scanner was fed."""

    of_host: HostText
    scanner: Scanner
    end: int = 0
    certain: int = 0
    """Up to where it is text for certain."""
    sent: int = 0
    """Up to where its frames have left."""
    pieces: list[ScanEvent] = field(default_factory=list)
    """What the scanner gave since frames of it wait."""

    def add(self, pieces: list[ScanEvent]) -> bool:
        """Add what the scanner gives; returns whether that is anything but the text it was fed."""
        self.pieces += pieces
        for piece in pieces:
            if not isinstance(piece, Text) or piece.kind is not None:
                return True
            self.certain = piece.start + len(piece.text)
        return self.end - self.certain != self.scanner.undecided

    @property
    def is_blank(self) -> bool:
        """Whether all that is undecided is white space."""
        size = self.scanner.undecided
        return size > 0 and self.of_host.text[-size:].isspace()

    @property
    def sent_text(self) -> str:
        """The text in the frames that have left."""
        text = self.of_host.text
        return text[: len(text) - (self.end - self.sent)]

    @property
    def unsent(self) -> list[ScanEvent]:
        """The pieces without the text that has left."""
        unsent: list[ScanEvent] = []
        for piece in self.pieces:
            if not isinstance(piece, Text):
                unsent.append(piece)
            elif rest := piece.text[max(0, self.sent - piece.start) :]:
                unsent.append(replace(piece, text=rest))
        return unsent
