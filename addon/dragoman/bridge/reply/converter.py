"""The reply of one bridged turn: what its upstream says in, events of the client's API out.

`words -> one turn -> in order -> writer of the client's API`.
What a frame says is written at once, but for what has to wait for an open call.  When the turn is
over is decided in `end_of_turn.py`.  A frame whose words are not all as they were read has no log
probabilities: they spell out the tokens, those of a call included.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from ...notes import Evidence
from ...reply.parts_in_order import PartsInOrder
from ...reply.words import (
    Arguments,
    CallBegin,
    Delta,
    Done,
    Failed,
    Finish,
    Other,
    Part,
    Reader,
    Said,
    Slot,
    Text,
)
from ...wire.errors import ErrorObject, failure, known_error
from ...wire.json_codec import Json
from ...wire.reply_bounds import MAX_EMPTY, MAX_REPLY, Budget
from ...wire.sse import NOT_JSON, Frame
from ...wire.usage import counts
from .choices import Choices, OneTurn
from .end_of_turn import EndOfTurn
from .reply_writer import ReplyWriter, say


class ReplyConverter:
    """One turn's reply: the `Writer` of what leaves repair, in place of that of the upstream's API.
    `drain` gives the events of what was written; `open`, `heartbeat`, `close` and `fail` return
    theirs."""

    reader: Reader
    """That of the upstream's frames."""
    held: Sequence[Said] = ()

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
        self.turn_end = EndOfTurn(writer, choices, self._turn, self._order, evidence)
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

    # The interface of `reply.words.Writer`, whose methods return nothing: events are in a queue

    def passed(self, frame: Frame, part: Part, text: str) -> list[Frame]:
        writer, order, turn = self.writer, self._order, self._turn
        if (writer.started and not writer.ended) or self._may_write():
            before = self.budget.size
            self.turn_end.has_choices = True
            if self.reader.counted is not None:
                self.turn_end.latest = self.reader.counted
            for delta in turn.more(part, text):
                for each in order.take(delta):
                    writer.say(each)
            self._bound(frame, before)
        return []

    def replaced(self, frame: Frame, part: Part) -> list[Frame]:  # noqa: ARG002
        if self.reader.counted is not None:
            self.turn_end.latest = self.reader.counted
        return []

    def write(self, said: Said) -> list[Frame]:
        if not self._may_write():
            return []
        same = said.same
        words = [word for slot in said.slots for word in _left(slot, same=same)]
        before = self.budget.size
        if said.frame.whole:
            self._take(said, words)
        else:
            self._evidence.note("skipped", "part of an event too large to read")
        self._bound(said.frame, before, said)
        for word in words:
            if isinstance(word, Finish | Done) and (repeated := self.reader.take_repeated()):
                self._evidence.note("skipped", "head of a call like the one before", repeated)
        return []

    def end(self, last: Said) -> list[Frame]:
        return self.write(last) if last.slots else []

    def changes(self, said: Said, sent: list[Frame]) -> bool:  # noqa: ARG002
        return True

    def _bound(self, frame: Frame, before: int, said: Said | None = None) -> None:
        """Fail a turn that is too large, or empty for too long, after a frame, which may be `said`
        to have something that repair holds."""
        size = self.budget.size
        says = size != before or (said is not None and said.held)
        self._empty = 0 if says else self._empty + len(frame.raw)
        if self.writer.ended:
            return
        if self._empty > MAX_EMPTY and frame.whole:
            self.turn_end.fail(failure("server_error", "The upstream sends nothing."))
        elif size > MAX_REPLY:
            self.turn_end.fail(failure("server_error", "The reply is longer than can be kept."))

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
            self.turn_end.closed()
        return self.drain()

    def fail(self, code: str, message: str) -> list[Frame]:
        """The bridge is at fault, or the client cannot be sent a break; a turn that was whole stays
        so."""
        if self._may_write():
            self.turn_end.fail(failure(code, message))
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
            self.turn_end.fail(known_error(first.error or ErrorObject()))
            return
        if value is not None and not isinstance(value, dict):
            self._evidence.note("skipped", "event that is no chunk")
        elif value is not None and (counted := counts(value)) is not None:
            self.turn_end.count(counted)
        self.turn_end.has_choices = self.turn_end.has_choices or said.raw is not None
        for delta in deltas:
            if self.writer.ended:
                return
            self._take_delta(delta)

    def _take_delta(self, delta: Delta) -> None:
        if isinstance(delta, Failed):
            self.turn_end.fail(known_error(delta.error or ErrorObject()))
        elif isinstance(delta, Done):
            self.turn_end.done()
        elif isinstance(delta, Finish):
            self.turn_end.finished(delta)
        else:
            say(self.writer, self._order, self._turn.take(delta))

    def _skip(self, frame: Frame) -> None:
        """A frame that has no value, or the end after those of another API."""
        if frame.is_done:
            self.turn_end.done()
            return
        if frame.fault == NOT_JSON:
            self._evidence.note("skipped", "event that is not JSON")
        elif frame.fault:
            message = f"The upstream's answer is too large: {frame.fault}."
            self.turn_end.fail(failure("server_error", message))
        elif frame.data is not None:
            self._evidence.note("skipped", "event that is no chunk")


def _left(slot: Slot, *, same: bool) -> Sequence[Delta]:
    """What leaves in the place of a word; `same`: all words of its frame are."""
    delta = slot.delta
    if slot.same:
        if same or not (isinstance(delta, Text) and delta.logprobs):
            return slot.out
        return [replace(delta, logprobs=())]
    if isinstance(delta, Text) and delta.repeats:
        return [word for word in slot.out if getattr(word, "part", None) is not delta.part]
    if isinstance(delta, CallBegin) and delta.id:
        # Of a call that has begun, arguments leave: its id may have come only now.
        return [
            CallBegin(word.part, delta.id, "", word.text)
            if isinstance(word, Arguments) and word.part is delta.part
            else word
            for word in slot.out
        ]
    return slot.out
