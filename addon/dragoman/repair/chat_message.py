"""Repair of a reply that is not streamed: one chat completion in, one out.

The same scanner and calls as for a stream.  Text before a section stays in its field,
since here the whole message is one event; text after it goes where the policy says.
"""

from __future__ import annotations

import re

from ..notes import Evidence
from ..wire.chat_end import is_whole
from ..wire.chat_text import (
    Passage,
    by_passage,
    emptied_completion,
    passages,
    rewritten,
    text_of_fields,
)
from ..wire.json_codec import Json, NotJson
from ..wire.json_slices import reading, writing
from ..wire.slices import Slices
from ..wire.sse import is_event_stream
from .call_builder import CallBuilder
from .call_rule import rules_for
from .chat_stream import ChatStreamRepair
from .declared_tools import DeclaredTools
from .events import CallEnd, Dropped, LeftAsText, ScanEvent, Text
from .formats import at_markers
from .native_calls import NativeCalls
from .pending import Policy, fields_of, finish_after, note_piece
from .pipeline import RepairPipeline
from .scanner import Scanner

AT_ONCE = 4096
"""Characters of a text in which there are markers that are scanned by one call."""

_MORE_THAN_NAME = re.compile(
    rb'"name"\s*:\s*"(?:function|[^"\\:<]{1,256}(?::\d|<|\\u003[cC]))'
).search


def repairing_body(
    body: bytes, tools: DeclaredTools, policy: Policy, evidence: Evidence, now: int
) -> Slices[bytes | None]:
    """The repaired JSON body; None if nothing in it needs repair."""
    if not ((yield from policy.formats.widest.holding_marker(body)) or _names_more(body)):
        return None
    try:
        reply = yield from reading(body)
    except NotJson:
        return None
    choices = reply.get("choices") if isinstance(reply, dict) else None
    model = reply.get("model") if isinstance(reply, dict) else None
    model = model if isinstance(model, str) else ""
    rules, formats = rules_for(tools, model), policy.formats.active(tools.model, model)
    touched = False
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
            calls = CallBuilder(evidence, now, tools)
            natives = NativeCalls(tools, calls, formats, evidence)
            scanner = Scanner(tools, rules, formats)
            repair = _MessageRepair(choice, scanner, calls, policy, evidence, natives=natives)
            touched |= yield from repair.run()
        yield
    repaired = (yield from writing(reply)) if touched else None
    yield from emptied_completion(reply)
    return repaired


def _names_more(body: bytes) -> bool:
    """Whether a call may have a name that `NativeCalls` changes."""
    natives = body.find(b'"tool_calls"')
    return natives >= 0 and _MORE_THAN_NAME(body, natives) is not None


def repairing_whole(
    body: bytes, tools: DeclaredTools, policy: Policy, evidence: Evidence, now: int
) -> Slices[bytes]:
    """The same of a reply that may also be an event stream."""
    if is_event_stream(body):
        repair = ChatStreamRepair(tools, policy, evidence, now)
        return (yield from RepairPipeline(repair, evidence).reading(body))
    return (yield from repairing_body(body, tools, policy, evidence, now)) or body


class _MessageRepair:
    """Repairs one choice in place."""

    def __init__(
        self,
        choice: Json,
        scanner: Scanner,
        calls: CallBuilder,
        policy: Policy,
        evidence: Evidence,
        *,
        natives: NativeCalls,
    ) -> None:
        self._choice = choice
        self._message: Json = choice["message"]
        self._policy = policy
        self._evidence = evidence
        self._calls = calls
        self._scanner = scanner
        self._natives = natives
        self._passages: list[Passage] = []
        self._texts: dict[tuple[str, ...], list[str]] = {}
        """The pieces of text for each of the fields."""
        self._plain = 0
        """Characters of these."""
        self._new_calls: list[Json] = []
        self._arguments: list[str] = []
        """Those of the last call."""
        self._touched = self._cut = False

    def run(self) -> Slices[bool]:
        """Whether anything was repaired."""
        message = self._message
        native = message.get("tool_calls")
        native = native if isinstance(native, list) else []
        calls = []
        for index, call in enumerate(native):
            self._calls.native_index(index)
            self._calls.native_id(call.get("id") if isinstance(call, dict) else None, index)
            calls.append(self._natives.clean(call))
            self._touched |= calls[-1] is not call
            yield
        end = 0
        for passage in passages(message):
            self._texts.setdefault(passage.fields, [])
            passage.begin = end
            self._passages.append(passage)
            end += len(passage.text)
            self._place(self._scanner.enter(text_of_fields(passage.fields)))
            for text in at_markers(passage.text, AT_ONCE):
                self._place(self._scanner.feed(text))
                yield
        whole = is_whole(self._choice.get("finish_reason"))
        self._place(self._scanner.close(whole=whole))
        self._cut = self._cut or self._scanner.cut_in_header
        if not (self._touched or self._cut) and self._plain == end:
            return False
        self._end_call()
        self._write([*calls, *self._new_calls])
        return True

    def _place(self, pieces: list[ScanEvent]) -> None:
        for piece in pieces:
            self._touched = self._touched or not isinstance(piece, Text | LeftAsText)
            if isinstance(piece, Text):
                for received, text in by_passage(piece.start, piece.text, self._passages):
                    fields = fields_of(piece, received, self._policy)
                    self._texts.setdefault(fields, []).append(text)
                    self._plain += len(text)
            elif isinstance(piece, Dropped | LeftAsText):
                note_piece(self._evidence, piece)
            else:
                self._merge(self._calls.deltas_of(piece))
                self._cut = self._cut or (isinstance(piece, CallEnd) and piece.cuts_call)

    def _merge(self, deltas: list[Json]) -> None:
        for delta in deltas:
            if "id" in delta:
                self._end_call()
                self._new_calls.append({key: delta[key] for key in ("id", "type", "function")})
            else:
                self._arguments.append(delta["function"]["arguments"])

    def _end_call(self) -> None:
        if self._arguments:
            self._new_calls[-1]["function"]["arguments"] += "".join(self._arguments)
            self._arguments.clear()

    def _write(self, calls: list[Json]) -> None:
        message = self._message
        for fields, texts in self._texts.items():
            for name in fields:
                message[name] = rewritten(name, "".join(texts), message.get(name))
        if calls:
            message["tool_calls"] = calls
            message["content"] = message.get("content") or None
        finish = self._choice.get("finish_reason")
        calls_made = self._calls.repaired > 0
        self._choice["finish_reason"] = finish_after(finish, calls_made, self._cut, self._policy)
