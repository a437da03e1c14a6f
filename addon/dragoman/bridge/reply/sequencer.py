"""What the model says, in line: items are told one after another.

Chat upstreams mix what Responses clients must get apart: text between the deltas of a
call, the deltas of two calls.  The head of the line is a call that is being told; what
comes after it waits.  A call ends when its arguments are complete and something waits
behind it, else with the turn; so nothing that could still come to it is cut off, and
nothing waits without a call to wait for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from ...notes import Evidence
from ...wire.chat_calls import Call, CallAssembler, CallDelta
from ...wire.json_codec import dumps
from ...wire.slices import Slices
from ..request.validation import label
from ..responses.event_writer import Prose, Writer
from ..turn_context import Tool, TurnContext
from .call_emitter import CallEmitter
from .tool_names import ToolNames

PIECE = 64
"""Bytes that a text takes beside its characters while it waits."""
ITEM = 1024
"""Bytes that an item or a call takes beside its text."""


@dataclass(slots=True)
class _WaitingText:
    """Prose that came behind an open call."""

    kind: Prose
    texts: list[str]


class OutputSequencer:
    """Between the reader of chunks and the writer of events."""

    def __init__(self, turn: TurnContext, writer: Writer, evidence: Evidence) -> None:
        self._tools = ToolNames(turn.tools)
        self._names = turn.tools.keys() | {tool.name for tool in turn.tools.values()}
        self._writer = writer
        self._evidence = evidence
        self.size = 0
        """Characters of all that came, and what it takes to hold them in pieces and items."""
        self.entries = 0
        """What it takes to hold log probabilities and annotations."""
        self._waiting: deque[Call | _WaitingText] = deque()
        self._calls = {0: CallAssembler(self._names)}
        """By the choice in which they come: each numbers its own."""
        self._delivery: CallEmitter | None = None
        self._kind: Prose | None = None
        """Of the prose that was written last."""
        self._called = False
        self._answered = False
        self._held = False
        self._blank: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._summary: list[str] | None = [] if turn.summary else None

    @property
    def empty(self) -> bool:
        """Whether nothing is open, waits, or is still to come."""
        return not self._waiting and not self._blank and not self.lacks_summary

    @property
    def half_written(self) -> bool:
        """Whether a call stands within its arguments, or before them."""
        return any(isinstance(piece, Call) and not piece.whole for piece in self._waiting)

    @property
    def answered(self) -> bool:
        """Whether there is more than reasoning and blanks."""
        return self._called or self._answered

    def nameless(self, *, cut: bool) -> bool:
        """Whether a call has come to its end without a name; `cut`: one that was cut has not."""
        calls = (piece for piece in self._waiting if isinstance(piece, Call))
        return any(not call.name and (call.whole or not cut) for call in calls)

    @property
    def half_input(self) -> bool:
        """Whether the input of a custom tool, which clients run as it is, has no end."""
        calls = (piece for piece in self._waiting if isinstance(piece, Call) and piece.in_string)
        names = (call.name for call in calls)
        tools = (self._tools.exactly(name) or self._tools.meant_by(name) for name in names)
        return any(tool is not None and tool.kind == "custom" for tool in tools)

    @property
    def lacks_summary(self) -> bool:
        """Whether a summary was asked for and there is none."""
        return self._summary is not None and not "".join(self._summary).strip()

    def text(self, text: str) -> None:
        """Text for the reader.  Blanks that would open a message wait for what follows:
        hosts send a line end before a call, which is no message."""
        if not text.isspace() or (self._writer.in_text and not self._waiting):
            if self._blank:
                text = "".join(self._blank) + text
                self._blank.clear()
            self.prose("text", text)
        else:
            self.size += PIECE + len(text)
            self._blank.append(text)

    def prose(self, kind: Prose, text: str) -> None:
        """Text of any kind that is not blank where it would open an item."""
        self.size += len(text)
        if kind != "reasoning":
            self._answered = True
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
        """Those that came were of something else than text."""
        self._logprobs.clear()

    def annotate(self, annotations: list[dict[str, Any]]) -> None:
        """Annotations of the text; they wait until a text is open that they can belong to."""
        self.entries += _size(annotations)
        self._annotations += annotations
        self._write_annotations()

    def call(self, delta: CallDelta, *, whole: bool, choice: int = 0) -> None:
        """A delta of a call; `whole` if it is all of one."""
        if self._summary is not None:
            self._evidence.note("dropped", "a call beside a summary")
            return
        self.size += len(delta.arguments) + len(delta.id) + len(delta.name)
        self.size += PIECE if delta.id or delta.name else 0
        if choice not in self._calls:
            self.size += ITEM
            self._calls[choice] = CallAssembler(self._names)
        call, begun = self._calls[choice].take(delta, new=whole)
        if begun:
            self.size += ITEM
            self._called = True
            self._drop_blank()
            self._waiting.append(call)
        elif call.closed and delta.arguments.strip():
            self._evidence.note("dropped", "arguments after the end of their call")
        self._advance()

    def more(self, index: int | None, arguments: str) -> bool:
        """The short way of `call` for more arguments of the call of an index, if that is the
        one being told and nothing waits behind it; else False, and nothing is done."""
        call = self._waiting[0] if len(self._waiting) == 1 else None
        if self._delivery is None or call is None or call is not self._calls[0].at(index):
            return False
        self.size += len(arguments)
        call.add(arguments)
        self._delivery.pass_on()
        return True

    def hold(self) -> None:
        """Whatever still comes ends no call: how the turn ends decides over those."""
        self._held = True

    def settling(self, *, cut: bool) -> Slices[None]:
        """The turn is over: everything is told and closed; `cut` if it was cut short."""
        while self._waiting and self._step(final=True, cut=cut):
            yield
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

    def letting_go(self) -> Slices[None]:
        """The calls are needed no more: see `emptied`."""
        for calls in self._calls.values():
            yield from calls.letting_go()

    def abandon(self) -> None:
        """The turn has failed: what waits is dropped, what is open is the writer's to close."""
        told = 1 if self._delivery is not None and self._delivery.opened else 0
        if len(self._waiting) > told:
            self._evidence.note("dropped", "what waited in line", len(self._waiting) - told)
        self._waiting.clear()
        self._blank.clear()
        self._logprobs.clear()
        self._annotations.clear()

    def _advance(self) -> None:
        """Tell the head what it has; while it may end, end it and go on with the next."""
        while self._waiting and self._step():
            pass

    def _step(self, *, final: bool = False, cut: bool = False) -> bool:
        """Tell the head, and end it if it may end; returns whether it has.  A call without a
        name may not: it comes yet, or the turn fails."""
        head = self._waiting[0]
        if isinstance(head, _WaitingText):
            self._write(head.kind, "".join(head.texts))
        else:
            self._tell(head)
            may_end = len(self._waiting) > 1 and not self._held and head.name and head.whole
            if not (final or may_end):
                return False
            self._end(head, cut=cut)
        self._waiting.popleft()
        return True

    def _tell(self, call: Call) -> None:
        """Nothing can be told of a call before its name is certain."""
        if self._delivery is None and self._named(call):
            self._delivery = CallEmitter(call, self._tool(call.name), self._writer)
        if self._delivery is not None:
            self._delivery.pass_on()

    def _named(self, call: Call) -> bool:
        """Whether no more of its name can come: hosts cut names, before any arguments."""
        name = call.name
        if call.fragments or name not in self._names:
            return bool(name) and bool(call.fragments)
        return not any(other != name and other.startswith(name) for other in self._names)

    def _end(self, call: Call, *, cut: bool) -> None:
        cut = cut and not call.whole
        call.closed = True
        if self._delivery is None and cut:
            self._evidence.note("dropped", f"call of {label(call.name) or 'no name'} that was cut")
            return
        if self._delivery is None:
            self._delivery = CallEmitter(call, self._tool(call.name), self._writer)
            self._delivery.pass_on()
        self._delivery.end(self._evidence, cut=cut)
        self._delivery = None
        call.forget()

    def _tool(self, name: str) -> Tool:
        tool = self._tools.exactly(name)
        if tool is not None:
            return tool
        if (meant := self._tools.meant_by(name)) is not None:
            what = "namespace" if meant.name == name else "spelling"
            self._evidence.note("inferred", f"{what} of tool {label(name)}")
            return meant
        self._evidence.note("called", f"undeclared tool {label(name)}")
        return Tool("function", name)

    def _write(self, kind: Prose, text: str) -> None:
        if self._summary is not None:
            self._summary += [text] if kind == "text" else []
            return
        if kind != self._kind:
            self.size += ITEM
            self._kind = kind
        if kind == "text":
            self._writer.prose(kind, text, self._logprobs)
            self._logprobs = []
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
    return 2 * len(dumps(entries)) if entries else 0
