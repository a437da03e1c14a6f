"""The stream of a bridged reply: ``bytes -> (decoding) -> repair -> bridge -> bytes``.

The stages are composed in `bridge.reply.pipeline`; here is what surrounds them: decoding, the
record, the log and the clock.  After a fault the client gets its one terminal,
`response.failed`, and whatever still comes from the upstream is ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ...bridge.reply.converter import ReplyConverter
from ...bridge.reply.pipeline import BridgePipeline
from ...repair.chat_stream import ChatStreamRepair
from ...wire.chat_end import broken_off
from ...wire.slices import Slices, drained
from ...wire.sse import Frame, joined
from ..content_decoding import MAX_REPLY, Decoder
from ..observe.recorder import FlowRecorder
from .live_stream import LiveStream

logger = logging.getLogger(__name__)

SENT_AT_ONCE = 1024 * 1024
"""Bytes, about, after which other flows run: to pass on more takes mitmproxy its time."""
_ENDED = object()
UPSTREAM_END = 0.1
"""Seconds after its terminal event for which a reply waits for the end of the upstream's: of a
connection on which that comes, another request can be sent.  Hosts that send it do so at once."""
TURN_END = 3.0
"""Seconds after the finish reason for which a turn waits for its usage and the end of the
stream.  Hosts that send them do so at once; openai-python would wait for minutes."""


class BridgeStream(LiveStream):
    """The stream of a bridged reply."""

    def __init__(
        self,
        reply: ReplyConverter,
        repair: ChatStreamRepair | None,
        decoder: Decoder | None,
        *,
        name: str,
        record: FlowRecorder,
        heartbeat: float,
        labelled: bool,
        keeps: bool,
        waits: bool,
    ) -> None:
        """`labelled`: whether the upstream says that it sends an event stream.  `keeps`: the
        reply has to be kept before the client receives its end.  `waits`: what takes long
        is `slow_work`."""
        super().__init__(name, record, heartbeat, decoder)
        self.reply = reply
        self._events = reply.writer.events
        self._events.waits, self._events.holds_end = waits, keeps
        self._waits = waits
        self._reading: Slices[None] | None = None
        """Of the document."""
        self._waiting: list[Frame] = []
        """Frames that are sent next."""
        self._waiting_size = 0
        """Bytes of these."""
        self._pipeline = BridgePipeline(reply, repair, labelled=labelled, max_document=MAX_REPLY)

    def _feed(self, plain: bytes) -> bytes:
        try:
            frames = self._pipeline.feed(plain)
        except Exception:
            frames = self._fault("Dragoman could not convert the upstream's reply.")
        if self.reply.settled and (frames or self.ends_at is None):
            self.ends_at = time.monotonic() + TURN_END
        return self._leaving(frames)

    def _close(self) -> bytes:
        frames: list[Frame] = []
        try:
            if not self.reply.writer.ended:
                frames += self._pipeline.close()
                self._document = self._pipeline.document
            if self._document is not None and not self._waits:
                document, self._document = self._document, None
                drained(self._pipeline.reading_document(document, frames.extend))
        except Exception:
            frames += self._fault("Dragoman could not convert the upstream's reply.")
        return self._leaving(frames)

    def _undecodable(self, error: str) -> bytes:
        logger.error("%s: upstream's compressed body is unusable: %s", self._name, error)
        error = f"The upstream's compressed body is unusable: {error}."
        return self._leaving(self._failed(error))

    def _unsent(self) -> bytes:
        return self._leaving([])

    def cancel(self) -> None:
        """End the reply now; `http_stream` sends the end, and ends the upstream's part."""
        self.cancelled = self.cancelled or not self.reply.writer.ended
        self._add_waiting(self.reply.cancel())
        self._end()

    @property
    def has_slow_work(self) -> bool:
        document = self._document is not None or self._reading is not None
        return document or self._events.has_more or bool(self._waiting)

    def slow_work(self) -> Slices[None]:
        if self._document is not None and not self.reply.writer.ended:
            self._reading = self._pipeline.reading_document(self._document, self._add_waiting)
        self._document = None
        try:
            while self._step() and self._waiting_size < SENT_AT_ONCE:
                yield
        except Exception:
            self._reading = None
            self._waiting += self._fault("Dragoman could not convert the upstream's reply.")

    def _add_waiting(self, frames: list[Frame]) -> None:
        self._waiting += frames
        self._waiting_size += sum(len(frame.raw) for frame in frames)

    def _step(self) -> bool:
        """Read or write a little; returns whether there is more."""
        if self._reading is None:
            self._events.step()
            self._add_waiting(self._events.written())
        elif next(self._reading, _ENDED) is _ENDED:
            self._reading = None
        return self._reading is not None or self._events.has_more

    def slow_output(self) -> bytes:
        sent = self._leaving([])
        self._sent_at = time.monotonic()
        self._record.reply.add(b"", sent)
        return sent

    def drop_slow_work(self) -> None:
        self._document = self._reading = None
        self._waiting.clear()
        self._events.clear()

    @property
    def holds_end(self) -> bool:
        return bool(self._events.end)

    def release_end(self) -> bytes:
        self._events.release_end()
        return self._recorded(self._leaving(self._events.drain()))

    def opening(self) -> bytes:
        self.started = True
        return self._written(self.reply.open)

    def heartbeat(self) -> bytes:
        return self._written(self.reply.heartbeat)

    def conclude(self) -> bytes:
        if self.reply.writer.ended:
            return self._recorded(b"")
        self._record.evidence.note("inferred", "end of a stream that its host held open")
        return self._written(self._pipeline.conclude)

    def break_off(self, error: str) -> bytes:
        frames: list[Frame] = []
        try:
            if not self.reply.writer.ended:
                frames += self._pipeline.give_up(error)
        except Exception:
            logger.exception("%s: what was held is lost", self._name)
        frames += self._failed(broken_off(error))
        return self._recorded(self._leaving(frames))

    def _written(self, write: Callable[[], list[Frame]]) -> bytes:
        """What is sent while the upstream is silent."""
        try:
            frames = write()
        except Exception:
            frames = self._fault("Dragoman could not write the reply.")
        return self._recorded(self._leaving(frames))

    def _leaving(self, frames: list[Frame]) -> bytes:
        """`frames`, after what waits to be sent before them."""
        if self.reply.writer.ended and not self._over:
            self._end()
        if self._waiting:
            frames = self._waiting + frames
            self._waiting, self._waiting_size = [], 0
        events, ends = self._events, self.ends_at is not None
        self.needs_attention = (
            ends or events.has_more or bool(events.end) or self._document is not None
        )
        return frames[0].raw if len(frames) == 1 else joined(frames)

    def _end(self) -> None:
        self._over = True
        self.ends_at = time.monotonic() + UPSTREAM_END

    def _fault(self, message: str) -> list[Frame]:
        """The end of the reply after a fault of ours."""
        logger.exception("%s: the bridge failed", self._name)
        return self._failed(message)

    def _failed(self, message: str) -> list[Frame]:
        try:
            return self._pipeline.fail(message)
        except Exception:
            logger.exception("%s: not even the failure could be sent", self._name)
            return self.reply.drain()
