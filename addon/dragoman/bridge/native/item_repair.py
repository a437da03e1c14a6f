"""What the scanner makes of a text of a host's item, as calls of the writer."""

from __future__ import annotations

from collections.abc import Iterable

from ...notes import Evidence
from ...repair.call_namer import LITERAL
from ...repair.events import Arguments, CallEnd, CallStart, Dropped, LeftAsText, ScanEvent, Text
from ...repair.pending import Policy, fields_of, note_piece
from ...wire.chat_calls import Call
from ...wire.chat_text import ADDED_REASONING, CONTENT
from ..reply.call_emitter import CallEmitter
from ..reply.tool_lookup import ToolLookup
from ..responses.event_writer import ProseKind
from ..turn_context import Tool
from .adopting_writer import AdoptingWriter


class ItemRepair:
    """Writes the items that take the place of one in which a call leaked."""

    def __init__(
        self, writer: AdoptingWriter, names: ToolLookup, policy: Policy, evidence: Evidence
    ) -> None:
        self._writer = writer
        self._names = names
        self._policy = policy
        self._evidence = evidence
        self._call: Call | None = None
        self._emitter: CallEmitter | None = None
        self.cut = False
        """Whether a call was cut off."""

    def write(self, pieces: Iterable[ScanEvent], came_in: ProseKind) -> None:
        """Write what the scanner made of a text of this kind."""
        for piece in pieces:
            if isinstance(piece, Text):
                self._text(piece, came_in)
            elif isinstance(piece, CallStart):
                self._start(piece)
            elif isinstance(piece, Arguments):
                self._arguments(piece.text)
            elif isinstance(piece, CallEnd):
                self._end(cut=piece.cut and not piece.valid)
            elif isinstance(piece, Dropped | LeftAsText):
                note_piece(self._evidence, piece)

    def end(self, *, in_header: bool) -> None:
        """The text has ended, maybe in a call's header: a call stays open that has no end."""
        self.cut = self.cut or in_header
        if self._emitter is not None:
            self._end(cut=True)

    def _text(self, piece: Text, came_in: ProseKind) -> None:
        fields = fields_of(piece, CONTENT if came_in == "text" else ADDED_REASONING, self._policy)
        self._writer.prose("text" if fields == CONTENT else "reasoning", piece.text)

    def _start(self, start: CallStart) -> None:
        self._evidence.call(start.name, start.format, start.form)
        if start.form == LITERAL:
            self._evidence.note("kept the literal header of a call that names no tool")
        tool = self._names.find(start.name)
        self._call = Call(id=start.call_id, name=start.name)
        self._emitter = CallEmitter(self._call, tool or Tool("function", start.name), self._writer)

    def _arguments(self, text: str) -> None:
        assert self._call is not None and self._emitter is not None
        self._call.add(text)
        self._emitter.pass_on()

    def _end(self, *, cut: bool) -> None:
        assert self._emitter is not None
        self.cut = self.cut or cut
        self._emitter.end(self._evidence, cut=cut)
        self._call = self._emitter = None
