"""A host's response from its first repaired call on, as the client gets it.

From there on the writer numbers all events and gives all output indexes.  The host's own events
pass with all their fields; an item of the host's that changes is adopted: from then on its events
are the writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import takewhile
from typing import Any

from ...notes import Evidence
from ...repair.call_namer import LITERAL
from ...repair.declared_tools import ToolLookup
from ...repair.events import Arguments, CallEnd, CallStart, Dropped, ScanEvent, Text
from ...repair.policy import note_piece
from ...repair.repeated_calls import RepeatedCall, RepeatedCalls
from ...wire.chat_calls import Call
from ...wire.json_codec import Json, array, dumps, objects, string
from ...wire.responses import DELTAS, TERMINALS
from ...wire.sse import Frame, encode
from ..reply.call_emitter import CallEmitter
from ..responses.dialects import OPENAI
from ..responses.event_writer import ItemStatus, Writer
from ..responses.output_items import TEXT, StreamedPart
from ..turn_context import Tool
from .host_items import HostItems, HostText, ScannedText, call_or_type

_ANNOTATION = "response.output_text.annotation.added"
CallEvent = CallStart | Arguments | CallEnd
_Piece = tuple[CallEvent, HostText] | tuple[Frame, Json, int]
"""Of a leaked call, and of one of the host's."""


