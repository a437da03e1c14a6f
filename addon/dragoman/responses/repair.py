"""Repair of a reply of the Responses API: its reader, its writer, and what may leak into it."""

from __future__ import annotations

from typing import Protocol

from ..notes import Evidence
from ..repair.call_rule import rules_for
from ..repair.repair_options import RepairOptions
from ..reply.choice import Declared
from ..reply.frame_queue import QueuedRepair
from ..reply.stage import Steps
from ..wire.json_codec import Json, dumps_in_steps
from ..wire.sse import Document
from .names import FAILURES, TERMINALS
from .reader import ResponsesReader
from .writer import RequestedTools, ResponsesWriter


class KnownTools(RequestedTools, Protocol):
    """The tools of a request, if that is known."""

    @property
    def requested(self) -> bool:
        """Whether there was a request that could be read; else the response repeats it."""

    def repeated_in(self, response: Json) -> RequestedTools:
        """Those that a response repeats."""


class ResponsesRepair(QueuedRepair):
    """Repairs one reply.  `now` (seconds) is the time of its last event, if that is ours."""

    _own_writer: ResponsesWriter

    def __init__(
        self, tools: KnownTools, options: RepairOptions, evidence: Evidence, now: int
    ) -> None:
        reader = ResponsesReader()
        found: list[RequestedTools] = [tools] if tools.requested else []

        def asked_for() -> RequestedTools:
            if not found and reader.response:
                found.append(tools.repeated_in(reader.response))
            return found[0] if found else tools

        def compared(name: str) -> str:
            tool = asked_for().names.find(name)
            if tool is None:
                return name
            return f"{tool.namespace}.{tool.name}" if tool.namespace else tool.name

        def known() -> Declared:
            declared = asked_for().declared
            formats = options.formats.looked_for(declared.model, reader.model)
            return Declared(declared, rules_for(declared, reader.model), formats, compared)

        writer = ResponsesWriter(reader, asked_for, evidence, now)
        super().__init__(reader, writer, known, options.bridged, evidence)

    def document(self, body: bytes) -> Steps[bytes]:
        """It is read as the event that ends its stream."""
        document = Document(body)
        yield from document.read()
        response = document.json
        document.note_bound(self._evidence)
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            return self._passes(document, body)
        kind = f"response.{response.get('status')}"
        if kind in FAILURES:
            return self._passes(document, body)  # of its words only the error would be read
        event: Json = {"type": kind if kind in TERMINALS else "response.completed"}
        self._own_writer.streams = False
        yield
        yield from self.steps(Document(value={**event, "response": response}))
        yield
        if not self._own_writer.changed:
            return body
        return (yield from dumps_in_steps(self._own_writer.response))
