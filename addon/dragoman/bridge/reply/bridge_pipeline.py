"""The stages of a bridged reply, composed once, whatever the APIs of its two sides:
``bytes -> sse -> reader | repair | one turn | in order | writer -> frames``.

Live streams, replies that came whole and the replay of a recorded flow all run this.  A reply that
its upstream breaks off is broken off for the client, after what was held: clients ask again then,
and some give up after `response.failed`.  After an exception of a stage the caller has `fail` give
the client that terminal, and feeds nothing more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...chat.delta import by_choice
from ...reply.facts import TurnReader
from ...reply.frame_queue import QueuedRepair
from ...reply.stage import Steps, at_once
from ...reply.words import Reader
from ...wire.body_form import BodyForm
from ...wire.chat_end import EARLY, broken_off
from ...wire.errors import ErrorForm, ErrorObject, failure
from ...wire.json_codec import dumps_in_steps
from ...wire.sse import (
    DONE,
    LARGE,
    NOT_JSON,
    Document,
    Frame,
    FrameSplitter,
    is_event_stream,
    joined,
    split,
)
from ..reader_writer_pairs import bridge_stage, turn_reader
from .converter import ReplyConverter

_AT_ONCE = 512
"""Frames that are read before other flows run: 64 kB, as they come in one piece, may be 6,000."""
_DONE = 256
"""Bytes of a frame that may be ``[DONE]``: it may have other lines."""


class BridgePipeline:
    """Methods that return frames return those that are sent now."""

    def __init__(
        self,
        reply: ReplyConverter,
        repair: QueuedRepair | None,
        *,
        reader: Reader | None = None,
        labelled: bool = True,
        max_document: int = 0,
        breaks: bool = True,
    ) -> None:
        """`repair`: None if the reply is not to be repaired: then `reader` reads it; without, it is
        Chat Completions.  `labelled`, `max_document`: see
        `BodyForm`.  `breaks`: whether the client's reply can be broken off; otherwise a break is an
        error of the client's API."""
        self.reply = reply
        self._events = reply.writer.events
        self.read = turn_reader()
        """Of what the upstream said, and of what it became."""
        self._stage = bridge_stage(reply, repair, reader, self.read)
        self._breaks = breaks
        self._form = BodyForm(labelled=labelled, max_document=max_document)
        self._splitter = FrameSplitter()
        self._unread: deque[Frame] = deque()
        self._steps: Steps[list[Frame]] | None = None
        """The reading of a large one that has begun."""
        self.waits = False
        """Whether frames wait to be read: `feed` returns after each large one, and other flows may
        run.  The next call goes on, with a piece or none."""
        self.broken = ""
        """Why the client's reply has to break off now; empty if it need not."""
        self.early = False
        """Whether it does, if so, as the upstream's body has ended before its turn."""

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

    def document(self) -> Steps[list[Frame]] | None:
        """Once the upstream's body has ended: the conversion of one that is no event stream."""
        document = self._form.document()
        return None if document is None else self._convert_document(document)

    def close(self) -> list[Frame]:
        """The upstream's body has ended."""
        if (document := self.document()) is not None:
            return at_once(document)
        self._take(self._form.close())
        self._work_all(self._splitter.close())
        self.early = True
        return self.conclude() if self.reply.turn_end.settled else self._break_off(EARLY)

    def conclude(self) -> list[Frame]:
        """The turn is over; the end of the body is not waited for."""
        self.early = True
        return self._end(self._stage.close, EARLY)

    def give_up(self, error: str) -> list[Frame]:
        """The upstream broke off."""
        self._work_all()
        return self._break_off(broken_off(error))

    def _break_off(self, error: str) -> list[Frame]:
        return self._end(self._stage.break_off, error)

    def _end(self, end: Callable[[], object], error: str) -> list[Frame]:
        """What was held, and the end; the `error` of a turn that is not whole: what was held may
        have brought another choice, which has not ended."""
        self.reply.end_body()
        self._finish_large()
        end()
        frames = self.reply.close()
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

    def _take(self, data: bytes) -> None:
        self._unread.extend(self._splitter.feed(data))
        self._work()

    def _work(self) -> None:
        """Read frames, some hundreds at most: a large one alone, and none after a large event has
        been written."""
        events, self.waits, read = self._events, False, 0
        if self._steps is not None:
            self._step(self._steps)
            return
        while self._unread:
            first = self._unread[0]
            large = len(first.raw) > LARGE or isinstance(first, Document)
            if (large and read) or read >= _AT_ONCE:
                self.waits = True
                return
            frame, read = self._unread.popleft(), read + 1
            if len(frame.raw) < _DONE and b"[DONE]" in frame.raw and frame.is_done:
                self.reply.end_body()
            if large:
                self._step(self._stage.steps(frame))
                return
            self._stage.feed(frame)
            if events.frames and len(events.frames[-1].raw) > LARGE:
                self.waits = bool(self._unread)
                return

    def _step(self, steps: Steps[list[Frame]]) -> None:
        """A step of the reading of a large frame."""
        self._steps, self.waits = steps, True
        try:
            next(steps)
        except StopIteration:
            self._steps, self.waits = None, bool(self._unread)

    def _finish_large(self) -> None:
        while self._steps is not None:
            self._step(self._steps)

    def _work_all(self, frames: Iterable[Frame] = ()) -> None:
        """Read what waits, and these."""
        at_once(self._work_in_steps(frames))

    def _work_in_steps(self, frames: Iterable[Frame]) -> Steps[None]:
        for frame in frames:
            self._unread.append(frame)
            self._work()
            yield
        while self.waits:
            self._work()
            yield

    # A reply that came whole

    def convert(self, body: bytes) -> Steps[list[Frame]]:
        """The whole reply: a ``chat.completion``, or, from an upstream that always streams, an
        event stream; any other body fails the turn.  Other flows may run where it yields."""
        frames = self.reply.open()
        if not is_event_stream(body):
            return frames + (yield from self._convert_document(body))
        yield from self._work_in_steps(split(body))
        return frames + self.conclude()

    def _convert_document(self, body: bytes) -> Steps[list[Frame]]:
        """A body that is no event stream, once the reply is open: each of its choices is one chunk,
        which repair may replace by several."""
        self.read.whole(len(body))
        document = Document(body)
        yield from document.read()
        value, frames = document.json, [document]
        if document.fault == NOT_JSON:
            return self.fail("The upstream's answer is not JSON.")
        if not document.fault:
            frames = [Document(value=each) for each in by_choice(value)]
        yield
        yield from self._work_in_steps([*frames, DONE])
        return self._events.drain()


