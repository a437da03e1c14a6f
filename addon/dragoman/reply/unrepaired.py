"""A reply of one API for a client of another, without repair: ``reader | writer``."""

from __future__ import annotations

from ..repair.stage import RepairStage
from ..wire.sse import Frame
from .facts import TurnReader
from .words import Reader, Said, Slot, Writer


class Unrepaired(RepairStage):
    """What the reader says is what leaves; `facts` reads it, too."""

    def __init__(self, reader: Reader, writer: Writer, facts: TurnReader) -> None:
        self._reader = reader
        self._writer = writer
        self._facts = facts

    def feed(self, frame: Frame) -> list[Frame]:
        reader, facts = self._reader, self._facts
        if (more := reader.more(frame)) is not None:
            facts.more(facts.upstream, frame, reader, more)
            return self._writer.passed(frame, *more)
        words = reader.read(frame)
        said = Said(frame, reader.value if reader.known else None)
        facts.words(facts.upstream, said, reader, words)
        said.slots = [Slot(said, word, [word]) for word in words]
        return self._writer.write(said)
