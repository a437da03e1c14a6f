"""The stages of a bridged reply, composed: ``bytes -> sse -> repair -> bridge -> frames``.

Live streams, replies that came whole and the replay of a recorded flow all run this.  After
an exception of a stage the caller has `fail` give the client its one terminal,
`response.failed`, and feeds nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...repair.chat_stream import ChatStreamRepair
from ...repair.formats import AUTO
from ...wire.body_form import BodyForm
from ...wire.chat_end import broken_off, error_frame
from ...wire.chat_text import emptied_completion
from ...wire.errors import error_json, http_error
from ...wire.json_codec import NotJson
from ...wire.json_slices import reading, writing
from ...wire.slices import Slices, drained
from ...wire.sse import Frame, FrameSplitter, is_event_stream, joined, split
from .converter import ReplyConverter
from .whole_body import as_stream, is_completion

Send = Callable[[list[Frame]], object] | None
"""Takes the frames of a reply as they are written; None where they are not wanted."""
_ENDED = object()


class BridgePipeline:
    """Methods that return frames return those that are sent now."""

    def __init__(
        self,
        reply: ReplyConverter,
        repair: ChatStreamRepair | None,
        *,
        labelled: bool = True,
        max_document: int = 0,
    ) -> None:
        """`repair`: None if the reply is not to be repaired.  `labelled`, `max_document`: see
        `BodyForm`."""
        self.reply = reply
        self._events = reply.writer.events
        self._repair = repair
        self._form = BodyForm(labelled=labelled, max_document=max_document)
        self._splitter = FrameSplitter()
        self.document: bytes | None = None
        """The upstream's reply, where it has ended and is no event stream: to be read."""

    def feed(self, data: bytes) -> list[Frame]:
        """A piece of the upstream's body."""
        shortcut = None if self._splitter.held else self.reply.shortcut
        text = shortcut.text_of(data) if shortcut is not None else None
        if shortcut and text and (self._repair is None or self._repair.take_unread(data)):
            shortcut.append(text, data)
        elif self._form.streams:
            self._take(data)
        else:
            self._take(self._form.feed(data))
            if self._form.too_large:
                self._form.document()
                return self.fail("The upstream's answer is too large.")
        return self._events.drain()

    def close(self) -> list[Frame]:
        """The upstream's body has ended."""
        self.document = self._form.document()
        if self.document is not None:
            return []
        self._take(self._form.close())
        for frame in self._splitter.close():
            self._repair_frame(frame)
        return self.conclude()

    def conclude(self) -> list[Frame]:
        """The turn is over; the end of the body is not waited for."""
        return self.reply.close(self._held())

    def give_up(self, error: str) -> list[Frame]:
        """The upstream broke off.  After a fault in this, `fail` with the same words."""
        last = error_frame(broken_off(error))
        return self.reply.close(self._repair.feed(last) if self._repair else [last])

    def fail(self, message: str) -> list[Frame]:
        """A fault, of the upstream or in a stage: the end of the reply, if it has none yet."""
        return self.reply.fail("server_error", message)

    def _held(self) -> Sequence[Frame]:
        return self._repair.close() if self._repair else ()

    def _take(self, data: bytes) -> None:
        for frame in self._splitter.feed(data):
            self._repair_frame(frame)

    def _repair_frame(self, frame: Frame) -> None:
        repaired = [frame] if self._repair is None else self._repair.feed(frame)
        if len(repaired) == 1:
            self.reply.take(repaired[0])
        else:
            drained(self._taking(repaired, frame))

    def _taking(self, repaired: Sequence[Frame], frame: Frame) -> Slices[None]:
        """The frames that repair made of one of the upstream's."""
        if len(repaired) > 1 and frame.is_done:
            yield from self.reply.closing(repaired)
            return
        for each in repaired:
            self.reply.take(each)
            yield

    # A reply that came whole, in slices

    def reading_whole(self, body: bytes, send: Send) -> Slices[None]:
        """The whole reply: a ``chat.completion``, or, from an upstream that always streams, an
        event stream; any other body fails the turn."""
        if send is not None:
            send(self.reply.open())
        if is_event_stream(body):
            yield from self._feeding(split(body), send)
        else:
            yield from self.reading_document(body, send)

    def reading_document(self, body: bytes, send: Send) -> Slices[None]:
        """A body that is no event stream, once the reply is open."""
        try:
            value = yield from reading(body)
        except NotJson:
            frames = self.fail("The upstream's answer is not JSON.")
            if send is not None:
                send(frames)
            return
        may_leak = self._repair is not None and is_completion(value)
        if may_leak and (yield from AUTO.widest.holding_marker(body)):
            yield from self._feeding(as_stream(value), send)
        else:
            yield from self._sending(self.reply.message(value), send)
        yield from emptied_completion(value)

    def _feeding(self, frames: Iterable[Frame], send: Send) -> Slices[None]:
        for frame in frames:
            repaired = self._repair.feed(frame) if self._repair else [frame]
            yield from self._sending(self._taking(repaired, frame), send)
        yield from self._sending(self.reply.closing(self._held()), send)

    def _sending(self, work: Slices[None], send: Send) -> Slices[None]:
        """Send what each step of the work has written."""
        events, works = self._events, True
        while works:
            works = next(work, _ENDED) is not _ENDED
            if send is None:
                events.clear()
            else:
                while events.step():
                    send(events.written())
                    yield
                send(events.written())
            yield


@dataclass(frozen=True, slots=True)
class Answer:
    """The client's reply to an upstream's whole reply."""

    status: int
    body: bytes
    stream: bool = False
    """Whether the body is an event stream; otherwise it is JSON."""
    retry_after: str = ""
    """The header of an error; empty for none."""


def answering(
    reply: ReplyConverter,
    body: bytes,
    *,
    status: int,
    stream: bool,
    retry_after: str = "",
    repair: ChatStreamRepair | None = None,
) -> Slices[Answer]:
    """Convert the upstream's `body`, which came with `status` and the header `retry_after`, for a
    client that asked for a `stream` or did not."""
    if not 200 <= status < 300:
        # To follow a redirect, a client would send there what it sent here.
        error = http_error(status, body, retry_after=retry_after)
        sent = error.status if status >= 400 else 502
        return Answer(sent, error.body, retry_after=error.retry_after)
    frames: list[Frame] = []
    yield from BridgePipeline(reply, repair).reading_whole(body, frames.extend if stream else None)
    if stream:
        return Answer(200, joined(frames), stream=True)
    if reply.error is not None:
        return failed(reply.error.message, code=reply.error.code)
    return Answer(200, (yield from writing(reply.response)))


def failed(message: str, *, code: str = "server_error") -> Answer:
    """The answer where there is no reply to convert."""
    return Answer(502, error_json(message, type="server_error", code=code))
