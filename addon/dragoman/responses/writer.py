"""Writes the events of a response that its host has begun.

Until something has changed frames leave as they came.  From then on `NativeWriter`, which owns the
order and the numbers of items, writes all.  What the client has of the response stays.  The item
in which a call leaked ends there, the call is an item of its own, and what follows of the text is a
new one.  A later item begins with the host's id and fields; if nothing leaked in it, it ends with
the host's fields, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools, ToolLookup
from ..reply.numbered_writer import NumberedWriter
from ..reply.turn_context import Tool
from ..reply.words import (
    Arguments,
    CallBegin,
    Cited,
    Delta,
    Failed,
    Finish,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Said,
    Text,
)
from ..wire.chat_calls import Call
from ..wire.chat_end import error_frame
from ..wire.heartbeats import HEARTBEAT
from ..wire.json_codec import Json, objects
from ..wire.sse import Frame
from . import names as api
from .call_emitter import CallEmitter
from .host_reader import TEXT_ITEMS, HostText
from .native_writer import NativeWriter
from .output_items import SUMMARY, TEXT, StreamedPart
from .passed_events import PassedEvents, number_in, numbered
from .reader import ResponsesReader

_MOVED: dict[str, StreamedPart] = {"text": TEXT, "reasoning": SUMMARY}
"""Where a text goes that is of another kind than its item."""


class RequestedTools(Protocol):
    """The tools of a request."""

    @property
    def declared(self) -> DeclaredTools: ...

    @property
    def names(self) -> ToolLookup[Tool]: ...


class ResponsesWriter(NumberedWriter):
    """`tools`: those of the request, asked for at the first change.  `now` (seconds) is the time of
    its last event, if that is ours, and is used for ids."""

    _reader: ResponsesReader

    def __init__(
        self,
        reader: ResponsesReader,
        tools: Callable[[], RequestedTools],
        evidence: Evidence,
        now: int,
    ) -> None:
        super().__init__(reader)
        self._tools = tools
        self._evidence = evidence
        self._now = now
        self.streams = True
        """Whether events are written; else only the response."""
        self._native: NativeWriter
        """Made at the first change."""
        self._passed = PassedEvents()
        self._copied: dict[int, int] = {}
        """The client's output indexes of the items that are copied."""
        self._begun: dict[int, Json] = {}
        """Items of text of which nothing has been written."""
        self._leaked_in: set[int] = set()
        self._begun_texts: set[Part] = set()
        """Those whose annotations are written: they are of the text before a call."""
        self._text_open: tuple[HostText, StreamedPart] | None = None
        """The text for which the open item is written, if that is one of text, and as what."""
        self._emitters: dict[Part, CallEmitter] = {}
        """Of the leaked calls that are written."""
        self._names: dict[Part, str] = {}
        """Of the host's calls, where they are others than its own."""
        self._other_ids: dict[Part, str] = {}
        """Of those that have the call id of a call before them."""

    def heartbeat(self) -> Frame:
        """An event, as clients do not count comments; a comment before the first and after the
        last."""
        if self._reader.ended or self._reader.response is None:
            return HEARTBEAT
        if not self.changed:
            return self._passed.heartbeat() or HEARTBEAT
        self._native.heartbeat()
        return next(iter(self._events.drain()), HEARTBEAT)

    def error(self, message: str) -> Frame:
        return error_frame(message)

    @property
    def response(self) -> Json:
        """The response, once it has ended."""
        return self._native.response

    # What the client has

    def _continued(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        if part.kind != "call" and not self._passed.more(part.place, text):
            self._follow(Text(part, text))
        return [self._passed.sent(frame, self._reader.value)]

    def _unchanged(self, said: Said) -> list[Frame]:
        super()._unchanged(said)
        return [self._passed.sent(said.frame, said.value)]

    def _follow(self, delta: Delta) -> None:
        self._passed.follow(delta)

    def _take_over(self, said: Said) -> None:
        """Begin with the items that the client has.  Of these a message or thoughts end, but for
        the text that came last: it ends when something else begins.  An open call of the host's
        stays open."""
        response = self._reader.response or {}
        response = {**response, "id": str(response.get("id") or "resp_0")}
        called = self._tools().declared.called
        number = _number(said.raw, self._reader.value) + self._passed.heartbeats
        writer = self._native = NativeWriter(response, number, self._now, called)
        self._events = writer.events
        self._events.wanted = self.streams
        sent = self._passed.items
        last = max(sent, default=-1)
        for index in range(last + 1):
            item = sent.get(index)
            if item is None or item.done or item.value.get("type") not in TEXT_ITEMS:
                self._copied[index] = writer.add_sent(item.value if item else {})
                continue
            value, text = {"id": f"item_{index}", **item.up_to_now()}, item.open
            if text is None:
                writer.end_sent(value)
                continue
            writer.resume(value, text, item.texts[text])
            if index == last:
                self._text_open = text, text.part
            else:
                writer.close_item()

    # What is said

    def _pass_on(self, frame: Frame) -> None:
        """An error, as it came; but it has the next number if it has one."""
        events, value = self._native.events, frame.json
        if number_in(value) is not None:
            frame = numbered(frame, value, events.number)
            events.number += 1
        events.frames.append(frame)

    def _leaks_in(self, part: Part) -> None:
        self._leaked_in.add(part.place.index)

    def _say(self, delta: Delta) -> None:
        match delta:
            case Text():
                self._text(delta)
            case PartBegin(part=part, raw=raw):
                self._begun.pop(part.place, None)
                if raw.get("type") in TEXT_ITEMS:
                    self._begun[part.place] = raw
                else:
                    self._copy_item(part.place, raw)
            case CallBegin():
                self._call(delta)
            case Arguments():
                self._arguments(delta)
            case PartEnd(part=part) if part.leaked:
                self._emitters.pop(part).end(self._evidence, cut=False)
            case PartEnd():
                self._end_item(delta)
            case Cited():
                self._cite(delta)
            case Other(raw=dict() as raw):
                self._other(delta.part, raw)
            case Finish(raw=dict() as raw):
                self._finish(delta, raw)
            case Failed(raw=raw):
                self._text_open = None
                response = raw.get("response")
                self._native.end_as(raw, response if isinstance(response, dict) else None)
            case _:
                pass

    def _copy_item(self, index: int, item: Json) -> None:
        self._close()
        self._copied[index] = self._native.copy_item(item)

    # Calls

    def _call(self, delta: CallBegin) -> None:
        part = delta.part
        if not part.leaked:
            if delta.name != api.call_fields(delta.raw)[1]:
                self._names[part] = delta.name
            if (other := self._native.other_call_id(delta.raw)) is not None:
                self._other_ids[part] = other
            self._copy_item(part.place, self._mended(part, delta.raw, begins=True))
            if delta.text:  # it stood in the name
                at = {"item_id": delta.raw.get("id"), "output_index": self._copied[part.place]}
                self._native.copy_event({"type": api.ARGUMENTS.delta, "delta": delta.text}, **at)
            return
        self._close()
        tool = self._tools().names.find(delta.name) or Tool("function", delta.name)
        call = Call(id=delta.id, name=delta.name)
        self._emitters[part] = CallEmitter(call, tool, self._native)
        if delta.text:
            self._emitters[part].add(delta.text)

    def _mended(self, part: Part, item: Json, *, begins: bool = False) -> Json:
        """An item of the host's with the name and the arguments that the client has."""
        more: Json = {"name": self._names[part]} if part in self._names else {}
        if part.mended is not None:
            more["arguments"] = "" if begins else part.mended
        if part in self._other_ids and "call_id" in item:
            item = {**item, "call_id": self._other_ids[part]}
        inner = item.get("function")
        return item | ({"function": inner | more} if isinstance(inner, dict) else more)

    def _arguments(self, delta: Arguments) -> None:
        part, raw = delta.part, delta.raw
        if part.leaked:
            self._emitters[part].add(delta.text)
        elif delta.text and raw is not None and part.place in self._copied:
            at = self._copied[part.place]
            self._native.copy_event(raw, output_index=at, delta=delta.text)

    # Texts

    def _text(self, delta: Text) -> None:
        text: HostText = delta.part.place
        if not delta.text:
            return
        kind = delta.part.kind
        own = "text" if text.part.item == "message" else "reasoning"
        part = text.part if kind in (own, "refusal") else _MOVED[kind]
        if self._native.open_part is None:
            self._text_open = None
        if self._text_open is None or self._text_open != (text, part):
            self._begin_text(text, part, delta.part)
        self._native.more_text(delta.text, delta.logprobs)

    def _begin_text(self, text: HostText, part: StreamedPart, of: Part) -> None:
        index = text.index
        if self._text_open is None or self._text_open[0].index != index:
            self._close()
        begun = self._begun.get(index)
        if begun is not None and begun.get("type") == part.item:
            del self._begun[index]
        else:
            begun = None
        notes = [] if of in self._begun_texts else objects(of.begun.get("annotations"))
        self._begun_texts.add(of)
        self._native.begin_text(part, begun, notes)
        self._text_open = text, part

    def _close(self) -> None:
        self._native.close_item()
        self._text_open = None

    def _cite(self, delta: Cited) -> None:
        index = delta.part.place if delta.part is not None else None
        opened = self._text_open
        if self._native.in_text and opened is not None and opened[0].index == index:
            for annotation in delta.annotations:
                self._native.annotate(annotation)
        elif delta.raw is not None:
            self._other(delta.part, delta.raw)

    # Ends, and what has no word

    def _end_item(self, delta: PartEnd) -> None:
        part, item = delta.part, self._mended(delta.part, delta.raw)
        if not self._ends_text(part.place, item) and part.place in self._copied:
            self._native.end_copy(self._copied[part.place], item)

    def _ends_text(self, index: int, item: Json) -> bool:
        """End an item of text, unless for the client it has ended; returns whether it is one."""
        if index in self._begun:  # without a text: a sealed thought, or a call alone
            del self._begun[index]
            if index not in self._leaked_in:
                self._close()
                self._native.end_copy(self._native.copy_item(item), item)
        elif self._text_open is None or self._text_open[0].index != index:
            return False
        else:
            self._native.close_as(item, changed=index in self._leaked_in)
            self._text_open = None
        return True

    def _other(self, part: Part | None, raw: Json) -> None:
        index = part.place if part is not None else None
        if index is None:
            if isinstance(response := raw.get("response"), dict) and response.get("output"):
                more = {"response": {**response, "output": self._native.output}}
                self._native.copy_event(raw, **more)
            else:
                self._native.copy_event(raw)
        elif part is not None and index in self._copied:
            if raw["type"] == api.ARGUMENTS.done:
                whole = self._mended(part, raw)
                raw = {name: whole[name] for name in raw}
            self._native.copy_event(raw, output_index=self._copied[index])
        else:
            self._evidence.change("dropped", f"{raw['type']} of a repaired item")

    def _finish(self, delta: Finish, event: Json) -> None:
        response = event.get("response")
        cut = event["type"] == "response.incomplete"
        self._native.close_item("incomplete" if cut else "completed")
        self._text_open = None
        if delta.reason == "length" and not cut:
            event = {**event, "type": "response.incomplete"}
            if isinstance(response, dict) and response.get("status") == "completed":
                response = {**response, "incomplete_details": {"reason": "max_output_tokens"}}
                response |= {"status": "incomplete", "completed_at": None}
        self._native.end_as(event, response if isinstance(response, dict) else None)


def _number(unsent: Any, latest: Any) -> int:
    """The number of the next event: that of the one that is not sent, or after the latest."""
    if (number := number_in(unsent)) is not None:
        return number
    number = number_in(latest)
    return 0 if number is None else number + 1