class ChangedResponse:
    """Continues the response of `host`.  An `index` is the host's output index of an item, unless
    it is the client's by its name."""

    def __init__(
        self,
        host: HostItems,
        names: ToolLookup[Tool],
        evidence: Evidence,
        *,
        number: int,
        now: int,
        called: Container[str],
    ) -> None:
        """`number`: of the next event; `called` has the call ids of the conversation before."""
        response = {**(host.response or {})}
        response["id"] = str(response.get("id") or "resp_0")
        items = [host.items.get(index, {}) for index in range(host.next_index)]
        self._host = host
        self._names = names
        self._evidence = evidence
        self._writer = AdoptingWriter(response, items, number, now, called)
        self._client_index = {index: index for index in host.items}
        """Of each item that the client knows."""
        self._replacements: dict[int, list[int]] = {}
        """The client's output indexes of the items that replace an item."""
        self._open: int | None = None
        """The item that is being replaced."""
        self._first_new = 0
        """The client's output index of the first item that replaces it."""
        self._emitter: CallEmitter | None = None
        """Writes the open call."""
        self._cut = False
        """Whether a call was cut off."""
        self._repeated = RepeatedCalls[_Piece](evidence)
        self._leaked: RepeatedCall[_Piece] | None = None
        """The leaked call that came last."""
        self._calls: dict[int, RepeatedCall[_Piece]] = {}
        """Those of the host."""
        for index, item in host.items.items():
            self._begin_call_of_host(index, item)
            if index in host.done:
                self._end_call_of_host(index, item)

    def has_adopted(self, index: int | None) -> bool:
        """Whether the events of an item are the writer's."""
        return index in self._replacements

    def drain(self) -> list[Frame]:
        """The frames that may leave now."""
        return self._writer.events.drain()

    # Texts that are scanned

    def adopt(self, text: ScannedText) -> None:
        """The first change in an item: from now on its events are the writer's."""
        host_text, pieces = text.host_text, text.unsent
        self._close("completed")
        index = host_text.key.output_index
        client_index = self._client_index.setdefault(index, len(self._writer.items))
        item, later = self._host.item_up_to(host_text)
        is_last = client_index >= len(self._writer.items) - 1 and not later
        self._replacements[index] = [] if is_last else [client_index]
        self._writer.adopt(
            item, client_index, host_text.part, host_text.key.part_index, text.sent_text
        )
        if not is_last:
            before = list(takewhile(lambda piece: isinstance(piece, Text), pieces))
            self._write(before, host_text)
            self._writer.end_early(later)
            pieces = pieces[len(before) :]
        self.write(pieces, host_text)

    def write(self, pieces: Iterable[ScanEvent], text: HostText) -> None:
        """Write what the scanner made of a text, in an item that was adopted."""
        self._turn_to(text.key.output_index)
        self._write(pieces, text)

    def _write(self, pieces: Iterable[ScanEvent], text: HostText) -> None:
        for piece in pieces:
            if isinstance(piece, Text):
                received = "content" if text.part.item == "message" else "reasoning"
                is_text = (piece.kind or received) == "content"
                self._writer.prose("text" if is_text else "reasoning", piece.text)
            elif isinstance(piece, CallEvent):
                self._add_leaked(piece, text)
            elif isinstance(piece, Dropped):
                note_piece(self._evidence, piece)

    def _add_leaked(self, event: CallEvent, text: HostText) -> None:
        """A piece of a leaked call: it leaves, unless the call may be one of the host's."""
        if isinstance(event, CallStart):
            self._leaked = self._repeated.begin(self._tool_name(event.name), leaked=True)
        assert self._leaked is not None
        arguments = event.text if isinstance(event, Arguments) else ""
        self._let_out(self._repeated.add(self._leaked, (event, text), arguments))
        if isinstance(event, CallEnd):
            self._cut |= event.cuts_call
            if not event.cuts_call:
                self._let_out(self._repeated.end(self._leaked))

    def _let_out(self, pieces: Iterable[_Piece]) -> None:
        for piece in pieces:
            if len(piece) == 3:
                self._pass_on(*piece)
            else:
                self._turn_to(piece[1].key.output_index)
                self._write_call(piece[0])

    def _write_call(self, event: CallEvent) -> None:
        if isinstance(event, CallStart):
            self._start_call(event)
        elif isinstance(event, Arguments):
            assert self._emitter is not None
            self._emitter.call.add(event.text)
            self._emitter.pass_on()
        else:
            self._end_call(cut=event.cuts_call)

    def _tool_name(self, name: str, namespace: object = None) -> str:
        """The name by which a called tool is compared."""
        tool = None if namespace else self._names.find(name)
        if tool is not None:
            name, namespace = tool.name, tool.namespace
        return f"{namespace}.{name}" if namespace else name

    def _start_call(self, start: CallStart) -> None:
        self._evidence.call(start.name, start.format, start.form)
        if start.form == LITERAL:
            self._evidence.note("kept the literal header of a call that names no tool")
        tool = self._names.find(start.name)
        call = Call(id=start.call_id, name=start.name)
        self._emitter = CallEmitter(call, tool or Tool("function", start.name), self._writer)

    def _end_call(self, *, cut: bool) -> None:
        assert self._emitter is not None
        self._cut = self._cut or cut
        self._emitter.end(self._evidence, cut=cut)
        self._emitter = None

    def end_text(self, *, in_header: bool) -> None:
        """A text has ended, maybe in a call's header: a call that has no end stays open."""
        self._cut = self._cut or in_header
        if self._emitter is not None:
            self._end_call(cut=True)

    # The host's events

    def replace(self, index: int, event: Json) -> None:
        """Write what an event of an adopted item says; its scanned text comes by `write`."""
        kind, item = event["type"], event.get("item")
        if kind == _ANNOTATION and self._open == index and self._writer.in_text:
            self._writer.annotate(event.get("annotation") or {})
        elif kind == "response.refusal.delta" and isinstance(event.get("delta"), str):
            self._turn_to(index)
            self._writer.prose("refusal", event["delta"])
        elif kind in DELTAS or kind == _ANNOTATION:
            self._evidence.note("dropped", f"{kind} of a repaired item")
        elif self._open != index:
            pass  # for the client it ended when another item began
        elif kind == "response.output_item.done":
            cut = isinstance(item, dict) and item.get("status") == "incomplete"
            self._close("incomplete" if cut else "completed")
        elif kind.endswith("_part.added"):
            self._writer.close_item()

    def pass_on(self, frame: Frame, event: Json | None, index: int | None) -> None:
        """Send any other frame of the host's, unless it is of a call that may have leaked as well;
        `event` is None if the API has no such event."""
        if event is None:
            self._writer.events.frames.append(frame)
            return
        kind, item = event["type"], event.get("item")
        if kind in ("response.completed", "response.incomplete"):
            self._let_out(self._repeated.close(cut=kind == "response.incomplete"))
        if index is not None and isinstance(item, dict):
            self._begin_call_of_host(index, item)
        if index is None or index not in self._calls:
            self._pass_on(frame, event, index)
            return
        self._let_out(self._repeated.add(self._calls[index], (frame, event, index)))
        if kind == "response.output_item.done" and isinstance(item, dict):
            self._end_call_of_host(index, item)

    def _begin_call_of_host(self, index: int, item: Json) -> None:
        if item.get("type") in _ARGUMENTS and index not in self._calls:
            name = self._tool_name(string(item.get("name")), item.get("namespace"))
            self._calls[index] = self._repeated.begin(name, leaked=False)

    def _end_call_of_host(self, index: int, item: Json) -> None:
        """An item that is done says what was called, if it is whole."""
        call, arguments = self._calls.get(index), _ARGUMENTS.get(string(item.get("type")))
        if call is not None and arguments is not None and item.get("status") != "incomplete":
            self._repeated.keep(call, arguments(item))
            self._let_out(self._repeated.end(call))

    def _pass_on(self, frame: Frame, event: Json, index: int | None) -> None:
        kind, item, other_lines = event["type"], event.get("item"), frame.other_lines
        if index is not None:
            if kind == "response.output_item.added" or index not in self._client_index:
                self._close("completed")
                new = item if isinstance(item, dict) else self._host.items.get(index, {})
                self._client_index[index] = self._writer.add(new)
            client_index = self._client_index[index]
            if "output_index" in event:
                event = {**event, "output_index": client_index}
            if kind == "response.output_item.done" and isinstance(item, dict):
                self._writer.items[client_index] = item
        response = event.get("response")
        if kind in TERMINALS and isinstance(response, dict):
            event = {**event, "response": self.rewritten(response)}
            if kind == "response.completed" and self._cut:
                event["type"] = "response.incomplete"
                other_lines = other_lines.replace(kind.encode(), b"response.incomplete")
        self._writer.pass_on(event, other_lines)
        self._writer.ended |= kind in TERMINALS

    def rewritten(self, response: Json) -> Json:
        """The host's last snapshot, with the items as they were sent."""
        self._close("completed")
        output = self._merged(array(response.get("output")))
        response = {**response, "output": output}
        if isinstance(response.get("output_text"), str):  # other servers
            messages = [item for item in objects(output) if item.get("type") == "message"]
            parts = [part for item in messages for part in objects(item.get("content"))]
            response["output_text"] = "".join(part.get("text") or "" for part in parts)
        if self._cut and response.get("status") == "completed":
            response["incomplete_details"] = {"reason": "max_output_tokens"}
            response |= {"status": "incomplete", "completed_at": None}
        return response

    def _merged(self, entries: list[Any]) -> list[Any]:
        """The host's output with what replaces its items, by the client's output indexes.

        Hosts may have found the call in the whole text that they had streamed as text: it is not
        listed twice.  Others list nothing, and that stays so."""
        items = self._writer.items
        new = [(at, items[at]) for indexes in self._replacements.values() for at in indexes]
        written = [call_or_type(item) for _, item in new]
        merged: list[tuple[int, Any]] = []
        at = -1
        for entry, index in zip(entries, self._host.matching(entries), strict=True):
            if index in self._calls and self._calls[index].left_out:
                continue
            if index is None:
                kind = call_or_type(entry) if isinstance(entry, dict) else None
                if not (isinstance(kind, tuple) and kind in written):
                    merged.append((at, entry))
            elif index not in self._replacements:
                at = self._client_index.get(index, index)
                merged.append((at, entry))
            elif self._replacements[index]:
                at = self._replacements[index][0]
        if entries:
            merged += new
        return [item for _, item in sorted(merged, key=lambda each: each[0])]

    # What is open

    def _turn_to(self, index: int) -> None:
        """What is written from now on replaces this item."""
        if self._open != index:
            self._close("completed")
            self._open, self._first_new = index, len(self._writer.items)

    def _close(self, status: ItemStatus) -> None:
        if self._open is not None:
            self._writer.close_item(status)
            self._replacements[self._open] += range(self._first_new, len(self._writer.items))
            self._open = None


