"""A host's response from its first leaked call on: the writer writes what the host's events say.

What the client has of it stays.  The item in which the call leaked ends there, the call is an item
of its own, and what follows of the text is a new one.  A later item begins with the host's id and
fields; if nothing leaked in it, it ends with the host's fields, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ...notes import Evidence
from ...repair.call_builder import note_call
from ...repair.events import Call as LeakedCall
from ...repair.events import Dropped, ScanEvent, Text
from ...repair.policy import note_piece
from ...repair.repeated_calls import ComparedCall, RepeatedCalls
from ...reply.turn_context import Tool
from ...responses.host_reader import (
    ANNOTATION,
    TEXT_ITEMS,
    HostReader,
    HostText,
    ItemAdded,
    ItemDone,
    OtherEvent,
    Said,
    TextDelta,
)
from ...responses.names import TERMINALS
from ...responses.output_items import SUMMARY, TEXT, StreamedPart
from ...wire.chat_calls import Call
from ...wire.json_codec import Json, dumps, objects, string
from ...wire.sse import Frame
from ..reply.call_emitter import CallEmitter
from .native_writer import NativeWriter
from .request_tools import RequestTools

OfHost = ItemAdded | OtherEvent | ItemDone
_OF_KIND: dict[str, StreamedPart] = {"content": TEXT, "reasoning": SUMMARY}


class LeakedResponse:
    """Continues the response that `host` reads.  An `index` is the host's output index of an item,
    unless it is the client's by its name."""

    def __init__(
        self,
        host: HostReader,
        text: HostText,
        unsent: Iterable[Said],
        tools: RequestTools,
        evidence: Evidence,
        *,
        number: int,
        now: int,
        streams: bool,
    ) -> None:
        """`text`: in which the first call is; `unsent`: what the host has said and the client has
        not received; `number`: the next event's; `streams`: whether events are written."""
        response = host.response or {}
        response = {**response, "id": str(response.get("id") or "resp_0")}
        self._tools = tools
        self._evidence = evidence
        self._writer = NativeWriter(response, number, now, tools.declared.called)
        self._writer.events.wanted = streams
        self._begun: dict[int, Json] = {}
        """Items of text of which nothing has been written."""
        self._copied: dict[int, int] = {}
        """The client's output indexes of the items that are copied."""
        self._leaked_in: set[int] = set()
        """Items with a leaked call."""
        self._open: tuple[HostText, StreamedPart] | None = None
        """The text for which the open item is written, if that is one of text, and as what."""
        self._cut = False
        """Whether a call was cut off."""
        self._repeated = RepeatedCalls[OfHost](evidence)
        self._calls: dict[int, ComparedCall] = {}
        """Those of the host."""
        self._add_sent(host, text, unsent)

    def _add_sent(self, host: HostReader, leaking: HostText, unsent: Iterable[Said]) -> None:
        """Begin with the items that the client has.  An open text ends, unless it has the call and
        its item is the last; an open call of the host's stays open."""
        new, sizes, annotated = set[int](), Counter[HostText](), Counter[int | None]()
        for said in unsent:
            if isinstance(said, ItemAdded):
                new.add(said.index)
            elif isinstance(said, TextDelta):
                sizes[said.text] += len(said.delta)
            elif isinstance(said, OtherEvent):
                annotated[said.index] += said.event["type"] == ANNOTATION
        last = max((index for index in host.items if index not in new), default=-1)
        for index in range(last + 1):
            item = host.items.get(index)
            if item is None or item.done or not item.is_text:
                value = item.value if item else {}
                self._copied[index] = self._writer.add_sent(value)
                self._begin_call_of_host(index, value)
                if item is not None and item.done:
                    self._end_call_of_host(index, value)
                continue
            text = leaking if index == leaking.index else item.open_text
            value = {"id": f"item_{index}", **item.up_to(text)}
            if text is None:
                self._writer.end_sent(value)
                continue
            annotations = objects(text.value.get("annotations"))
            annotations = annotations[: len(annotations) - annotated[index]]
            said_so_far = text.text[: len(text.text) - sizes[text]]
            self._writer.resume(value, text, said_so_far, annotations)
            if text is leaking and index == last:
                self._open = text, text.part
            else:
                self._writer.close_item()

    def drain(self) -> list[Frame]:
        """The frames that may leave now."""
        return self._writer.events.drain()

    def heartbeat(self) -> Frame | None:
        """An event without news; None after the last."""
        self._writer.heartbeat()
        return next(iter(self.drain()), None)

    @property
    def response(self) -> Json:
        """The response, once it has ended."""
        return self._writer.response

    # Texts

    def write(
        self, text: HostText, pieces: Iterable[ScanEvent], logprobs: Sequence[Json] = ()
    ) -> None:
        """Write what the scanner made of a text; `logprobs` if that is the text alone."""
        for piece in pieces:
            if isinstance(piece, Text) and piece.text:
                own = _kind_of(text.part)
                kind = piece.kind or own
                part = text.part if kind == own else _OF_KIND[kind]
                self._write_text(text, part, piece.text, logprobs)
            elif isinstance(piece, LeakedCall):
                self._leaked_in.add(text.index)
                self._let_out(self._repeated.leaked(piece, self._tool_name(piece.name)))
            elif isinstance(piece, Dropped):
                note_piece(self._evidence, piece)

    def _write_text(
        self, text: HostText, part: StreamedPart, delta: str, logprobs: Sequence[Json]
    ) -> None:
        index = text.index
        if self._open is None or self._open[0] is not text or self._open[1] is not part:
            if not self._is_open(index):
                self._close()
            begun = self._begun.get(index)
            if begun is not None and begun.get("type") == part.item:
                del self._begun[index]
            else:
                begun = None
            notes = [] if index in self._leaked_in else text.value.get("annotations")
            self._writer.begin_text(part, begun, objects(notes))
            self._open = text, part
        self._writer.more_text(delta, logprobs)

    def end_text(self, *, cut: bool) -> None:
        """A text has ended; `cut`: within a call."""
        self._cut = self._cut or cut

    def _is_open(self, index: int | None) -> bool:
        """Whether the open item is written for a text of this item."""
        return self._open is not None and self._open[0].index == index

    def _close(self) -> None:
        self._writer.close_item()
        self._open = None

    # Leaked calls

    def _let_out(self, pieces: Iterable[LeakedCall | OfHost]) -> None:
        for piece in pieces:
            if isinstance(piece, LeakedCall):
                self._write_call(piece)
            else:
                self._copy(piece)

    def _tool_name(self, name: str, namespace: object = None) -> str:
        """The name by which a called tool is compared."""
        tool = None if namespace else self._tools.names.find(name)
        if tool is not None:
            name, namespace = tool.name, tool.namespace
        return f"{namespace}.{name}" if namespace else name

    def _write_call(self, leaked: LeakedCall) -> None:
        note_call(self._evidence, self._tools.declared, leaked)
        self._close()
        tool = self._tools.names.find(leaked.name) or Tool("function", leaked.name)
        call = Call(id=leaked.call_id, name=leaked.name)
        emitter = CallEmitter(call, tool, self._writer)
        for piece in leaked.pieces:
            emitter.add(piece)
        emitter.end(self._evidence, cut=False)

    # What else the host says

    def say(self, said: Said) -> None:
        """Write anything but text that is scanned."""
        if isinstance(said, TextDelta):
            self.write(said.text, [Text(said.delta)], said.logprobs)
        elif isinstance(said, ItemAdded):
            self._begun.pop(said.index, None)
            if said.item.get("type") in TEXT_ITEMS:
                self._begun[said.index] = said.item
            else:
                self._begin_call_of_host(said.index, said.item)
                self._say_other(said)
        elif isinstance(said, ItemDone) and self._ends_text(said.index, said.item):
            pass
        elif isinstance(said, OtherEvent) and said.event["type"] in TERMINALS:
            self._end(said.event)
        elif isinstance(said, ItemDone | OtherEvent):
            self._say_other(said)

    def pass_on(self, frame: Frame) -> None:
        """Send a frame that is no event of the API."""
        self._writer.events.frames.append(frame)

    def _ends_text(self, index: int, item: Json) -> bool:
        """End an item of text, unless for the client it has ended; returns whether it is one."""
        if index in self._begun:  # without a text: a sealed thought, or a call alone
            del self._begun[index]
            if index not in self._leaked_in:
                self._close()
                self._writer.end_copy(self._writer.copy_item(item), item)
        elif not self._is_open(index):
            return False
        else:
            self._writer.close_as(item, changed=index in self._leaked_in)
            self._open = None
        return True

    def _say_other(self, said: OfHost) -> None:
        """What is said of another item leaves, unless it is a call that may have leaked as well."""
        call = self._calls.get(said.index) if said.index is not None else None
        if call is None:
            self._copy(said)
            return
        self._let_out(self._repeated.add(call, said))
        if isinstance(said, ItemDone):
            self._end_call_of_host(said.index, said.item)

    def _copy(self, said: OfHost) -> None:
        index = said.index
        if isinstance(said, ItemAdded):
            self._close()
            self._copied[said.index] = self._writer.copy_item(said.item)
        elif isinstance(said, ItemDone):
            if index in self._copied:
                self._writer.end_copy(self._copied[said.index], said.item)
        elif index in self._copied:
            self._writer.copy_event(said.event, output_index=self._copied[index])
        elif index is not None:
            annotates = said.event["type"] == ANNOTATION and self._writer.in_text
            if annotates and self._is_open(index):
                self._writer.annotate(said.event.get("annotation") or {})
            else:
                self._evidence.note("dropped", f"{said.event['type']} of a repaired item")
        elif isinstance(response := said.event.get("response"), dict) and response.get("output"):
            response = {**response, "output": self._writer.output}
            self._writer.copy_event(said.event, response=response)
        else:
            self._writer.copy_event(said.event)

    def _begin_call_of_host(self, index: int, item: Json) -> None:
        self._calls.pop(index, None)
        if _arguments(item) is not None:
            name = self._tool_name(string(item.get("name")), item.get("namespace"))
            self._calls[index] = self._repeated.begin(name, leaked=False)

    def _end_call_of_host(self, index: int, item: Json) -> None:
        """An item that is done says what was called, if it is whole."""
        call, arguments = self._calls.get(index), _arguments(item)
        if call is not None and arguments is not None and item.get("status") != "incomplete":
            self._repeated.keep(call, arguments)
            self._let_out(self._repeated.end(call))

    def _end(self, event: Json) -> None:
        """The terminal event, with the items as they were written."""
        kind, response = event["type"], event.get("response")
        if kind in ("response.completed", "response.incomplete"):
            cut = kind == "response.incomplete"
            self._let_out(self._repeated.close(cut=cut))
            self._writer.close_item("incomplete" if cut else "completed")
        self._open = None
        if kind == "response.completed" and self._cut:
            event = {**event, "type": "response.incomplete"}
        if not isinstance(response, dict):
            self._writer.end_as(event, None)
            return
        if self._cut and response.get("status") == "completed":
            response = {**response, "incomplete_details": {"reason": "max_output_tokens"}}
            response |= {"status": "incomplete", "completed_at": None}
        self._writer.end_as(event, response)


def _kind_of(part: StreamedPart) -> str:
    return "content" if part.item == "message" else "reasoning"


def _arguments(item: Json) -> str | None:
    """What is compared of a call, as a model would write it; None for any other item."""
    match item.get("type"):
        case "function_call":
            return string(item.get("arguments"))
        case "custom_tool_call":
            return dumps({"input": item.get("input")}).decode()
        case _:
            return None
