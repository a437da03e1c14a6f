"""What may be a call, or text that looks like one: kept as it came until that is certain."""

from __future__ import annotations

from dataclasses import dataclass, field

from .events import CallStart, ScanEvent
from .markdown import NOT_QUOTED, MarkdownCode, Quotation

CANDIDATE_LIMIT = 64 * 1024
"""Characters that are held to find out; a longer candidate is text."""


@dataclass(slots=True)
class Candidate:
    """Everything since the last point that is certain."""

    in_code: bool = False
    """Whether it is in code that a Markdown text quotes."""
    quotation: Quotation = NOT_QUOTED
    """How it may be quoted otherwise."""
    markdown: MarkdownCode | None = None
    """That text."""
    before: str = ""
    """The header before its marker; of a call, `markdown` is fed nothing else."""
    marker: int = 1
    """Characters of its marker."""
    raw: list[str] = field(default_factory=list)
    """All of it as it came, and what came after it."""
    size: int = 0
    pieces: list[ScanEvent] = field(default_factory=list)
    """What it is if it is a call."""
    whole: tuple[int, int] = 0, 0
    """Its characters, and its pieces, up to the end of its last whole call, or text between."""

    def add(self, text: str) -> None:
        """More has come."""
        self.raw.append(text)
        self.size += len(text)

    def read(self, rest: str) -> str:
        """All of it but the `rest`, which has not been read."""
        return "".join(self.raw).removesuffix(rest)

    def after_whole(self) -> Candidate:
        """What comes after the `whole`, which is taken out of it."""
        size, count = self.whole
        rest = Candidate(pieces=self.pieces[count:])
        rest.add("".join(self.raw)[size:])
        del self.pieces[count:]
        return rest

    @property
    def too_long(self) -> bool:
        """Whether it is more than is held."""
        return self.size > CANDIDATE_LIMIT

    @property
    def waits(self) -> bool:
        """Whether what follows decides if it is quoted."""
        return self.in_code or bool(self.quotation)

    @property
    def calls(self) -> bool:
        """Whether there is a call in it."""
        return any(isinstance(piece, CallStart) for piece in self.pieces)
