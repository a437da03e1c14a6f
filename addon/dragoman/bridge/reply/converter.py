"""The reply of one bridged turn: upstream chat chunks in, events of the client's API out.

`chunks -> choices, deltas in words (delta_reader) -> in order -> writer of the client's API`.
What a chunk says is written at once, but for what has to wait for an open call.
The client gets exactly one end, or none where the upstream breaks off:

| the upstream                                         | the end            |
|------------------------------------------------------|--------------------|
| sent a finish reason                                 | that of `FINISHES` |
| sent ``[DONE]`` or a whole message without one       | completed,         |
|   … but after reasoning alone, or nothing            | failed             |
| sent an error                                        | failed             |
| ended or broke off before any of these               | none               |
| completed a turn in which a call is half written     | failed             |
|   (after the finish reason), has no name, or is of   |                    |
|   a custom tool and ends within its input            |                    |
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Literal, Protocol

from ...notes import Evidence
from ...reply.event_queue import EventQueue
from ...reply.in_order import PIECE, InOrder
from ...reply.words import Delta
from ...wire import chat_delta
from ...wire.chat_delta import ChoiceDelta
from ...wire.chat_end import EARLY, Finish
from ...wire.errors import ErrorForm, ErrorObject, failure, stream_error
from ...wire.json_codec import Json, NotJson
from ...wire.reply_bounds import TooMany
from ...wire.sse import Frame
from ...wire.usage import Counts, counts
from ..request.validation import label
from .choices import Choices
from .delta_reader import DeltaReader

_NOTHING = "The upstream's answer ended without any part of a turn."

MAX_SIZE = 8 * 1024 * 1024
"""Characters of a reply, and bytes that log probabilities and annotations take, sent or waiting:
twice a million tokens.  The end of a reply repeats them three times, in less than 100 ms."""
MAX_EMPTY = 1024 * 1024
"""Bytes without any text or call, after which the turn fails: a comment every second fills them in
ten hours, and frames without content cost more than others for their size."""


class ReplyWriter(Protocol):
    """Writes one reply of the client's API as `events`: its start, then what is said in order, then
    its one end."""

    errors: ErrorForm
    """How its client reads an error in place of the reply."""
    started: bool
    ended: bool
    """Whether the start has been written, and the end."""

    @property
    def events(self) -> EventQueue:
        """What has been written and not sent yet."""

    @property
    def seeks_summary(self) -> bool:
        """Whether the reply is a text alone, that has not come so far."""

    @property
    def response(self) -> Json:
        """The reply so far; after its end, the body of one that is not streamed."""

    def open(self) -> None:
        """The upstream's headers have come."""

    def start(self) -> None:
        """The first time, the beginning of the reply."""

    def heartbeat(self) -> None:
        """An event without news; none after the end."""

    def say(self, delta: Delta) -> None:
        """The next delta, in order."""

    def fault(self, finish: Finish, lack_value: Sequence[str], *, answered: bool) -> str:
        """Why a turn cannot end so; empty if it can.  `lack_value`: the names of calls that are
        still to come, and end before their arguments do.  `answered`: there is more than
        reasoning."""

    def settle(self, *, cut: bool) -> None:
        """Nothing more is said; `cut`: the turn was cut short."""

    def finish(self, finish: Finish, counted: Counts | None) -> None:
        """The end of a turn, after `settle`."""

    def abandon(self) -> None:
        """The turn has failed, or breaks off: what is open stays so."""

    def report(self, error: ErrorObject, counted: Counts | None) -> None:
        """The end of a turn that failed, after `abandon`."""


