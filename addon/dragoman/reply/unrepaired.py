"""A reply without repair: what the reader says is what leaves."""

from __future__ import annotations

from ..wire.sse import Frame
from .facts import TurnReader
from .stage import RepairStage
from .words import Reader, Said, Slot, Writer


class Unrepaired(RepairStage):
    """`writer`: None if frames leave as they came.  `facts` reads both sides."""

    def __init__(self, reader: Reader, writer: Writer | None, facts: TurnReader | None) -> None:
        self._reader = reader
        self._writer = writer
        self.facts = facts

    def feed(self, frame: Frame) -> list[Frame]:
        reader, writer, facts = self._reader, self._writer, self.facts
        if (more := reader.more(frame)) is not None:
            if facts is not None:
                facts.more(frame, reader, more, more[0])
            return [frame] if writer is None else writer.passed(frame, *more)
        words = reader.read(frame)
        said = Said(frame, reader.value if reader.known else None)
        said.slots = [Slot(said, word, [word]) for word in words]
        sent = [frame] if writer is None else writer.write(said)
        if facts is not None:
            facts.came(said, reader, words)
            facts.left(said, reader, sent)
        return sent
