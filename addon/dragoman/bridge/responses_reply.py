"""A chat host's reply for a client of the Responses API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..notes import Evidence
from ..repair.declared_tools import ToolLookup
from ..reply.turn_context import Tool, TurnContext
from ..reply.words import Arguments, CallBegin, Cited, Delta, PartEnd, Text
from ..responses.call_emitter import CallEmitter
from ..responses.dialects import Dialect
from ..responses.event_writer import Writer
from ..responses.response_object import snapshot
from ..wire.chat_calls import Call
from ..wire.errors import OPENAI, ErrorForm, ErrorObject
from ..wire.finish_reasons import TurnEnd
from ..wire.json_codec import Json
from ..wire.usage import Counts, usage
from .reply.converter import ReplyConverter
from .request.validation import label


def responses_reply(
    turn: TurnContext,
    dialect: Dialect,
    evidence: Evidence,
    *,
    response_id: str,
    created_at: int,
    clock: Callable[[], float],
    prior: Sequence[dict[str, Any]] = (),
) -> ReplyConverter:
    """`clock` gives the seconds since the epoch, for ``completed_at``; `prior` are the
    items of a response that continues."""
    response = snapshot(turn, response_id, created_at)
    writer = ResponsesReply(response, turn, dialect, evidence, clock=clock, prior=prior)
    names = turn.tools.keys() | {tool.name for tool in turn.tools.values()}
    return ReplyConverter(writer, names, evidence, thinks=turn.thinks)


class ResponsesReply(Writer):
    """Writes what a reply says, in order; a call as an item of its tool's kind."""

    errors: ErrorForm = OPENAI

    def __init__(
        self,
        response: Json,
        turn: TurnContext,
        dialect: Dialect,
        evidence: Evidence,
        *,
        clock: Callable[[], float],
        prior: Sequence[Json],
    ) -> None:
        super().__init__(response, dialect, clock=clock, prior=prior, called=turn.called)
        self._tools = ToolLookup(turn.tools)
        self._evidence = evidence
        self._estimate = turn.estimate
        self._emitter: CallEmitter | None = None
        """Of the open call."""
        self._summary: list[str] | None = [] if turn.summary else None

    @property
    def seeks_summary(self) -> bool:
        return self._summary is not None and not "".join(self._summary).strip()

    def open(self) -> None:
        self.start()

    def say(self, delta: Delta) -> None:
        emitter = self._emitter
        if isinstance(delta, CallBegin):
            if emitter is None:
                self._begin(delta)
            else:
                emitter.call.id = delta.id
        elif emitter is not None and isinstance(delta, Arguments):
            emitter.add(delta.text)
        elif emitter is not None and isinstance(delta, PartEnd):
            emitter.end(self._evidence, cut=delta.cut)
            self._emitter = None
        elif self._summary is not None:
            self._summarize(self._summary, delta)
        elif isinstance(delta, Text) and (kind := delta.part.kind) != "call" and kind != "other":
            self.prose(kind, delta.text, delta.logprobs)
        elif isinstance(delta, Cited):
            for annotation in delta.annotations:
                self.annotate(annotation)

    def _summarize(self, summary: list[str], delta: Delta) -> None:
        if isinstance(delta, Text) and delta.part.kind == "text":
            summary.append(delta.text)
        elif isinstance(delta, Cited):
            self._evidence.note("dropped", "annotation without text", len(delta.annotations))

    def _begin(self, call: CallBegin) -> None:
        name = call.name
        tool = self._tools.find(name)
        if tool is None:
            self._evidence.note("called", f"undeclared tool {label(name)}")
        elif name not in self._tools.tools:
            what = "namespace" if tool.name == name else "spelling"
            self._evidence.note("inferred", f"{what} of tool {label(name)}")
        tool = tool or Tool("function", name)
        self._emitter = CallEmitter(Call(id=call.id, name=name), tool, self)

    def fault(self, finish: TurnEnd, lack_value: Sequence[str], *, answered: bool) -> str:  # noqa: ARG002
        """Clients run the input of a custom tool as it is, so it must have an end."""
        if finish != "completed":
            return ""
        tools = map(self._tools.find, lack_value)
        half = any(tool is not None and tool.kind == "custom" for tool in tools)
        if half or (self._emitter is not None and self._emitter.half_input):
            return "The upstream ended the turn within the input of a tool."
        return ""

    def settle(self, *, cut: bool) -> None:
        if self._summary is not None:
            self.compaction("".join(self._summary))
            self._summary = None
        self.close_item("incomplete" if cut else "completed")

    def finish(self, finish: TurnEnd, counted: Counts | None, stopped_by: str) -> None:  # noqa: ARG002
        if not self._output:
            self._evidence.note("empty turn")
        if self.unsealed:
            self._evidence.note("left out", "the sealed form of a long reasoning")
        if finish == "completed":
            self.complete(self._usage(counted))
        else:
            self.incomplete(finish, self._usage(counted))

    def abandon(self) -> None:
        if self._emitter is not None and not self._emitter.opened:
            self._evidence.note("dropped", "what waited in line")

    def report(self, error: ErrorObject, counted: Counts | None) -> None:
        self.fail(error, self._usage(counted))

    def _usage(self, counted: Counts | None) -> Json:
        found, estimated = usage(counted, self._estimate, self.characters)
        if estimated:
            self._evidence.note("estimated", "usage")
        return found
