"""The reply of one bridged turn: what its upstream says in, events of the client's API out.

`words -> one turn -> in order -> writer of the client's API`.
What a frame says is written at once, but for what has to wait for an open call.  When the turn is
over is decided in `end_of_turn.py`.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ...notes import Evidence
from ...reply.parts_in_order import PartsInOrder
from ...reply.words import Delta, Done, Failed, Finish, Other, Part, Said
from ...wire.errors import ErrorObject, failure, known_error
from ...wire.json_codec import Json
from ...wire.reply_bounds import MAX_EMPTY, MAX_REPLY, Budget
from ...wire.sse import NOT_JSON, Frame
from ...wire.usage import counts
from .choices import Choices, OneTurn
from .end_of_turn import EndOfTurn
from .reply_writer import ReplyWriter, say


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
        self.budget = Budget()
        """What the turn has spent."""
        self._order = PartsInOrder(names, evidence, self.budget)
        calls = not writer.seeks_summary
        choices = Choices(evidence)
        self._turn = OneTurn(
            choices, evidence, self.budget, thinks=thinks, calls=calls, mixes=mixes
        )
        self.end = EndOfTurn(writer, choices, self._turn, self._order, evidence)
        self._empty = 0
        """Bytes since the last text or call."""

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
            before = self.budget.size
            self.end.has_choices = True
            if counted is not None:
                self.end.latest = counted
            for delta in turn.more(part, text):
                for each in order.take(delta):
                    writer.say(each)
            self._bound(frame, before)

    def take(self, said: Said, words: Sequence[Delta]) -> None:
        """Any other frame, of which these words leave."""
        frame = said.frame
        if self._may_write():
            before = self.budget.size
            if frame.whole:
                self._take(said, words)
            else:
                self._evidence.note("skipped", "part of an event too large to read")
            self._bound(frame, before, said)

    def count(self, counted: Json | None) -> None:
        """The value of a frame with a usage."""
        if counted is not None:
            self.end.latest = counted

    def skipped_heads(self, count: int) -> None:
        """So many heads of calls were repeated, and began none."""
        self._evidence.note("skipped", "head of a call like the one before", count)

    def _bound(self, frame: Frame, before: int, said: Said | None = None) -> None:
        """Fail a turn that is too large, or empty for too long, after a frame, which may be `said`
        to have something that repair holds."""
        size = self.budget.size
        says = size != before or (said is not None and said.held)
        self._empty = 0 if says else self._empty + len(frame.raw)
        if self.writer.ended:
            return
        if self._empty > MAX_EMPTY and frame.whole:
            self.end.fail(failure("server_error", "The upstream sends nothing."))
        elif size > MAX_REPLY:
            self.end.fail(failure("server_error", "The reply is longer than can be kept."))

    def drain(self) -> list[Frame]:
        """What is to be sent, once."""
        return self.writer.events.drain()

    def end_body(self) -> None:
        """No more frames come: text that was held ends no call."""
        self._order.held = True

    def close(self) -> list[Frame]:
        """The upstream has ended, or broken off; a turn that was not whole stays open."""
        self.end_body()
        if self._may_write():
            self.end.closed()
        return self.drain()

    def fail(self, code: str, message: str) -> list[Frame]:
        """The bridge is at fault, or the client cannot be sent a break; a turn that was whole stays
        so."""
        if self._may_write():
            self.end.fail(failure(code, message))
        return self.drain()

    # The upstream's frames

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
            self.end.fail(known_error(first.error or ErrorObject()))
            return
        if value is not None and not isinstance(value, dict):
            self._evidence.note("skipped", "event that is no chunk")
        elif value is not None and (counted := counts(value)) is not None:
            self.end.count(counted)
        self.end.has_choices = self.end.has_choices or said.raw is not None
        for delta in deltas:
            if self.writer.ended:
                return
            self._take_delta(delta)

    def _take_delta(self, delta: Delta) -> None:
        if isinstance(delta, Failed):
            self.end.fail(known_error(delta.error or ErrorObject()))
        elif isinstance(delta, Done):
            self.end.done()
        elif isinstance(delta, Finish):
            self.end.finished(delta)
        else:
            say(self.writer, self._order, self._turn.take(delta))

    def _skip(self, frame: Frame) -> None:
        """A frame that has no value, or the end after those of another API."""
        if frame.is_done:
            self.end.done()
            return
        if frame.fault == NOT_JSON:
            self._evidence.note("skipped", "event that is not JSON")
        elif frame.fault:
            message = f"The upstream's answer is too large: {frame.fault}."
            self.end.fail(failure("server_error", message))
        elif frame.data is not None:
            self._evidence.note("skipped", "event that is no chunk")
