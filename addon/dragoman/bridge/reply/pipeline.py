"""The stages of a bridged reply, composed: ``bytes -> sse -> repair -> bridge -> frames``.

Live streams, replies that came whole and the replay of a recorded flow all run this.  A reply that
its upstream breaks off is broken off for the client, after what was held: clients ask again then,
and some give up after `response.failed`.  After an exception of a stage the caller has `fail` give
the client that terminal, and feeds nothing more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...repair.stage import RepairStage
from ...wire.body_form import BodyForm
from ...wire.chat_end import EARLY, broken_off
from ...wire.errors import ErrorForm, ErrorObject, failure
from ...wire.json_codec import NotJson, dumps
from ...wire.reply_bounds import TooMany
from ...wire.sse import (
    DONE,
    LARGE,
    Document,
    Frame,
    FrameSplitter,
    is_event_stream,
    joined,
    split,
)
from ..read_reply import turn_reader
from .converter import ReplyConverter


class BridgePipeline:
    """Methods that return frames return those that are sent now."""

    def __init__(
        self,
        reply: ReplyConverter,
        repair: RepairStage | None,
        *,
        labelled: bool = True,
        max_document: int = 0,
        breaks: bool = True,
    ) -> None:
        """`repair`: None if the reply is not to be repaired.  `labelled`, `max_document`: see
        `BodyForm`.  `breaks`: whether the client's reply can be broken off; otherwise a break is
        `response.failed`."""
        self.reply = reply
        self._events = reply.writer.events
        self._repair = repair or RepairStage()
        self._breaks = breaks
        self._form = BodyForm(labelled=labelled, max_document=max_document)
        self._splitter = FrameSplitter()
        self._unrepaired: deque[Frame] = deque()
        self._unconverted: list[Frame] = []
        """What repair has made of a large frame."""
        self.waits = False
        """Whether frames wait to be repaired or converted: `feed` returns within the work on each
        large one, and other flows may run.  The next call goes on, with a piece or none."""
        self.read = turn_reader()
        """Of the chunks of the upstream's reply, as they came and as they were repaired."""
        self.broken = ""
        """Why the client's reply has to break off now; empty if it need not."""

    def feed(self, data: bytes) -> list[Frame]:
        """A piece of the upstream's body, or none: see `waits`."""
        if self._form.streams:
            self._take(data)
        else:
            self._take(self._form.feed(data))
            if self._form.too_large:
                self._form.document()
                return self.fail("The upstream's answer is too large.")
        return self._events.drain()

    def close(self) -> list[Frame]:
        """The upstream's body has ended."""
        if (document := self._form.document()) is not None:
            return self.convert_document(document)
        self._take(self._form.close())
        self._work_all(self._splitter.close())
        return self.conclude() if self.reply.settled else self._break_off(EARLY)

    def conclude(self) -> list[Frame]:
        """The turn is over; the end of the body is not waited for."""
        return self.reply.close(self._held())

    def give_up(self, error: str) -> list[Frame]:
        """The upstream broke off."""
        self._work_all()
        return self._break_off(broken_off(error))

    def _break_off(self, error: str) -> list[Frame]:
        frames = self.reply.close(self._repair.break_off())
        if self.reply.writer.ended:
            return frames
        if not self._breaks:
            return frames + self.fail(error)
        self.broken = error
        return frames

    def fail(self, message: str) -> list[Frame]:
        """A fault in a stage, or a reply that cannot be read: the end of the client's, if it has
        none yet."""
        return self.reply.fail("server_error", message)

    def _held(self) -> Sequence[Frame]:
        held = self._repair.close()
        self.read.take(None, held)
        return held

    def _take(self, data: bytes) -> None:
        self._unrepaired.extend(self._splitter.feed(data))
        self._work()

    def _work(self) -> None:
        """Repair and convert frames, until one has been large or has had a large event written."""
        events, self.waits = self._events, False
        while self._unconverted or self._unrepaired:
            repaired, self._unconverted = self._unconverted, []
            if not repaired:
                frame = self._unrepaired.popleft()
                repaired = self._repair.feed(frame)
                self.read.take(frame, repaired)
                if len(frame.raw) > LARGE:
                    self._unconverted, self.waits = repaired, True
                    return
                if len(repaired) > 1 and frame.is_done:
                    self.reply.take_last(repaired)
                    continue
            for each in repaired:
                self.reply.take(each)
            if events.frames and len(events.frames[-1].raw) > LARGE:
                self.waits = bool(self._unrepaired)
                return

    def _work_all(self, frames: Iterable[Frame] = ()) -> None:
        """Repair and convert what waits, and these."""
        for frame in frames:
            self._unrepaired.append(frame)
            self._work()
        while self.waits:
            self._work()

    # A reply that came whole

    def convert(self, body: bytes) -> list[Frame]:
        """The whole reply: a ``chat.completion``, or, from an upstream that always streams, an
        event stream; any other body fails the turn."""
        frames = self.reply.open()
        if not is_event_stream(body):
            return frames + self.convert_document(body)
        self._work_all(split(body))
        return frames + self.conclude()

    def convert_document(self, body: bytes) -> list[Frame]:
        """A body that is no event stream, once the reply is open: each of its choices is one chunk,
        which repair may replace by several."""
        document = Document(body)
        try:
            frames = [Document(value=each) for each in by_choice(document.value)]
        except TooMany:
            frames = [document]
        except NotJson:
            return self.fail("The upstream's answer is not JSON.")
        self._work_all([*frames, DONE])
        return self._events.drain()


def by_choice(completion: Any) -> list[Any]:
    """A completion of several choices as one for each of them."""
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list) or len(choices) < 2:
        return [completion]
    return [
        completion | {"choices": [{"index": at} | value if isinstance(value, dict) else value]}
        for at, value in enumerate(choices)
    ]


@dataclass(frozen=True, slots=True)
class Answer:
    """The client's reply to an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""
    retry_after: str = ""
    """The header of an error; empty for none."""


def answer(
    reply: ReplyConverter,
    body: bytes,
    *,
    status: int,
    stream: bool,
    retry_after: str = "",
    repair: RepairStage | None = None,
) -> Answer:
    """Convert the upstream's `body`, which came with `status` and the header `retry_after`, for a
    client that asked for a `stream` or did not."""
    errors = reply.writer.errors
    if not 200 <= status < 300:
        # To follow a redirect, a client would send there what it sent here.
        error = errors.of_host(status, body, retry_after=retry_after)
        sent = error.status if status >= 400 else 502
        return Answer(sent, error.body, retry_after=error.retry_after)
    if stream and not body.strip():
        return failed(errors, EARLY)
    reply.writer.events.wanted = stream
    frames = BridgePipeline(reply, repair).convert(body)
    if not reply.writer.ended:
        return failed(errors, EARLY)
    if stream:
        return Answer(200, joined(frames), stream=True)
    if reply.error is not None:
        return _failed(errors, reply.error)
    return Answer(200, dumps(reply.response))


def failed(errors: ErrorForm, message: str) -> Answer:
    """The answer where there is no reply to convert."""
    return _failed(errors, failure("server_error", message))


def _failed(errors: ErrorForm, error: ErrorObject) -> Answer:
    made = errors.of_turn(error)
    return Answer(made.status, made.body)
