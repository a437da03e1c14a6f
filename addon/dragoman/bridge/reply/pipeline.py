"""The stages of a bridged reply, composed: ``bytes -> sse -> repair -> bridge -> frames``.

Streams that are live, replies that came whole and the replay of a recorded flow all run
this.  There is no verbatim to fall back on: after a fault of a stage, which whoever runs
this hears of as an exception, `fail` gives the client its one terminal, `response.failed`,
and whatever still comes from the upstream is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...repair.chat_stream import ChatStreamRepair
from ...repair.formats import AUTO
from ...wire.body_form import BodyForm
from ...wire.chat_end import broken_off, error_frame
from ...wire.chat_text import let_go
from ...wire.json_codec import NotJson
from ...wire.json_slices import reading
from ...wire.slices import Slices
from ...wire.sse import Frame, FrameSplitter, is_event_stream, split
from .converter import ReplyConverter
from .whole_body import as_stream, is_completion

Tell = Callable[[list[Frame]], object] | None
"""Takes the frames of a reply as they come of it; None where they are not wanted."""
_ENDED = object()


class BridgePipeline:
    """What returns frames returns those that leave now."""

    def __init__(
        self,
        reply: ReplyConverter,
        repair: ChatStreamRepair | None,
        *,
        labelled: bool = True,
        max_document: int = 0,
    ) -> None:
        """`reply` has not begun.  `repair`: None if it is not to be repaired.  `labelled`,
        `max_document`: see `BodyForm`."""
        self._reply = reply
        self._repair = repair
        self._form = BodyForm(labelled=labelled, max_document=max_document)
        self._splitter = FrameSplitter()
        self._out: list[Frame] = []
        """What leaves now."""
        self.document: bytes | None = None
        """The upstream's reply, where it has ended and is no event stream: to be read."""

    def open(self) -> list[Frame]:
        """The start of the client's reply."""
        return self._reply.open()

    def heartbeat(self) -> list[Frame]:
        """What keeps a client from giving up during a silence."""
        return self._reply.heartbeat()

    def feed(self, data: bytes) -> list[Frame]:
        """A piece of the upstream's body."""
        if self._form.streams:
            self._take(self._splitter.feed(data))
        else:
            self._take(self._splitter.feed(self._form.feed(data)))
            if self._form.too_large:
                self._form.document()
                return self.fail("The upstream's answer is too large.")
        return self.leaving()

    def close(self) -> list[Frame]:
        """The upstream's body has ended."""
        self.document = self._form.document()
        if self.document is None:
            self._take(self._splitter.feed(self._form.close()) + self._splitter.close())
            self._out += self._reply.close(self._held())
        return self.leaving()

    def conclude(self) -> list[Frame]:
        """The turn is over, and no end of the body is waited for any more."""
        self._out += self._reply.close(self._held())
        return self.leaving()

    def give_up(self, error: str) -> list[Frame]:
        """The upstream broke off.  After a fault in this, `fail` with the same words."""
        last = error_frame(broken_off(error))
        self._out += self._reply.close(self._repair.feed(last) if self._repair else [last])
        return self.leaving()

    def fail(self, message: str) -> list[Frame]:
        """A fault, of the upstream or in a stage: the end of the reply, if it has none yet."""
        self._out += self._reply.fail("server_error", message)
        return self.leaving()

    def _held(self) -> Sequence[Frame]:
        return self._repair.close() if self._repair else ()

    def _take(self, frames: list[Frame]) -> None:
        reply, repair = self._reply, self._repair
        for frame in frames:
            if repair is None:
                self._out += reply.feed(frame)
            else:
                self._out += reply.feed_repaired(repair.feed(frame), frame)

    def leaving(self) -> list[Frame]:
        out, self._out = self._out, []
        return out

    # A reply that came whole, in slices

    def reading_whole(self, body: bytes, tell: Tell) -> Slices[None]:
        """The whole reply, from its start to its end.

        The body is a ``chat.completion``, or, from an upstream that streams whatever it is
        asked for, an event stream; what is neither fails the turn.
        """
        if tell is not None:
            tell(self.open())
        if is_event_stream(body):
            yield from self._feeding(split(body), tell)
        else:
            yield from self.reading_document(body, tell)

    def reading_document(self, body: bytes, tell: Tell) -> Slices[None]:
        """A body that is no event stream, once the reply is open."""
        try:
            value = yield from reading(body)
        except NotJson:
            frames = self._reply.fail("server_error", "The upstream's answer is not JSON.")
            if tell is not None:
                tell(frames)
            return
        marked = self._repair is not None and is_completion(value)
        if marked and (yield from AUTO.widest.holding_marker(body)):
            yield from self._feeding(as_stream(value), tell)
        else:
            yield from self._telling(self._reply.message(value), tell)
        yield from let_go(value)

    def _feeding(self, arrived: Iterable[Frame], tell: Tell) -> Slices[None]:
        for frame in arrived:
            repaired = self._repair.feed(frame) if self._repair else [frame]
            yield from self._telling(self._reply.taking(repaired, frame), tell)
        yield from self._telling(self._reply.closing(self._held()), tell)

    def _telling(self, work: Slices[None], tell: Tell) -> Slices[None]:
        working = True
        while working:
            working = next(work, _ENDED) is not _ENDED
            if tell is None:
                self._reply.forget()
            else:
                tell((yield from self._reply.draining()))
            yield
