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
        reply has to be kept before the client receives its end.  `waits`: its end waits
        until a document has been read (`LiveStream.reading`)."""
        super().__init__(name, record, heartbeat, decoder)
        self.reply = reply
        self._keeps = keeps
        self._waits = waits
        self._read: list[Frame] = []
        """The frames made of the document."""
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
        self._held += joined(self.reply.cancel())

    def reading(self) -> Slices[None]:
        document, self._document = self._document, None
        try:
            if document is not None and not self.reply.writer.ended:
                yield from self._pipeline.reading_document(document, self._read.extend)
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(self._read, "Dragoman could not convert the upstream's reply.")

    def what_was_read(self) -> bytes:
        out, self._read = self._read, []
        if self.cancelled:  # its end is in `_held` already, and has not been sent
            self._held = joined(out) + self._held
            return b""
        sent = self._leaving(out)
        self._record.left(sent)
        return sent

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
        """What is sent of `out`: not the end of a reply that is to be kept first."""
        if self.reply.writer.ended and not self._over:
            self._over = True
            self.ends_at = time.monotonic() + UPSTREAM_END
        if not self._keeps:
            # The end of a cancelled reply, which nothing else sends then.
            end, self._held = self._held, b""
            return end + joined(out)
        if out and self.reply.writer.end_frames:
            begins = len(out) - self.reply.writer.end_frames
            self._held += joined(out[begins:])
            out = out[:begins]
        return joined(out)

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
