"""Repair of a stream in which a host speaks the Responses API itself.

Each text has a scanner of its own, as items may overlap (llama.cpp ends all of them at the end): a
frame of another item than the undecided text is deferred.
"""

from __future__ import annotations

from functools import partial

from ...notes import Evidence
from ...repair.declared_tools import DeclaredTools
from ...repair.formats.active import ActiveFormats
from ...repair.formats.json_alone import JSON_ALONE
from ...repair.policy import Policy
from ...repair.scanner import Scanner
from ...responses.host_reader import ANNOTATION, HostReader, HostText, Said
from ...responses.names import DELTAS, TERMINALS
from ...responses.passed_events import PassedEvents
from ...wire.json_codec import Json, dumps, objects, string
from ...wire.sse import HEARTBEAT, Document, Frame
from .leaked_response import LeakedResponse
from .native_repair import Client, End, NativeRepair, ScannedText, Waiting
from .request_tools import RequestTools


class ResponsesRepair(NativeRepair):
    def __init__(self, tools: RequestTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._reader = HostReader()
        super().__init__(self._reader, policy, evidence, now)
        self._tools = tools
        self._streams = True
        self._formats = policy.formats.active(tools.declared.model)
        self._model: str | None = None
        """What the reply calls its model; None while no text has come."""
        self._passed = PassedEvents()

    def heartbeat(self) -> Frame:
        """An event, as clients do not count comments; a comment before the first and after the
        last, and where the rest is not read."""
        if self._ended or self._gave_up or self._reader.response is None:
            return HEARTBEAT
        writer = self._client if isinstance(self._client, LeakedResponse) else self._passed
        return writer.heartbeat() or HEARTBEAT

    def document(self, body: bytes) -> bytes:
        """It is read as the event that ends its stream."""
        response = Document(body).readable(self._evidence)
        if not isinstance(response, dict) or not isinstance(response.get("output"), list):
            return body
        kind = f"response.{response.get('status')}"
        event = {"type": kind if kind in TERMINALS else "response.completed", "response": response}
        self._streams = False
        self._take(Waiting(Frame(body), event))
        return dumps(self._client.response) if isinstance(self._client, LeakedResponse) else body

    def _end_with(self, waiting: Waiting) -> End | None:
        event = waiting.event or {}
        kind, response = string(event.get("type")), event.get("response")
        if kind not in TERMINALS and kind != "error":
            return None
        self._ended = True
        items = objects(response.get("output")) if isinstance(response, dict) else []
        self._follows |= any(item.get("type") != "reasoning" for item in items[:-1])
        if kind in ("error", "response.failed"):
            return Scanner.abandon
        end = Scanner.end_before_more if self._follows else Scanner.close
        return partial(end, whole=False) if kind == "response.incomplete" else end

    def _must_defer(self, event: Json, undecided: ScannedText) -> bool:
        """Whether this is about another item than the undecided text, or about its end.  A native
        call ends a text in which no call is open; where only white space after a call is undecided,
        or no more of the text will come, any item."""
        text, index, kind = undecided.text, self._reader.index_of(event), event["type"]
        if index is None:
            return False
        if index == text.index:
            return not (self._reader.begins(event) or kind in DELTAS or kind == ANNOTATION)
        if kind != "response.output_item.added":
            return True
        first = self._deferred[0].event if self._deferred else None
        if first is not None and self._reader.index_of(first) == text.index:
            return False
        item = event.get("item")
        is_call = isinstance(item, dict) and string(item.get("type")).endswith("_call")
        rest = text.after(text.size - undecided.scanner.undecided)
        return not (rest.isspace() or (is_call and not undecided.scanner.in_call))

    def _reading(self, text: HostText) -> tuple[DeclaredTools, str, ActiveFormats]:
        """The reply may name its model before its text.  A thought is never JSON alone: whether a
        message follows shows only once its item has left."""
        if self._model is None:
            response = self._reader.response or {}
            self._model = string(response.get("model"))
            if response and not self._tools.requested:
                self._tools = RequestTools.of_request(response)
            self._formats = self._policy.formats.active(self._tools.declared.model, self._model)
        thinks = text.part.item == "reasoning"
        formats = self._formats.without(JSON_ALONE) if thinks else self._formats
        return self._tools.declared, self._model, formats

    def _begin_client(self, text: HostText, unsent: list[Said]) -> Client:
        numbers = [(waiting.event or {}).get("sequence_number") for waiting in self._waiting]
        number = next((number for number in numbers if type(number) is int), 0)
        made = self._reader, text, unsent, self._tools, self._evidence
        number += self._passed.heartbeats
        return LeakedResponse(*made, number=number, now=self._now, streams=self._streams)

    def _pass(self, waiting: Waiting) -> Frame:
        frame, event = waiting.frame, waiting.event
        if event is None:
            return frame
        self._passed.add(event, self._reader.index_of(event))
        return self._passed.renumbered(frame, event)
