"""Writes the events of a message.

Until something has changed frames leave as they came.  From then on `BlockWriter`, which owns the
order and the numbers of blocks, writes all.  The beginning of a block of text waits for its first
word: where a call comes first, there is no such block for the client.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from ..notes import Evidence
from ..reply.numbered_writer import NumberedWriter
from ..reply.words import (
    Arguments,
    CallBegin,
    Delta,
    Done,
    Failed,
    Finish,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Reader,
    Said,
    Slot,
    Text,
)
from ..wire.json_codec import Json, string
from ..wire.reply_bounds import MAX_BLANK
from ..wire.sse import Frame, encode_event
from . import names as api
from .call_ids import new_call_ids
from .event_writer import BlockWriter
from .heartbeats import PING
from .names import TextKind

MAX_WORDLESS = 64
"""Frames in a row that wait for the first word of a block."""
_TEXTS: dict[str, TextKind] = {"text": "text", "reasoning": "thinking"}
_STOP_REASONS = {"length": api.CUT, "tool_calls": api.TOOL_USE}
"""For finish reasons that are not the host's."""


class MessagesWriter(NumberedWriter):
    """`called` are the call ids of the conversation; `now` (seconds) is only used for ids."""

    def __init__(
        self, reader: Reader, called: Container[str], evidence: Evidence, now: int
    ) -> None:
        super().__init__(reader)
        self._evidence = evidence
        self._call_ids = new_call_ids(now, called)
        self._writer = BlockWriter(self._events)
        self.held: list[Said] = []
        """Frames that wait for the first word of a block."""
        self._open: Part | None = None
        """The part that the open block is written for."""
        self._begun: Part | None = None
        """A text whose block waits for its first word."""
        self._leaked_in: set[Part] = set()
        self._blank = ""
        """White space that is sent if a text follows."""
        self._has_begun = False
        """Whether the client has the message's beginning."""

    def heartbeat(self) -> Frame:
        return PING if self._has_begun and not self._reader.ended else Frame(b"")

    def error(self, message: str) -> Frame:
        return encode_event(api.error_body(message))

    # What the client has

    def _continued(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        if not self.held:
            return [frame]
        said, delta = Said(frame, self._reader.value), self._reader.delta(part, text)
        said.slots = [Slot(said, delta, [delta])]
        return self._unchanged(said)

    def _unchanged(self, said: Said) -> list[Frame]:
        if self._is_wordless(said):
            self.held.append(said)
            return []
        return [*self._let_out(), *super()._unchanged(said)]

    def _is_wordless(self, said: Said) -> bool:
        """Whether a frame waits for the first word of a block."""
        if len(self.held) >= MAX_WORDLESS or any(isinstance(s.delta, Failed) for s in said.slots):
            return False
        if said.raw is None:
            return bool(self.held)
        for slot in said.slots:
            delta = slot.delta
            begins = isinstance(delta, PartBegin) and delta.part.kind in _TEXTS
            blank = isinstance(delta, Text) and not delta.text.strip()
            of_part = isinstance(delta, Other) and delta.part is not None
            if not (begins or (self.held and (blank or of_part or isinstance(delta, PartEnd)))):
                return False
        return bool(said.slots or self.held)

    def _let_out(self) -> list[Frame]:
        held, self.held = self.held, []
        passed = super()._unchanged  # Python 3.11 has no `super()` within a comprehension
        return [frame for said in held for frame in passed(said)]

    def end(self, last: Said) -> list[Frame]:
        return super().end(last) if last.slots else self._let_out()

    def _follow(self, delta: Delta) -> None:
        match delta:
            case PartBegin(part=part) | CallBegin(part=part):
                self._writer.passed(part.place, string(part.begun.get("type")))
                self._open = part
            case PartEnd():
                self._writer.kind, self._open = "", None
            case Other(part=None, raw=dict() as raw):
                self._has_begun |= raw.get("type") == api.MESSAGE_START
            case _:
                pass

    def _take_over(self, said: Said) -> None:
        del said
        held, self.held = self.held, []
        for each in held:
            self._say_all(each)

    # What is said

    def _pass_on(self, frame: Frame) -> None:
        self._events.frames.append(frame)

    def _leaks_in(self, part: Part) -> None:
        self._leaked_in.add(part)

    def _say(self, delta: Delta) -> None:
        writer = self._writer
        match delta:
            case Text(part=part, text=text):
                self._text(part, text)
            case PartBegin(part=part):
                if part.kind in _TEXTS:
                    self._begun, self._blank = part, ""
                else:
                    self._begin_part(part)
            case CallBegin():
                self._call(delta)
            case Arguments(part=part, text=text):
                if part is self._open:
                    writer.arguments(text)
            case PartEnd(part=part, cut=cut):
                if part in (self._open, self._begun):
                    writer.stop(cut=cut)
                    self._open = None
                self._begun = None
            case Other(part=Part() as part, raw=raw):
                self._other(part, raw)
            case Other(raw=raw):
                self._events.frames.append(encode_event(raw))
            case Finish():
                self._finish(delta)
            case Done(raw=raw):
                writer.stop()
                self._events.frames.append(encode_event(raw or {"type": api.MESSAGE_STOP}))
            case Failed(raw=raw):
                self._events.frames.append(encode_event(raw))
            case _:
                pass

    def _begin_part(self, part: Part) -> None:
        self._writer.begin(part.begun)
        self._open, self._begun = part, None

    def _text(self, part: Part, text: str) -> None:
        kind, writer = _TEXTS[part.kind], self._writer
        if writer.kind != kind or (part is self._begun and part is not self._open):
            text = self._blank + text
            self._blank = text if text.isspace() and len(text) < MAX_BLANK else ""
            if self._blank or not text:
                return
            if part is self._begun and part.begun:
                writer.begin({**part.begun, kind: ""})
            self._open, self._begun = part, None
        writer.text(kind, text)

    def _call(self, delta: CallBegin) -> None:
        writer, block = self._writer, delta.part.begun
        if delta.part.leaked:
            delta.id = next(self._call_ids)
            block = {"type": api.CALL, "id": delta.id, "name": delta.name}
        writer.begin({**block, "name": delta.name})
        self._open, self._begun, self._blank = delta.part, None, ""
        if delta.text and (delta.part.leaked or delta.text != api.given_in(block)):
            writer.arguments(delta.text)

    def _other(self, part: Part, raw: Json) -> None:
        """A delta of a block that has no word."""
        if part in self._leaked_in and api.delta_of(raw).get("type") == api.SIGNATURE:
            self._evidence.change("dropped", "the signature of thoughts that were repaired")
            return
        if part is self._begun:  # a signature alone
            self._begin_part(part)
        if part is self._open and self._writer.kind:
            self._writer.delta(api.delta_of(raw))
        else:
            self._evidence.change("dropped", "a delta of a repaired block")

    def _finish(self, delta: Finish) -> None:
        raw: Any = delta.raw
        reason = api.stop_reason_in(raw) if raw is not None else api.TOOL_USE
        if raw is None:
            usage = {"output_tokens": 0}
            raw = {"type": api.MESSAGE_DELTA, "delta": api.ends(), "usage": usage}
        if delta.reason != reason:
            reason = _STOP_REASONS.get(str(delta.reason), reason)
        self._writer.end(raw, reason)
