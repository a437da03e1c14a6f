"""Repair of a chat reply: its reader, its writer, and what may leak into it."""

from __future__ import annotations

from ..notes import Evidence
from ..repair.call_rule import rules_for
from ..repair.declared_tools import DeclaredTools
from ..repair.repair_options import RepairOptions
from ..reply.choice import Declared
from ..reply.frame_queue import QueuedRepair
from ..reply.stage import Steps
from ..reply.words import Said, Slot
from ..wire.json_codec import dumps_in_steps
from ..wire.sse import Document, Frame
from .reader import ChatReader
from .writer import ChatWriter


class ChatRepair(QueuedRepair):
    """Repairs one reply.  `now` (seconds) is only used for call ids."""

    _own_writer: ChatWriter

    def __init__(
        self, tools: DeclaredTools, options: RepairOptions, evidence: Evidence, now: int
    ) -> None:
        reader = ChatReader(tools.names)
        writer = ChatWriter(reader, tools.called, evidence, now, moves=options.moves)

        def declared() -> Declared:
            formats = options.formats.looked_for(tools.model, reader.model)
            return Declared(tools, rules_for(tools, reader.model), formats)

        super().__init__(reader, writer, declared, options, evidence)

    def document(self, body: bytes) -> Steps[bytes]:
        frame = Document(body)
        yield from frame.read()
        self.reader.more(frame)
        frame.note_bound(self._evidence)
        value = self.reader.value
        if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
            return self._passes(frame, body)
        yield
        said, words = Said(Frame(b""), value), self.reader.read(frame)
        if self.facts is not None:
            self.facts.came(said, self.reader, words)
        said.slots = [Slot(said, word) for word in words]
        yield from self._read_in_steps(said)
        repaired = self._own_writer.document(said)
        if self.facts is not None:
            self.facts.left(said, self.reader, [])
        yield
        return body if repaired is None else (yield from dumps_in_steps(repaired))
