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
from ..content_decoding import MAX_REPLY, Decoder, DecodingError
from ..observe.recorder import FlowRecorder
from .live_stream import LiveStream, decoded

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
        is done in `reading`."""
        super().__init__(name, record, heartbeat, decoder)
        self.reply = reply
        self._events = reply.writer.events
        self._events.waits, self._events.holds_end = waits, keeps
        self._waits = waits
        self._reading: Slices[None] | None = None
        """Of the document."""
        self._read: list[Frame] = []
        """Frames that are sent next."""
        self._size = 0
        """Bytes of these."""
        self._over = False
        self._pipeline = BridgePipeline(reply, repair, labelled=labelled, max_document=MAX_REPLY)

    def _feed(self, data: bytes) -> bytes:
        out: list[Frame] = []
        try:
            if not (self._over or self.cancelled):
                self._convert(data, out)
        except DecodingError as error:
            logger.error("%s: upstream's compressed body is unusable: %s", self._name, error)
            self._fail(out, f"The upstream's compressed body is unusable: {error}.")
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(out, "Dragoman could not convert the upstream's reply.")
        if self.reply.settled and (out or self.ends_at is None):
            self.ends_at = time.monotonic() + TURN_END
        return self._leaving(out)

    def _convert(self, data: bytes, out: list[Frame]) -> None:
        for plain in decoded(self._decoder, data, self._name):
            self._record.came(plain)
            out += self._pipeline.feed(plain)
        if data or self.reply.writer.ended:
            return
        out += self._pipeline.close()
        document = self._pipeline.document
        if document is not None and self._waits:
            self._document = document
        elif document is not None:
            drained(self._pipeline.reading_document(document, out.extend))

    def cancel(self) -> None:
        """End the reply now; `http_stream` sends the end, and ends the upstream's part."""
        self.cancelled = self.cancelled or not self.reply.writer.ended
        self._take(self.reply.cancel())

    @property
    def unread(self) -> bool:
        document = self._document is not None or self._reading is not None
        return document or self._events.has_more or bool(self._read)

    def reading(self) -> Slices[None]:
        if self._document is not None and not self.reply.writer.ended:
            self._reading = self._pipeline.reading_document(self._document, self._take)
        self._document = None
        try:
            while self._step() and self._size < SENT_AT_ONCE:
                yield
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._reading = None
            self._fail(self._read, "Dragoman could not convert the upstream's reply.")

    def _take(self, frames: list[Frame]) -> None:
        self._read += frames
        self._size += sum(len(frame.raw) for frame in frames)

    def _step(self) -> bool:
        """Read or write a little; returns whether there is more."""
        if self._reading is None:
            self._events.step()
            self._take(self._events.written())
        elif next(self._reading, _ENDED) is _ENDED:
            self._reading = None
        return self._reading is not None or self._events.has_more

    def what_was_read(self) -> bytes:
        sent = self._leaving([])
        self._sent_at = time.monotonic()
        self._record.left(sent)
        return sent

    def leave(self) -> None:
        self._document = self._reading = None
        self._read.clear()
        self._events.clear()

    @property
    def unkept(self) -> bool:
        return bool(self._events.end)

    def end(self) -> bytes:
        self._events.release_end()
        return self._recorded(self._leaving(self._events.drain()))

    def opening(self) -> bytes:
        self.began = True
        return self._recorded(self._written(self.reply.open))

    def heartbeat(self) -> bytes:
        return self._recorded(self._written(self.reply.heartbeat))

    def conclusion(self) -> bytes:
        if self.reply.writer.ended:
            return self._recorded(b"")
        self._record.evidence.note("inferred", "end of a stream that its host held open")
        return self._recorded(self._written(self._pipeline.conclude))

    def last_word(self, error: str) -> bytes:
        out: list[Frame] = []
        try:
            if not self.reply.writer.ended:
                out += self._pipeline.give_up(error)
        except Exception:
            logger.exception("%s: what was held is lost", self._name)
        self._fail(out, broken_off(error))
        return self._recorded(self._leaving(out))

    def _leaving(self, out: list[Frame]) -> bytes:
        """`out`, after what is sent before it."""
        if self.reply.writer.ended and not self._over:
            self._over = True
            self.ends_at = time.monotonic() + UPSTREAM_END
        before, self._read, self._size = self._read, [], 0
        return joined(before + out) if before else joined(out)

    def _written(self, write: Callable[[], list[Frame]]) -> bytes:
        out: list[Frame] = []
        try:
            out = write()
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(out, "Dragoman could not write the reply.")
        return self._leaving(out)

    def _fail(self, out: list[Frame], message: str) -> None:
        try:
            out += self._pipeline.fail(message)
        except Exception:
            logger.exception("%s: not even the failure could be sent", self._name)
            out += self.reply.drain()
