"""The stream of a bridged reply: ``bytes -> (decoding) -> repair -> bridge -> bytes``.

The stages are composed in `bridge.reply.pipeline`; here are what surrounds them (decoding,
the record, the log, the time) and their safety net: after a fault the client gets its one
terminal, `response.failed`, and whatever still comes from the upstream is passed over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

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
        reply is to be kept, and before the client hears of its end.  `waits`: its end waits
        until a document has been read (`LiveStream.reading`)."""
        super().__init__(name, record, heartbeat)
        self._waits = waits
        self._document: bytes | None = None
        self._read: list[Frame] = []
        """What came of the document."""
        self._keeps = keeps
        self._held = b""
        self._cancelled = False
        self._over = False
        self._ends_at: float | None = None
        self._reply = reply
        self._pipeline = BridgePipeline(reply, repair, labelled=labelled, max_document=MAX_REPLY)
        self._decoder = decoder

    def _pass_on(self, data: bytes) -> bytes:
        out: list[Frame] = []
        try:
            if not (self._over or self._cancelled):
                self._run(data, out)
        except DecodingError as error:
            logger.error("%s: upstream's compressed body is unusable: %s", self._name, error)
            self._fail(out, f"The upstream's compressed body is unusable: {error}.")
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(out, "Dragoman could not convert the upstream's reply.")
        if self._reply.settled and (out or self._ends_at is None):
            self._ends_at = time.monotonic() + TURN_END
        return self._given(out)

    @property
    def response(self) -> dict[str, Any]:
        """The response object as it stands."""
        return self._reply.response

    @property
    def cuts(self) -> bytes:
        """What the response does not say about its events; see `Writer.cuts`."""
        return self._reply.cuts

    def cancel(self) -> None:
        """End the reply now; `http_stream` sends the end, and lets go of the upstream."""
        self._cancelled = self._cancelled or not self._reply.finished
        self._held += joined(self._reply.cancel())

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @property
    def unread(self) -> bool:
        return self._document is not None

    def reading(self) -> Slices[None]:
        document, self._document = self._document, None
        try:
            if document is not None and not self._reply.finished:
                tell = self._read.extend
                yield from self._pipeline.reading_document(document, tell)
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(self._read, "Dragoman could not convert the upstream's reply.")

    def what_was_read(self) -> bytes:
        out, self._read = self._read, []
        if self._cancelled:  # its end is told already, and nobody has heard of it
            self._held = joined(out) + self._held
            return b""
        sent = self._given(out)
        self._record.left(sent)
        return sent

    @property
    def ends_at(self) -> float | None:
        return self._ends_at

    def end(self) -> bytes:
        if not self._held:
            return b""
        end, self._held = self._held, b""
        return self._say(end)

    def _given(self, out: list[Frame]) -> bytes:
        """What is sent of `out`: not the end of a reply that is to be kept first."""
        if self._reply.finished and not self._over:
            self._over = True
            self._ends_at = time.monotonic() + UPSTREAM_END
        if not self._keeps:
            # What was said of a cancelled reply, which nobody else sends then.
            said, self._held = self._held, b""
            return said + joined(out)
        begins = len(out) - self._reply.end_frames if out else 0
        self._held += joined(out[begins:])
        return joined(out[:begins])

    def _open(self) -> bytes:
        return self._told(self._pipeline.open)

    def _beat(self) -> bytes:
        return self._told(self._pipeline.heartbeat)

    def _give_up(self, error: str) -> bytes:
        out: list[Frame] = []
        message = broken_off(error)
        try:
            if not self._reply.finished:
                out += self._pipeline.give_up(error)
        except Exception:
            logger.exception("%s: what was held is lost", self._name)
        self._fail(out, message)
        return self._given(out)

    def _conclude(self) -> bytes:
        if self._reply.finished:
            return b""
        self._record.evidence.note("inferred", "end of a stream that its host held open")
        return self._told(self._pipeline.conclude)

    def _told(self, tell: Callable[[], list[Frame]]) -> bytes:
        out: list[Frame] = []
        try:
            out = tell()
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(out, "Dragoman could not write the reply.")
        return self._given(out)

    def _run(self, data: bytes, out: list[Frame]) -> None:
        for plain in decoded(self._decoder, data, self._name):
            self._record.came(plain)
            out += self._pipeline.feed(plain)
        if not data and not self._reply.finished:
            self._close(out)

    def _close(self, out: list[Frame]) -> None:
        out += self._pipeline.close()
        document = self._pipeline.document
        if document is not None and self._waits:
            self._document = document
        elif document is not None:
            drained(self._pipeline.reading_document(document, out.extend))

    def _fail(self, out: list[Frame], message: str) -> None:
        try:
            out += self._pipeline.fail(message)
        except Exception:
            logger.exception("%s: not even the failure could be told", self._name)
            out += self._pipeline.leaving()
