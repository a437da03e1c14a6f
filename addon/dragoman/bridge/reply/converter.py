"""The reply of one bridged turn: what its upstream says in, events of the client's API out.

`words -> one turn -> in order -> writer of the client's API`.
What a frame says is written at once, but for what has to wait for an open call.
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
from ...reply.parts_in_order import PartsInOrder
from ...reply.words import Delta, Done, Failed, Finish, Other, Part, Said
from ...wire.chat_end import EARLY
from ...wire.errors import ErrorForm, ErrorObject, failure, known_error
from ...wire.finish_reasons import TurnEnd
from ...wire.json_codec import Json, NotJson
from ...wire.reply_bounds import MAX_EMPTY, MAX_REPLY, TooMany
from ...wire.sse import Frame
from ...wire.usage import Counts, counts, merged
from ..request.validation import label
from .choices import Choices
from .one_turn import OneTurn

_NOTHING = "The upstream's answer ended without any part of a turn."


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

    def fault(self, finish: TurnEnd, lack_value: Sequence[str], *, answered: bool) -> str:
        """Why a turn cannot end so; empty if it can.  `lack_value`: the names of calls that are
        still to come, and end before their arguments do.  `answered`: there is more than
        reasoning."""

    def settle(self, *, cut: bool) -> None:
        """Nothing more is said; `cut`: the turn was cut short."""

    def finish(self, finish: TurnEnd, counted: Counts | None, stopped_by: str) -> None:
        """The end of a turn, after `settle`.  `stopped_by`: the sequence at which it stopped, if
        the host says so."""

    def abandon(self) -> None:
        """The turn has failed, or breaks off: what is open stays so."""

    def report(self, error: ErrorObject, counted: Counts | None) -> None:
        """The end of a turn that failed, after `abandon`."""


class ReplyConverter:
    """One turn's reply.  `drain` gives the events of what was taken; `open`, `heartbeat`, `close`
    and `fail` return theirs."""

    def __init__(
        self,
        writer: ReplyWriter,
        names: Set[str],
        evidence: Evidence,
        *,
        thinks: bool = False,
        mixes: bool = True,
    ) -> None:
        """`names`: those that a call may have upstream.  `thinks`: reasoning was asked for.
        `mixes`: see `OneTurn`."""
        self.writer = writer
        self.names = names
        self._evidence = evidence
        self._order = PartsInOrder(names, evidence)
        calls = not writer.seeks_summary
        self._counts: Counts | None = None
        self._counted: Json = {}
        """A later chunk with usage: some hosts count in every chunk."""
        self._choices = Choices(evidence)
        self._turn = OneTurn(
            self._choices,
            evidence,
            thinks=thinks,
            calls=calls,
            mixes=mixes,
        )
        self._stopped_by = ""
        self._has_choices = False
        self._empty = 0
        """Bytes since the last text or call."""
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

    def more(self, frame: Frame, part: Part, text: str, counted: Json | None) -> None:
        """All that a frame of the upstream's says, and its value if that has a usage; `drain` gives
        its events."""
        writer, order, turn = self.writer, self._order, self._turn
        if (writer.started and not writer.ended) or self._may_write():
            before = order.size + turn.size
            self._has_choices = True
            if counted is not None:
                self._counted = counted
            for delta in turn.more(part, text):
                for each in order.take(delta):
                    writer.say(each)
            self._bound(frame, before)

    def take(self, said: Said, words: Sequence[Delta]) -> None:
        """Any other frame, of which these words leave."""
        frame = said.frame
        if self._may_write():
            before = self._order.size + self._turn.size
            if frame.whole:
                self._take(said, words)
            else:
                self._evidence.note("skipped", "part of an event too large to read")
            self._bound(frame, before, said)

    def count(self, counted: Json | None) -> None:
        """The value of a frame with a usage."""
        if counted is not None:
            self._counted = counted

    def skipped_heads(self, count: int) -> None:
        """So many heads of calls were repeated, and began none."""
        self._evidence.note("skipped", "head of a call like the one before", count)

    def _bound(self, frame: Frame, before: int, said: Said | None = None) -> None:
        """Fail a turn that is too large, or empty for too long, after a frame, which may be `said`
        to have something that repair holds."""
        size = self._order.size + self._turn.size
        says = size != before or (said is not None and said.held)
        self._empty = 0 if says else self._empty + len(frame.raw)
        if self.writer.ended:
            return
        if self._empty > MAX_EMPTY and frame.whole:
            self._fail(failure("server_error", "The upstream sends nothing."))
        elif size + self._turn.entries > MAX_REPLY:
            self._fail(failure("server_error", "The reply is longer than can be kept."))

    def drain(self) -> list[Frame]:
        """What is to be sent, once."""
        return self.writer.events.drain()

    def end_body(self) -> None:
        """No more frames come: text that was held ends no call."""
        self._order.held = True

    def close(self) -> list[Frame]:
        """The upstream has ended, or broken off; a turn that was not whole stays open."""
        self.end_body()
        if self._may_write() and self._choices.all_finished:
            self._end()
        elif not self.writer.ended:
            self._abandon()
        return self.drain()

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

    def _take(self, said: Said, deltas: Sequence[Delta]) -> None:
        """What a frame says that has more than a text."""
        frame, value, first = said.frame, said.value, deltas[0] if deltas else None
        of_frame = isinstance(first, Failed) or (isinstance(first, Other) and first.part is None)
        if value is None and of_frame:
            self._skip(frame)
            return
        if isinstance(first, Failed) and first.raw is value:
            self._fail(known_error(first.error or ErrorObject()))
            return
        if value is not None and not isinstance(value, dict):
            self._evidence.note("skipped", "event that is no chunk")
        elif value is not None and (counted := counts(value)) is not None:
            self._counts, self._counted = merged(self._counts, counted), {}
        self._has_choices = self._has_choices or said.raw is not None
        for delta in deltas:
            if self.writer.ended:
                return
            self._take_delta(delta)

    def _take_delta(self, delta: Delta) -> None:
        if isinstance(delta, Failed):
            self._fail(known_error(delta.error or ErrorObject()))
        elif isinstance(delta, Done):
            self._end()
        elif isinstance(delta, Finish):
            finish, self._stopped_by = None, delta.stopped_by or self._stopped_by
            if not delta.added:
                finish = self._choices.finished(delta.choice, delta.reason)
            if finish:
                self._finish(finish, delta.reason)
        else:
            self._say(self._turn.take(delta))

    def _skip(self, frame: Frame) -> None:
        """A frame that has no value, or the end after those of another API."""
        if frame.is_done:
            self._end()
            return
        try:
            if frame.value is None and frame.data is not None:
                self._evidence.note("skipped", "event that is no chunk")
        except TooMany as bound:
            message = f"The upstream's answer is too large: {bound}."
            self._fail(failure("server_error", message))
        except NotJson:
            self._evidence.note("skipped", "event that is not JSON")

    # The end

    def _finish(self, finish: TurnEnd | Literal["failed"], reason: Any) -> None:
        """A finish reason: the items are complete now; usage may still come."""
        if finish == "failed":
            message = f"The upstream ended the turn with {label(reason)}."
            self._fail(failure("server_error", message))
        elif self._choices.all_finished:
            self._settle(cut=self._choices.finish != "completed")

    def _settle(self, *, cut: bool) -> None:
        self._say(self._turn.end_content())
        if fault := self._fault(cut=cut):
            filtered = self._choices.finish == "content_filter"
            self._end_failed(failure("invalid_prompt" if filtered else "server_error", fault))
            return
        for delta in self._order.settle(cut=cut):
            self.writer.say(delta)
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
        self._say(self._turn.end_content())
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
        self.writer.finish(finish or "completed", self._usage, self._stopped_by)

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
        return merged(self._counts, counts(self._counted))