class ReplyConverter:
    """One turn's reply. The methods return the frames that are to be sent now."""

    def __init__(
        self, writer: ReplyWriter, names: Set[str], evidence: Evidence, *, thinks: bool = False
    ) -> None:
        """`names`: those that a call may have upstream.  `thinks`: reasoning was asked for."""
        self.writer = writer
        self._evidence = evidence
        self._order = InOrder(names, evidence)
        calls = not writer.seeks_summary
        self._reader = DeltaReader(names, evidence, thinks=thinks, calls=calls)
        self._counts: Counts | None = None
        self._counted: Json = {}
        """A later chunk with usage: some hosts count in every chunk."""
        self._choices = Choices(evidence)
        self._has_choices = False
        self._empty = 0
        """Bytes since the last text or call."""
        self._body_ended = False
        self.error: ErrorObject | None = None
        """Why the turn failed, with the most exact code; None if it did not."""

    @property
    def settled(self) -> bool:
        """Whether the turn has its finish reason, and only its usage and the end of the stream
        are missing."""
        return self._choices.all_finished and not self.writer.ended

    @property
    def response(self) -> Json:
        """The reply so far; after its end, the body of one that is not streamed."""
        return self.writer.response

    def open(self) -> list[Frame]:
        """What is sent with the upstream's headers."""
        self.writer.open()
        return self.drain()

    def heartbeat(self) -> list[Frame]:
        """An event for a client that waits."""
        self.writer.heartbeat()
        return self.drain()

    def take(self, frame: Frame) -> None:
        """One frame of the upstream's stream; `drain` gives its events."""
        writes = self.writer.started and not self.writer.ended
        if writes or self._may_write():
            order, reader = self._order, self._reader
            before = order.size + reader.size
            self._read(frame)
            size = order.size + reader.size
            self._empty = self._empty + len(frame.raw) if size == before else 0
            if self._empty > MAX_EMPTY and frame.whole and not self.writer.ended:
                self._fail(failure("server_error", "The upstream sends nothing."))
            too_long = size + reader.entries > MAX_SIZE
            if too_long and not self.writer.ended:
                self._fail(failure("server_error", "The reply is longer than can be kept."))

    def drain(self) -> list[Frame]:
        """What is to be sent, once."""
        return self.writer.events.drain()

    def close(self, held: Sequence[Frame] = ()) -> list[Frame]:
        """The upstream has ended, or broken off; a turn that was not whole stays open."""
        self.take_last(held)
        return self.drain()

    def take_last(self, held: Sequence[Frame]) -> None:
        """The last frames of repair, and the end: a finish reason in them is repair's own, for a
        stream without one, and their text ends no call."""
        self._body_ended = True
        self._order.held = True
        for frame in held:
            if self._may_write():
                self._read(frame)
        if self._may_write() and self._choices.all_finished:
            self._end()
        elif not self.writer.ended:
            self._abandon()

    def fail(self, code: str, message: str) -> list[Frame]:
        """The bridge is at fault, or the client cannot be sent a break; a turn that was whole stays
        so."""
        if self._may_write():
            self._fail(failure(code, message))
        return self.drain()

    # The upstream's frames

    def _say(self, deltas: Sequence[Delta]) -> None:
        for delta in deltas:
            for each in self._order.take(delta):
                self.writer.say(each)

    def _may_write(self) -> bool:
        """Whether more may be written; the first time, the start is."""
        if not self.writer.ended:
            self.writer.start()
        return not self.writer.ended

    def _read(self, frame: Frame) -> None:
        if not frame.whole:
            self._evidence.note("skipped", "part of an event too large to read")
        elif frame.only is not None or frame.counted is not None:
            self._has_choices = True
            self._counted = frame.counted or self._counted
            if frame.only is not None:
                self._choices.continue_first(frame.only)
                self._say(self._reader.only(frame.only))
        else:
            try:
                value = frame.value
            except TooMany as bound:
                message = f"The upstream's answer is too large: {bound}."
                self._fail(failure("server_error", message))
                return
            except NotJson:
                if frame.is_done:
                    self._end()
                else:
                    self._evidence.note("skipped", "event that is not JSON")
                return
            if value is not None or frame.data is not None:
                self._chunk(value, named=frame.is_error)

    def _chunk(self, value: Any, *, named: bool) -> None:
        for choice in self._choices_of(value, named=named):
            if self.writer.ended:
                return
            self._take_choice(choice, value)
        if isinstance(value, dict) and not self.writer.ended:
            self._say(self._reader.cited(value))

    def _choices_of(self, value: Any, *, named: bool) -> list[ChoiceDelta]:
        """The choices of a chunk; its error and its usage are read here."""
        if (error := stream_error(value, named=named)) is not None:
            self._fail(error)
            return []
        if not isinstance(value, dict):
            self._evidence.note("skipped", "event that is no chunk")
            return []
        if (counted := counts(value)) is not None:
            self._counts, self._counted = counted, {}
        choices = chat_delta.choices(value)
        listed = value.get("choices")
        if isinstance(listed, list) and len(listed) > len(choices):
            self._evidence.note("skipped", "choice that is no object", len(listed) - len(choices))
        return choices

    def _take_choice(self, choice: ChoiceDelta, chunk: dict[str, Any]) -> None:
        """Pass on the delta of a choice, and its finish."""
        self._has_choices = True
        index, fields = choice.index, choice.fields
        if index:
            self._reader.size += PIECE
        delta = self._choices.part_of_turn(choice.delta, index)
        if fields.get("logprobs") and self._choices.answers(index):
            self._reader.logprobs(chat_delta.logprobs(fields))
        self._say(self._reader.delta(delta, index, whole=choice.whole))
        self._say(self._reader.cited(chunk))
        reason = fields.get("finish_reason")
        if (found := fields.get("error")) and (error := stream_error({"error": found})):
            self._fail(error)
        elif not self._body_ended and (finish := self._choices.finished(index, reason)):
            self._finish(finish, reason)

    # The end

    def _finish(self, finish: Finish | Literal["failed"], reason: Any) -> None:
        """A finish reason: the items are complete now; usage may still come."""
        if finish == "failed":
            message = f"The upstream ended the turn with {label(reason)}."
            self._fail(failure("server_error", message))
        elif self._choices.all_finished:
            self._settle(cut=self._choices.finish != "completed")

    def _settle(self, *, cut: bool) -> None:
        self._say(self._reader.end_content())
        if fault := self._fault(cut=cut):
            filtered = self._choices.finish == "content_filter"
            self._end_failed(failure("invalid_prompt" if filtered else "server_error", fault))
            return
        for delta in self._order.settle(cut=cut):
            self.writer.say(delta)
        self._reader.end_calls()
        self.writer.settle(cut=cut)

    def _fault(self, *, cut: bool) -> str:
        """Why the turn cannot complete; empty if it can."""
        if self._order.lacks_name(cut=cut):
            return "The upstream called a tool without a name."
        order, finish = self._order, self._choices.finish or "completed"
        if fault := self.writer.fault(finish, order.lack_value, answered=order.answered):
            return fault
        return "The upstream wrote no summary." if self.writer.seeks_summary else ""

    def _abandon(self) -> None:
        self._order.abandon()
        self.writer.abandon()

    def _end(self) -> None:
        """The upstream has sent that the turn is over."""
        self._say(self._reader.end_content())
        finish = self._choices.finish
        ended = self._choices.all_finished or finish or self._order.answered
        cut = finish not in (None, "completed")
        if not ended or (self._order.half_written and not cut):
            self._fail(failure("server_error", EARLY if self._has_choices else _NOTHING))
            return
        if finish is None:
            self._evidence.note("inferred", "finish reason from the end of the stream")
        self._settle(cut=cut)
        if self.writer.ended:
            return
        self.writer.finish(finish or "completed", self._usage)

    def _fail(self, error: ErrorObject) -> None:
        """After its finish reason a turn is whole: only its usage is lost."""
        whole = self._order.empty and not self.writer.seeks_summary
        if self._choices.all_finished and whole:
            self._evidence.note("ignored", "failure after the finish reason")
            self._end()
            return
        self._end_failed(error)

    def _end_failed(self, error: ErrorObject) -> None:
        self._evidence.note("failed", error.code)
        self.error = error
        self._abandon()
        self.writer.report(error, self._usage)

    @property
    def _usage(self) -> Counts | None:
        return counts(self._counted) or self._counts