def _input_as_arguments(item: Json) -> str:
    """The arguments by which a model calls a custom tool."""
    return dumps({"input": item.get("input")}).decode()


_ARGUMENTS: dict[str, Callable[[Json], str]] = {
    "function_call": lambda item: string(item.get("arguments")),
    "custom_tool_call": _input_as_arguments,
}
"""What is compared of a call, by the type of its item."""


class AdoptingWriter(Writer):
    """Continues a response that has `items`; `number` is that of its next event."""

    seals = False  # the host takes only its own form of sealed reasoning

    def __init__(
        self,
        response: Json,
        items: Sequence[Json],
        number: int,
        now: int,
        called: Container[str] = (),
    ) -> None:
        empty = {**response, "output": []}
        super().__init__(empty, OPENAI, clock=lambda: now, prior=items, called=called)
        self._id += "_repaired"  # so that no id of ours is one of the host's
        self.events.number = number
        self.started = True

    @property
    def items(self) -> list[Json]:
        """The items of the response as the client knows them, without the open one."""
        return self._output

    def adopt(self, item: Json, index: int, part: StreamedPart, part_index: int, text: str) -> None:
        """Take over the item at `index`, in which the last part is open: this much of its `text`
        was sent."""
        if index == len(self._output) - 1:
            del self._output[-1]
        where = {"item_id": item["id"], "output_index": index, part.index: part_index}
        opened = self._stream(item, part, where)
        opened.annotations = item[part.holder][-1].get("annotations") or []
        opened.text.write(text)
        self._prose["text" if part is TEXT else "reasoning"] = part

    def end_early(self, later: list[Json]) -> None:
        """End the adopted item, which others follow already; `later` are its parts after the open
        part."""
        opened, self.open_part = self.open_part, None
        if opened is not None:
            self._close_part(opened)
            item, index = opened.item, opened.where["output_index"]
            item[opened.part.holder] += later
            item["status"] = "completed"
            self.events.add("response.output_item.done", output_index=index, item=item)
            self._output[index] = item

    def add(self, item: Json) -> int:
        """Add an item of the host's; returns its output index."""
        self.close_item()
        self._output.append(item)
        return len(self._output) - 1

    def pass_on(self, event: Json, other_lines: bytes) -> None:
        """Send an event of the host's."""
        if "sequence_number" in event:
            event = {**event, "sequence_number": self.events.number}
            self.events.number += 1
        self.events.frames.append(encode(dumps(event), other_lines=other_lines))
