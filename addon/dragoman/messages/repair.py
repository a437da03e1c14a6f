"""Repair of a reply of the Messages API: its reader, its writer, and what may leak into it."""

from __future__ import annotations

import operator

from ..notes import Evidence
from ..repair.call_rule import rules_for
from ..repair.repair_options import RepairOptions
from ..reply.choice import Declared
from ..reply.frame_queue import QueuedRepair
from ..reply.stage import Steps
from ..wire.context_overflow import reworded_frame, with_overflow_reworded
from ..wire.json_codec import dumps, dumps_in_steps
from ..wire.sse import Document, Frame
from . import names as api
from .reader import MessagesReader
from .tools import MessagesTools, known_model
from .writer import MessagesWriter

OVERFLOW_REWORDED = ("said in the words that clients know", "an error of a prompt that is too long")
"""For the record."""


class MessagesRepair(QueuedRepair):
    """Repairs one reply.  `now` (seconds) is only used for call ids."""

    _own_writer: MessagesWriter

    def __init__(
        self, tools: MessagesTools, options: RepairOptions, evidence: Evidence, now: int
    ) -> None:
        declared = tools.declared
        reader = MessagesReader()
        writer = MessagesWriter(reader, declared.called, evidence, now)

        def known() -> Declared:
            model = known_model(reader.model)
            formats = options.formats.looked_for(declared.model, model, claude=True)
            return Declared(declared, rules_for(declared, model), formats)

        super().__init__(reader, writer, known, options.bridged, evidence)

    def feed(self, frame: Frame) -> list[Frame]:
        sent = super().feed(frame)
        if not self.reader.ended:
            return sent
        reworded = [reworded_frame(each) for each in sent]
        if any(map(operator.is_not, reworded, sent)):
            self._evidence.note(*OVERFLOW_REWORDED)
        return reworded

    def document(self, body: bytes) -> Steps[bytes]:
        """It is read as the events by which it would have been streamed."""
        document = Document(body)
        yield from document.read()
        message = document.json
        document.note_bound(self._evidence)
        if not isinstance(message, dict) or not api.is_message(message):
            reworded = with_overflow_reworded(message)
            self._passes(document, body)
            if reworded is message:
                return body
            self._evidence.note(*OVERFLOW_REWORDED)
            return dumps(reworded)
        blocks, ends = api.Blocks(), message
        for event in api.events_of(message):
            for frame in (yield from super().steps(Document(value=event))):
                blocks.feed(frame.json)
                if frame.json["type"] == api.MESSAGE_DELTA:
                    ends = frame.json["delta"]
            yield
        if not self._own_writer.changed:
            return body
        repaired = {**message, "content": blocks.whole, "stop_reason": ends["stop_reason"]}
        return (yield from dumps_in_steps(repaired))
