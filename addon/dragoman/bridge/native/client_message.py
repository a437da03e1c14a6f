"""A message as its client gets it: the host's events, and from the first change on the writer's.

Of a call that may have come twice, as text and as a block, all is held until that is decided
(`RepeatedCalls`).
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from itertools import count
from typing import Any

from ...notes import Evidence
from ...repair.call_builder import MAX_CHECKED
from ...repair.call_namer import LITERAL
from ...repair.declared_tools import DeclaredTools
from ...repair.events import Arguments, CallEnd, CallStart, Dropped, ScanEvent, Text
from ...repair.policy import Policy, note_piece
from ...repair.repeated_calls import RepeatedCall, RepeatedCalls
from ...wire import messages as api
from ...wire.chat_end import is_whole
from ...wire.json_codec import Json, dumps, string
from ...wire.messages import TextKind
from ...wire.sse import Frame
from ..messages.event_writer import MessageWriter

CallEvent = CallStart | Arguments | CallEnd
Call = RepeatedCall[Any]
Piece = tuple[Call, CallEvent] | Json
"""An event of a leaked call, or one of the host's."""
_NO_CALL: Call = RepeatedCall("", leaked=False, arguments=StringIO(), ended=True)


class ClientMessage:
    """`now` (seconds) is only used for ids of calls."""

    def __init__(self, tools: DeclaredTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence
        self._writer = MessageWriter()
        self.changed = False
        """Whether from now on the writer writes."""
        self._block: Json = {}
        """The host's latest block, as it began."""
        self._index: int | None = None
        """Its index at the host, and at the client, if that has it."""
        self._at = -1
        self._blank = ""
        """White space that is sent if a text follows."""
        self._ended = False
        """Whether there was a stop reason."""
        self.cut = False
        """Whether a call was cut off, be it in its header."""
        self._calls = RepeatedCalls[Piece](evidence)
        self._leaked = self._native = _NO_CALL
        """The leaked call that came last, and that of the host's latest block."""
        self._ids = (f"toolu_{now}_{number}" for number in count(1))
        """For calls, as far as the conversation has none of them."""

    def drain(self) -> list[Frame]:
        frames, self._writer.frames = self._writer.frames, []
        return frames

    # The host's events

    def passed(self, event: Json) -> None:
        """This event has left as it came."""
        if (block := api.block_begun(event)) is not None:
            self._begin(event, block)
            index = api.index_of(event)
            self._at = self._writer.index + 1 if index is None else index
            self._writer.adopt(self._at, string(block.get("type")))
        elif event.get("type") == api.BLOCK_STOP and api.index_of(event) in (None, self._index):
            self._writer.kind = ""
        self._follow(event)

    def pass_on(self, frame: Frame, event: Json, *, signed: bool) -> None:
        """Send any event but a text.  `event` is empty if the API has no such event; `signed`:
        whether nothing of its block has changed."""
        kind = string(event.get("type"))
        if not kind.startswith("content_block"):
            self._pass_other(frame, event, kind)
            return
        if (block := api.block_begun(event)) is not None:
            self._begin(event, block)
            if block.get("type") in api.TEXTS:
                return  # it begins with its text
        elif api.index_of(event) not in (None, self._index):
            return  # for the client that block ended when another began
        elif not signed and api.delta_of(event).get("type") == api.SIGNATURE:
            self._evidence.note("dropped", "the signature of thoughts that were repaired")
            return
        if self._native.ended:
            self._write_block(event)
        else:
            self._let_out(self._calls.add(self._native, event))
        self._let_out(self._follow(event))

    def _begin(self, event: Json, block: Json) -> None:
        self._block, self._index, self._at = block, api.index_of(event), -1
        self._blank, self._native = "", _NO_CALL
        if block.get("type") == api.CALL:
            self._native = self._calls.begin(string(block.get("name")), leaked=False)

    def _follow(self, event: Json) -> Sequence[Piece]:
        """Keep what a block of a call says; what of calls leaves now."""
        native = self._native
        if native.ended:
            return []
        is_end = event.get("type") == api.BLOCK_STOP
        arguments, given = api.arguments_in(event), self._block.get("input")
        if is_end and given and native.empty:
            arguments = dumps(given).decode()  # it came with the beginning
        if arguments:
            self._calls.keep(native, arguments)
        return self._calls.end(native) if is_end else []

    def _pass_other(self, frame: Frame, event: Json, kind: str) -> None:
        reason = api.stop_reason_in(event)
        if reason or kind == api.MESSAGE_STOP:
            self._let_out(self._calls.close(cut=not is_whole(reason)))
        if reason:
            self._end(event, reason)
            return
        if kind == api.MESSAGE_STOP and self._writer.called and not self._ended:
            self._evidence.note("added stop_reason", api.TOOL_USE)
            ends = {"stop_reason": None, "stop_sequence": None}
            added = {"type": api.MESSAGE_DELTA, "delta": ends, "usage": {"output_tokens": 0}}
            self._end(added, api.TOOL_USE)
        elif kind == api.MESSAGE_STOP:
            self._writer.stop()
        self._writer.frames.append(frame)

    def _end(self, event: Json, reason: str) -> None:
        self._ended = True
        if self.cut and reason != "refusal":
            reason = api.CUT
        elif self._writer.called and self._policy.ends_for_calls(reason):
            reason = api.TOOL_USE
        self._writer.end(event, reason)

    # Blocks out

    def _write_block(self, event: Json) -> None:
        """An event of a block that is no text."""
        writer = self._writer
        if event["type"] == api.BLOCK_START:
            self._open()
        elif event["type"] == api.BLOCK_DELTA:
            if self._at < 0 and self._block.get("type") in api.TEXTS:
                self._open()  # a signature alone
            if writer.kind and self._at == writer.index:
                writer.delta(api.delta_of(event))
            else:
                self._evidence.note("dropped", "a delta of a repaired block")
        elif writer.kind in api.TEXTS or (writer.kind and self._at == writer.index):
            writer.stop()

    def _open(self) -> None:
        """The host's latest block begins for the client."""
        self._writer.begin(self._block)
        self._at = self._writer.index

    def _let_out(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, dict):
                self._write_block(piece)
            else:
                self._write_call(*piece)

    # What the scanner has made of a text

    def write(self, piece: ScanEvent, kind: TextKind) -> None:
        """`kind`: of the block in which it came."""
        if isinstance(piece, Text):
            meant = {"content": "text", "reasoning": "thinking", None: kind}[piece.kind]
            self._write_text(api.TEXTS[meant], piece.text)
        elif isinstance(piece, CallEvent):
            if isinstance(piece, CallStart):
                self._leaked = self._calls.begin(piece.name, leaked=True)
            arguments = piece.text if isinstance(piece, Arguments) else ""
            self._let_out(self._calls.add(self._leaked, (self._leaked, piece), arguments))
            if isinstance(piece, CallEnd) and not piece.cuts_call:
                self._let_out(self._calls.end(self._leaked))
        elif isinstance(piece, Dropped):
            note_piece(self._evidence, piece)

    def _write_text(self, kind: TextKind, text: str) -> None:
        if self._writer.kind != kind:
            text = self._blank + text
            self._blank = text if text.isspace() else ""
            if self._blank:
                return
            if self._at < 0 and self._block.get("type") == kind:
                self._block = {**self._block, kind: ""}
                self._open()
        self._writer.text(kind, text)

    def _write_call(self, call: Call, event: CallEvent) -> None:
        if isinstance(event, CallStart):
            self._evidence.call(event.name, event.format, event.form)
            if event.form == LITERAL:
                self._evidence.note("kept the literal header of a call that names no tool")
            call_id = next(made for made in self._ids if made not in self._tools.called)
            self._writer.begin({"type": api.CALL, "id": call_id, "name": event.name})
            self._blank = ""
        elif isinstance(event, CallEnd):
            self._end_call(call, event)
        else:
            self._writer.arguments(event.text)

    def _end_call(self, call: Call, end: CallEnd) -> None:
        self.cut = self.cut or end.cuts_call
        if end.cut:
            self._evidence.note("closed a call that the stream cut off")
        elif not end.valid:
            self._evidence.note("passed on arguments that are not JSON")
        checked = call.complete and call.arguments.tell() <= MAX_CHECKED
        refused = checked and self._tools.refuses(call.name, call.arguments.getvalue())
        self._evidence.refused_calls += not end.cut and (refused or not end.valid)
        self._writer.stop(cut=end.cuts_call)
