"""The reply of one bridged turn: upstream chat chunks in, Responses events out.

A chunk is written as events at once, but for what has to wait for an open call (`item_order`).
The client gets exactly one terminal, or none where the upstream breaks off:

| the upstream                                         | the terminal          |
|------------------------------------------------------|-----------------------|
| sent a finish reason                                 | that of `FINISHES`    |
| sent ``[DONE]`` or a whole message without one       | `response.completed`, |
|   … but after reasoning alone, or nothing            | `response.failed`     |
| sent an error                                        | `response.failed`     |
| ended or broke off before any of these               | none                  |
| completed a turn in which a call is half written     | `response.failed`     |
|   (after the finish reason), has no name, or is of   |                       |
|   a custom tool and ends within its input            |                       |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...notes import Evidence
from ...wire import chat_delta
from ...wire.chat_delta import ChoiceDelta
from ...wire.chat_end import EARLY, Finish
from ...wire.errors import ErrorObject, failure, stream_error
from ...wire.json_codec import NotJson
from ...wire.reply_bounds import TooMany
from ...wire.sse import Frame
from ...wire.usage import Counts, counts, usage
from ..request.validation import label
from ..responses.dialects import Dialect
from ..responses.event_writer import Writer
from ..responses.response_object import snapshot
from ..turn_context import TurnContext
from .choices import Choices
from .delta_reader import DeltaReader
from .item_order import PIECE, ItemOrder

_NOTHING = "The upstream's answer ended without any part of a turn."

MAX_SIZE = 8 * 1024 * 1024
"""Characters of a reply, and bytes that log probabilities and annotations take, sent or waiting:
twice a million tokens.  The end of a reply repeats them three times, in less than 100 ms."""
MAX_EMPTY = 1024 * 1024
"""Bytes without any text or call, after which the turn fails: a comment every second fills them in
ten hours, and frames without content cost more than others for their size."""


class ReplyConverter:
    """One turn's reply. The methods return the frames that are to be sent now."""

    def __init__(
        self,
        turn: TurnContext,
        dialect: Dialect,
        evidence: Evidence,
        *,
        response_id: str,
        created_at: int,
        clock: Callable[[], float],
        prior: Sequence[dict[str, Any]] = (),
    ) -> None:
        """`clock` gives the seconds since the epoch, for ``completed_at``; `prior` are the
        items of a response that continues."""
        self._turn = turn
        self._evidence = evidence
        response = snapshot(turn, response_id, created_at)
        self.writer = Writer(response, dialect, clock=clock, prior=prior, called=turn.called)
        self._items = ItemOrder(turn, self.writer, evidence)
        self._reader = DeltaReader(self._items, evidence, thinks=turn.thinks)
        self._counts: Counts | None = None
        self._counted: dict[str, Any] = {}
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
    def response(self) -> dict[str, Any]:
        """The response object so far; after the terminal, the body of a reply not streamed."""
        return self.writer.response

    def open(self) -> list[Frame]:
        """The start of the stream, sent with the upstream's headers."""
        self.writer.start()
        return self.drain()

    def heartbeat(self) -> list[Frame]:
        """An event for a client that waits; none before the start or after the end."""
        self.writer.heartbeat()
        return self.drain()

    def take(self, frame: Frame) -> None:
        """One frame of the upstream's stream; `drain` gives its events."""
        writes = self.writer.started and not self.writer.ended
        if writes or self._may_write():
            size = self._items.size
            self._read(frame)
            self._empty = self._empty + len(frame.raw) if self._items.size == size else 0
            if self._empty > MAX_EMPTY and frame.whole and not self.writer.ended:
                self._fail(failure("server_error", "The upstream sends nothing."))
            too_long = self._items.size + self._items.entries > MAX_SIZE
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
        self._items.held = True
        for frame in held:
            if self._may_write():
                self._read(frame)
        if self._may_write() and self._choices.all_finished:
            self._end()
        elif not self.writer.ended:
            self._items.abandon()

    def fail(self, code: str, message: str) -> list[Frame]:
        """The bridge is at fault, or the client cannot be sent a break; a turn that was whole stays
        so."""
        if self._may_write():
            self._fail(failure(code, message))
        return self.drain()

    # The upstream's frames

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
                self._reader.only(frame.only)
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
            self._reader.cite(value)

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
            self._items.size += PIECE
        delta = self._choices.part_of_turn(choice.delta, index)
        if fields.get("logprobs") and self._choices.answers(index):
            self._items.logprobs(chat_delta.logprobs(fields))
        self._reader.delta(delta, index, whole=choice.whole)
        self._reader.cite(chunk)
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
        self._reader.end_content()
        if fault := self._items.fault(cut=cut):
            self._fail(failure("server_error", fault))
        else:
            self._items.settle(cut=cut)

    def _end(self) -> None:
        """The upstream has sent that the turn is over."""
        self._reader.end_content()
        finish = self._choices.finish
        ended = self._choices.all_finished or finish or self._items.answered
        cut = finish not in (None, "completed")
        if not ended or (self._items.half_written and not cut):
            self._fail(failure("server_error", EARLY if self._has_choices else _NOTHING))
            return
        if finish is None:
            self._evidence.note("inferred", "finish reason from the end of the stream")
        self._settle(cut=cut)
        if self.writer.ended:
            return
        if not self.writer.response["output"]:
            self._evidence.note("empty turn")
        if self.writer.unsealed:
            self._evidence.note("left out", "the sealed form of a long reasoning")
        if finish is None or finish == "completed":
            self.writer.complete(self._usage())
        else:
            self.writer.incomplete(finish, self._usage())

    def _fail(self, error: ErrorObject) -> None:
        """After its finish reason a turn is whole: only its usage is lost."""
        if self._choices.all_finished and self._items.empty:
            self._evidence.note("ignored", "failure after the finish reason")
            self._end()
            return
        self._evidence.note("failed", error.code)
        self.error = error
        self._items.abandon()
        self.writer.fail(error, self._usage())

    def _usage(self) -> dict[str, Any]:
        counted = counts(self._counted) or self._counts
        found, estimated = usage(counted, self._turn.estimate, self.writer.characters)
        if estimated:
            self._evidence.note("estimated", "usage")
        return found