@dataclass(frozen=True, slots=True)
class Answer:
    """The client's reply to an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""
    retry_after: str = ""
    """The header of an error; empty for none."""
    read: TurnReader | None = field(default=None, compare=False)
    """The facts of the upstream's reply, where that was converted."""


def answer(
    reply: ReplyConverter,
    body: bytes,
    *,
    status: int,
    stream: bool,
    retry_after: str = "",
    repair: QueuedRepair | None = None,
) -> Steps[Answer]:
    """Convert the upstream's `body`, which came with `status` and the header `retry_after`, for a
    client that asked for a `stream` or did not.  Other flows may run where it yields."""
    errors = reply.writer.errors
    if not 200 <= status < 300:
        # To follow a redirect, a client would send there what it sent here.
        error = errors.of_host(status, body, retry_after=retry_after)
        sent = error.status if status >= 400 else 502
        return Answer(sent, error.body, retry_after=error.retry_after)
    if stream and not body.strip():
        return failed(errors, EARLY)
    reply.writer.events.wanted = stream
    pipeline = BridgePipeline(reply, repair)
    frames = yield from pipeline.convert(body)
    yield
    if not reply.writer.ended:
        return failed(errors, EARLY)
    if stream:
        return Answer(200, joined(frames), stream=True, read=pipeline.read)
    if reply.turn_end.error is not None:
        return _failed(errors, reply.turn_end.error)
    return Answer(200, (yield from dumps_in_steps(reply.response)), read=pipeline.read)


def failed(errors: ErrorForm, message: str) -> Answer:
    """The answer where there is no reply to convert."""
    return _failed(errors, failure("server_error", message))


def _failed(errors: ErrorForm, error: ErrorObject) -> Answer:
    made = errors.of_turn(error)
    return Answer(made.status, made.body)
