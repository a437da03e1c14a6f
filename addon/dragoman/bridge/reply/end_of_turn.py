"""That a bridged turn has ended, and how.

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
A turn that is too large fails as well: `ReplyConverter` counts, by the bounds of
`wire/reply_bounds.py`.
"""

from __future__ import annotations

from ...notes import Evidence
from ...reply.parts_in_order import PartsInOrder
from ...reply.words import Finish
from ...wire.chat_end import EARLY
from ...wire.errors import ErrorObject, failure
from ...wire.json_codec import Json
from ...wire.usage import Counts, counts, merged
from ..request.validation import label
from .choices import Choices, OneTurn
from .reply_writer import ReplyWriter, say

_NOTHING = "The upstream's answer ended without any part of a turn."


class EndOfTurn:
    """Has the writer write the one end, after what is still held."""

    def __init__(
        self,
        writer: ReplyWriter,
        choices: Choices,
        turn: OneTurn,
        order: PartsInOrder,
        evidence: Evidence,
    ) -> None:
        self._writer = writer
        self._choices = choices
        self._turn = turn
        self._order = order
        self._evidence = evidence
        self._stopped_by = ""
        self._counts: Counts | None = None
        self.latest: Json = {}
        """A later chunk with usage, that has not been counted: some hosts count in every chunk."""
        self.has_choices = False
        """Whether any part of a turn has come."""
        self.error: ErrorObject | None = None
        """Why the turn failed, with the most exact code; None if it did not."""

    @property
    def settled(self) -> bool:
        """Whether the turn has its finish reason, and only its usage and the end of the stream
        are missing."""
        return self._choices.all_finished and not self._writer.ended

    def count(self, counted: Counts) -> None:
        """A usage."""
        self._counts, self.latest = merged(self._counts, counted), {}

    # The upstream's ends

    def finished(self, delta: Finish) -> None:
        """A finish reason: the items are complete now; usage may still come."""
        self._stopped_by = delta.stopped_by or self._stopped_by
        if delta.added or not (finish := self._choices.finished(delta.choice, delta.reason)):
            return
        if finish == "failed":
            message = f"The upstream ended the turn with {label(delta.reason)}."
            self.fail(failure("server_error", message))
        elif self._choices.all_finished:
            self._settle(cut=self._choices.finish != "completed")

    def done(self) -> None:
        """The upstream has sent that the turn is over."""
        self._say_rest()
        finish = self._choices.finish
        ended = self._choices.all_finished or finish or self._order.answered
        cut = finish not in (None, "completed")
        if not ended or (self._order.half_written and not cut):
            self.fail(failure("server_error", EARLY if self.has_choices else _NOTHING))
            return
        if finish is None:
            self._evidence.note("inferred", "finish reason from the end of the stream")
        self._settle(cut=cut)
        if self._writer.ended:
            return
        self._writer.finish(finish or "completed", self._usage, self._stopped_by)

    def closed(self) -> None:
        """The upstream's stream has ended, or broken off; a turn that was not whole stays open."""
        if self._choices.all_finished:
            self.done()
        else:
            self._abandon()

    def fail(self, error: ErrorObject) -> None:
        """After its finish reason a turn is whole: only its usage is lost."""
        whole = self._order.empty and not self._writer.seeks_summary
        if self._choices.all_finished and whole:
            self._evidence.note("ignored", "failure after the finish reason")
            self.done()
            return
        self._end_failed(error)

    # The client's

    def _say_rest(self) -> None:
        """What was held back of a text."""
        say(self._writer, self._order, self._turn.end_content())

    def _settle(self, *, cut: bool) -> None:
        self._say_rest()
        if fault := self._fault(cut=cut):
            filtered = self._choices.finish == "content_filter"
            self._end_failed(failure("invalid_prompt" if filtered else "server_error", fault))
            return
        for delta in self._order.settle(cut=cut):
            self._writer.say(delta)
        self._writer.settle(cut=cut)

    def _fault(self, *, cut: bool) -> str:
        """Why the turn cannot complete; empty if it can."""
        if self._order.lacks_name(cut=cut):
            return "The upstream called a tool without a name."
        order, finish = self._order, self._choices.finish or "completed"
        if fault := self._writer.fault(finish, order.lack_value, answered=order.answered):
            return fault
        return "The upstream wrote no summary." if self._writer.seeks_summary else ""

    def _abandon(self) -> None:
        self._order.abandon()
        self._writer.abandon()

    def _end_failed(self, error: ErrorObject) -> None:
        self._evidence.note("failed", error.code)
        self.error = error
        self._abandon()
        self._writer.report(error, self._usage)

    @property
    def _usage(self) -> Counts | None:
        return merged(self._counts, counts(self.latest))
