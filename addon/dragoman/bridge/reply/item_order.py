"""The order of output items: one after another, whatever the model mixes.

Chat upstreams mix what Responses clients must receive apart: text between the deltas of a
call, the deltas of two calls.  While a call is open, everything after it waits.  The call ends
when its arguments are complete and something waits, else with the turn.  So no delta of it is cut
off, and nothing waits without an open call.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ...notes import Evidence
from ...repair.declared_tools import ToolLookup
from ...wire.chat_calls import Call, CallAssembler, CallDelta
from ...wire.json_codec import dumps
from ..request.validation import label
from ..responses.event_writer import ProseKind, Writer
from ..turn_context import Tool, TurnContext
from .call_emitter import CallEmitter

PIECE = 64
"""Bytes that a text takes beside its characters while it waits."""
ITEM = 8 * 1024
"""What an item or a call counts beside its text: a turn has 1,000 of them at most, as each costs
as much as thousands of characters."""


@dataclass(slots=True)
class _WaitingText:
    """Text that follows an open call."""

    kind: ProseKind
    texts: list[str]


class ItemOrder:
    """Calls the writer for one item at a time."""

    def __init__(self, turn: TurnContext, writer: Writer, evidence: Evidence) -> None:
        self._tools = ToolLookup(turn.tools)
        self._names = turn.tools.keys() | {tool.name for tool in turn.tools.values()}
        self._writer = writer
        self._evidence = evidence
        self.size = 0
        """Bytes that all texts take, about, and the pieces and items that hold them."""
        self.entries = 0
        """Bytes that log probabilities and annotations take."""
        self._waiting: deque[Call | _WaitingText] = deque()
        self._calls = {0: CallAssembler(self._names)}
        """By their choice: each numbers its own."""
        self._emitter: CallEmitter | None = None
        """Of the first that waits, once its name is known."""
        self._kind: ProseKind | None = None
        """Of the prose that was written last."""
        self._called = False
        self.answered = False
        """Whether there is more than reasoning and blanks."""
        self.held = False
        """Whether only the end of the turn may end a call."""
        self._blank: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._summary: list[str] | None = [] if turn.summary else None

    @property
    def empty(self) -> bool:
        """Whether nothing is open, waits, or is still to come."""
        return not self._waiting and not self._blank and not self._lacks_summary

    @property
    def half_written(self) -> bool:
        """Whether a call lacks its arguments, or a part of them."""
        return any(not call.whole for call in self._waiting_calls)

    def fault(self, *, cut: bool) -> str:
        """Why the turn cannot complete; empty if it can.  `cut`: it was cut short."""
        if any(not call.name and (call.whole or not cut) for call in self._waiting_calls):
            return "The upstream called a tool without a name."
        if not cut and self._half_input:
            return "The upstream ended the turn within the input of a tool."
        return "The upstream wrote no summary." if self._lacks_summary else ""

    @property
    def _waiting_calls(self) -> list[Call]:
        return [call for call in self._waiting if isinstance(call, Call)]

    @property
    def _half_input(self) -> bool:
        """Whether the input of a custom tool, which clients run as it is, has no end."""
        if self._emitter is not None and self._emitter.half_input:
            return True
        names = (call.name for call in self._waiting_calls if call.lacks_value)
        tools = map(self._tools.find, names)
        return any(tool is not None and tool.kind == "custom" for tool in tools)

    @property
    def _lacks_summary(self) -> bool:
        """Whether a summary was asked for and there is none."""
        return self._summary is not None and not "".join(self._summary).strip()

    def text(self, text: str) -> None:
        """Text of the answer.  Blanks that would open a message wait for the next text: hosts
        send a line end before a call, which is no message."""
        if not text.isspace() or (self._writer.in_text and not self._waiting):
            if self._blank:
                text = "".join(self._blank) + text
                self._blank.clear()
            self.prose("text", text)
        else:
            self.size += PIECE + len(text)
            self._blank.append(text)

    def prose(self, kind: ProseKind, text: str) -> None:
        """Text of any kind that is not blank where it would open an item."""
        self.size += len(text)
        self.answered |= kind != "reasoning"
        if not self._waiting:
            self._write(kind, text)
            return
        self.size += PIECE
        last = self._waiting[-1]
        if isinstance(last, _WaitingText) and last.kind == kind:
            last.texts.append(text)
        else:
            self._waiting.append(_WaitingText(kind, [text]))
        self._advance()

    def logprobs(self, logprobs: list[dict[str, Any]]) -> None:
        """Log probabilities of the text that comes next."""
        self.entries += _size(logprobs)
        self._logprobs += logprobs

    def drop_logprobs(self) -> None:
        """Those so far were not of the answer's text."""
        self._logprobs.clear()

    def annotate(self, annotations: list[dict[str, Any]]) -> None:
        """Annotations of the text; they wait until a text is open."""
        self.entries += _size(annotations)
        self._annotations += annotations
        self._write_annotations()

    def call(self, delta: CallDelta, *, whole: bool, choice: int = 0) -> None:
        """A delta of a call, or if `whole` a complete call."""
        if self._summary is not None:
            self._evidence.note("dropped", "a call beside a summary")
            return
        self.size += len(delta.arguments) + len(delta.id) + len(delta.name)
        self.size += PIECE if delta.id or delta.name else 0
        if choice not in self._calls:
            self.size += ITEM
            self._calls[choice] = CallAssembler(self._names)
        call, is_new = self._calls[choice].take(delta, new=whole)
        if is_new:
            self.size += ITEM
            self._called = self.answered = True
            self._drop_blank()
            self._waiting.append(call)
        elif call.closed and delta.arguments.strip():
            self._evidence.note("dropped", "arguments after the end of their call")
        self._advance()

    def settle(self, *, cut: bool) -> None:
        """The turn is over: everything is written and closed; `cut` if it was cut short."""
        while self._waiting and self._step(final=True, cut=cut):
            pass
        if repeated := sum(calls.take_repeated() for calls in self._calls.values()):
            self._evidence.note("skipped", "head of a call like the one before", repeated)
        if self._called:
            self._drop_blank()
        elif self._blank:
            self._write("text", "".join(self._blank))
            self._blank.clear()
        if self._annotations:
            self._evidence.note("dropped", "annotation without text", len(self._annotations))
            self._annotations = []
        if self._summary is not None:
            self._writer.compaction("".join(self._summary))
            self._summary = None
        self._writer.close_item("incomplete" if cut else "completed")

    def abandon(self) -> None:
        """The turn has failed: what waits is dropped; the writer closes what is open."""
        opened = 1 if self._emitter is not None and self._emitter.opened else 0
        if len(self._waiting) > opened:
            self._evidence.note("dropped", "what waited in line", len(self._waiting) - opened)
        self._waiting.clear()
        self._blank.clear()
        self._logprobs.clear()
        self._annotations.clear()

    def _advance(self) -> None:
        while self._waiting and self._step():
            pass

    def _step(self, *, final: bool = False, cut: bool = False) -> bool:
        """Write the first that waits, and end it if it may end; returns whether it has ended.  A
        call without a name may not: the name follows, or the turn fails."""
        first = self._waiting[0]
        if isinstance(first, _WaitingText):
            self._write(first.kind, "".join(first.texts))
        else:
            if self._emitter is None and self._is_named(first):
                self._emitter = self._emitter_of(first)
            if self._emitter is not None:
                self._emitter.pass_on()
            may_end = len(self._waiting) > 1 and not self.held and first.name and first.whole
            if not (final or may_end):
                return False
            self._end(first, cut=cut)
        self._waiting.popleft()
        return True

    def _is_named(self, call: Call) -> bool:
        """Whether the name is complete: hosts cut names, before any arguments."""
        name = call.name
        if call.fragments or name not in self._names:
            return bool(name and call.fragments)
        return not any(other != name and other.startswith(name) for other in self._names)

    def _end(self, call: Call, *, cut: bool) -> None:
        cut = cut and not call.whole
        call.closed = True
        if self._emitter is None and cut:
            self._evidence.note("dropped", f"call of {label(call.name) or 'no name'} that was cut")
            return
        if self._emitter is None:
            self._emitter = self._emitter_of(call)
            self._emitter.pass_on()
        self._emitter.end(self._evidence, cut=cut)
        self._emitter = None
        call.forget()

    def _emitter_of(self, call: Call) -> CallEmitter:
        name = call.name
        tool = self._tools.find(name)
        if tool is None:
            self._evidence.note("called", f"undeclared tool {label(name)}")
        elif name not in self._tools.tools:
            what = "namespace" if tool.name == name else "spelling"
            self._evidence.note("inferred", f"{what} of tool {label(name)}")
        return CallEmitter(call, tool or Tool("function", name), self._writer)

    def _write(self, kind: ProseKind, text: str) -> None:
        if self._summary is not None:
            self._summary += [text] if kind == "text" else []
            return
        if kind != self._kind:
            self.size += ITEM
            self._kind = kind
        if kind == "text":
            self._writer.prose(kind, text, self._logprobs)
            self._logprobs = []
            if self._annotations:
                self._write_annotations()
        else:
            self._writer.prose(kind, text)

    def _write_annotations(self) -> None:
        if self._annotations and self._writer.in_text:
            for annotation in self._annotations:
                self._writer.annotate(annotation)
            self._annotations = []

    def _drop_blank(self) -> None:
        if self._blank:
            self._evidence.note("dropped", "blank text beside a call")
            self._blank.clear()


def _size(entries: list[dict[str, Any]]) -> int:
    """What objects take beside a text: more than their JSON."""
    return 2 * len(dumps(entries))
