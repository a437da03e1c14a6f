"""What a chat client receives, read for the reasoning that led to calls.

Only replies whose reasoning may be wanted back are read so, beside the stages that repair
them, and that costs them little: a reply is read many frames at a time, most of them by a
template; one that neither thinks nor calls is only searched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from ..bridge.reply.whole_body import completion_in_runs
from ..wire.chat_calls import Call, CallAssembler, CallDelta, elements, read_delta
from ..wire.chat_delta import DeltaText, choices, only_text, text_of
from ..wire.chat_end import turn_end
from ..wire.chat_text import CONTENT, reasoning
from ..wire.frame_templates import TemplateCache
from ..wire.json_codec import Json, NotJson, loads
from ..wire.json_slices import reading
from ..wire.slices import Slices
from ..wire.sse import CR, Frame, FrameSplitter, is_event_stream

MAX_UNREAD = 256 * 1024
"""Bytes that are kept until they are read: a thousand frames, in some milliseconds."""
MAX_TEXT = 4 * 1024 * 1024
"""Characters of a turn; of one with more nothing is kept."""
MAX_CHOICES = 16
_STEP = 16 * 1024
_FINISH = b'"finish_reason"'
_NO_FINISH = (b":null", b": null")
"""What follows it in nearly all chunks: an expression takes several times longer to see that."""
# Many hosts send null, or an empty list, in each delta.  JSON escapes the quotes of text.
_CALLED = re.compile(rb'_calls?"\s*+:\s*+(?!null|\[\s*+\])')


@dataclass(slots=True)
class Turn:
    """What one choice has thought and called."""

    thoughts: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    assembler: CallAssembler = field(default_factory=CallAssembler)
    size: int = 0
    ended: bool = False

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts) if self.size <= MAX_TEXT else ""

    @property
    def call_deltas(self) -> list[CallDelta]:
        """Each call as one delta."""
        return [CallDelta(None, call.id, call.name, call.arguments) for call in self.calls]

    def add_reasoning(self, text: str) -> None:
        self.size += len(text)
        if self.size <= MAX_TEXT:
            self.thoughts.append(text)

    def add_call(self, delta: CallDelta, *, whole: bool) -> None:
        self.size += len(delta.arguments)
        if self.size <= MAX_TEXT:
            call, is_new = self.assembler.take(delta, new=whole)
            self.calls += [call] if is_new else []


class TurnReader:
    """Reads one reply."""

    def __init__(self) -> None:
        self._begun = self._called_first = False
        """Whether there was a thought, and whether there was a call before any."""
        self._unread: list[bytes] = []
        self._size = 0
        self._splitter = FrameSplitter()
        self._templates: TemplateCache[DeltaText] = TemplateCache()
        self._turns: defaultdict[int, Turn] = defaultdict(Turn)

    def feed(self, sent: bytes) -> int:
        """More of an event stream.  Returns where in it a turn with calls ends that has to be
        kept before this is sent; the length of it if none does."""
        if not (self._begun or self._begins(sent)):
            return len(sent)
        self._unread.append(sent)
        self._size += len(sent)
        at = sent.find(_FINISH)
        while at >= 0 and sent.startswith(_NO_FINISH, at + len(_FINISH)):
            at = sent.find(_FINISH, at + len(_FINISH))
        end = turn_end(sent) if at >= 0 else None
        if end is None:
            if self._size > MAX_UNREAD:
                self._read()
            return len(sent)
        self._read()
        kept = any(turn.ended and turn.calls and turn.thoughts for turn in self._turns.values())
        return end if kept else len(sent)

    def _begins(self, sent: bytes) -> bool:
        """Whether this is read, and all after it: whole events without a thought are not, and
        nothing of a reply whose calls come first."""
        if self._called_first or not sent:
            return False
        self._begun = sent.find(b"reasoning") >= 0 or not sent.endswith(b"\n\n")
        if not self._begun and sent.find(b"_call") >= 0:
            self._called_first = _CALLED.search(sent) is not None
        return self._begun

    def take(self, *, last: bool = False) -> list[Turn]:
        """The turns with calls and reasoning that have ended since the last time; `last`: the
        reply has ended, and so have all."""
        if self._unread:
            self._read()
        ended = [index for index, turn in self._turns.items() if turn.ended or last]
        turns = [self._turns.pop(index) for index in ended]
        return [t for t in turns if t.calls and t.reasoning]

    def reading(self, body: bytes) -> Slices[None]:
        """A reply that came whole."""
        if is_event_stream(body):
            for begin in range(0, len(body), _STEP):
                self.feed(body[begin : begin + _STEP])
                yield
        elif b'"tool_calls"' in body:
            try:
                value = yield from reading(body)
            except NotJson:
                return
            for part in completion_in_runs(value) if isinstance(value, dict) else ():
                self._add_chunk(part)
                yield

    def _read(self) -> None:
        unread, self._unread, self._size = b"".join(self._unread), [], 0
        end = 0
        if not self._splitter.held and CR not in unread:
            end = unread.rfind(b"\n\n") + 2 if b"\n\n" in unread else 0
            for text, delta, raw in self._templates.runs(unread[:end]):
                if delta is None:
                    self._read_frame(Frame(raw))
                elif delta.call is not None:
                    self._turns[0].add_call(CallDelta(delta.call, "", "", text), whole=False)
                elif delta.fields != CONTENT:
                    self._turns[0].add_reasoning(text)
        for frame in self._splitter.feed(unread[end:]):
            self._read_frame(frame)

    def _read_frame(self, frame: Frame) -> None:
        if not self._templates.wanted and not _counts(frame.raw):
            return
        try:
            chunk = loads(frame.data or b"null") if frame.whole else None
        except NotJson:
            return
        if self._templates.wanted and (delta := only_text(chunk)) and not delta.choice:
            self._templates.learn(frame, delta.text, len(delta.fields) or 1, text_of, delta)
        if isinstance(chunk, dict):
            self._add_chunk(chunk)

    def _add_chunk(self, chunk: Json) -> None:
        for choice in choices(chunk):
            if choice.index >= MAX_CHOICES:
                continue
            turn = self._turns[choice.index]
            if text := reasoning(choice.delta):
                turn.add_reasoning(text)
            for delta in map(read_delta, elements(choice.delta)):
                if delta is not None and not delta.silent:
                    turn.add_call(delta, whole=choice.whole)
            turn.ended = turn.ended or choice.whole or bool(choice.fields.get("finish_reason"))


def _counts(raw: bytes) -> bool:
    """Whether there may be a thought, a call or a finish reason in a frame, by its bytes."""
    # `in` takes several times longer for bytes.
    found = raw.find(b"reasoning") >= 0 or raw.find(b"_call") >= 0
    return found or turn_end(raw) is not None
