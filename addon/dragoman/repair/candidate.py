"""What may be calls, or text that looks like them: kept as it came until that is certain."""

from __future__ import annotations

from dataclasses import dataclass, field

from .events import CallStart, ScanEvent
from .markdown import MarkdownCode, Quotation

CANDIDATE_LIMIT = 64 * 1024
"""Characters that are held to find out; a longer candidate is text."""


@dataclass(slots=True)
class Candidate:
    """Everything since the last point that is certain."""

    in_code: bool = False
    """Whether it is in code that a Markdown text quotes."""
    quotation: Quotation | None = None
    """How it may be quoted otherwise."""
    markdown: MarkdownCode | None = None
    """That text."""
    header: str = ""
    """What stands before its marker; of a call, `markdown` is fed nothing else."""
    marker_size: int = 1
    raw: list[str] = field(default_factory=list)
    """All of it as it came, and what came after it."""
    size: int = 0
    events: list[ScanEvent] = field(default_factory=list)
    """What it is if it is a call."""
    whole: tuple[int, int] = 0, 0
    """Its characters, and its events, up to the end of its last whole call, or text between."""

    def add(self, text: str) -> None:
        self.raw.append(text)
        self.size += len(text)

    def before(self, rest: str) -> str:
        """All of it but the `rest`, which has not been read."""
        return "".join(self.raw).removesuffix(rest)

    def split_whole(self) -> Candidate:
        """Take what comes after the `whole` out of it."""
        size, count = self.whole
        rest = Candidate(events=self.events[count:])
        rest.add("".join(self.raw)[size:])
        del self.events[count:]
        return rest

    @property
    def too_long(self) -> bool:
        return self.size > CANDIDATE_LIMIT

    @property
    def waits(self) -> bool:
        """Whether what follows decides if it is quoted."""
        return self.in_code or self.quotation is not None

    @property
    def has_call(self) -> bool:
        return any(type(event) is CallStart for event in self.events)
