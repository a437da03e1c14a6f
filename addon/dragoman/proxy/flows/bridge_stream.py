"""The stream of a bridged reply: ``bytes -> (decoding) -> repair -> bridge -> bytes``.

The stages are composed in `bridge.reply.pipeline`; here is what surrounds them: decoding, the
record, the log and the clock.  After a fault of ours the client gets its one terminal,
`response.failed`, and whatever still comes from the upstream is ignored.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from ...bridge.reply.converter import ReplyConverter
from ...bridge.reply.pipeline import BridgePipeline
from ...repair.chat_stream import ChatStreamRepair
from ...wire.sse import Frame, joined
from ..content_decoding import MAX_REPLY
from .live_stream import LiveStream, ReplyContext

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
        context: ReplyContext,
        *,
        keeps: bool,
    ) -> None:
        """`keeps`: the reply is kept before the client receives its end, if that can wait."""
        super().__init__(context)
        self.reply = reply
        self._events = reply.writer.events
        self._events.holds_end = self._waits and keeps
        self._pipeline = BridgePipeline(
            reply,
            repair,
            labelled=context.labelled,
            max_document=MAX_REPLY,
            breaks=context.breaks,
        )
        context.record.read = self._pipeline.read

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
                frames = self._pipeline.close()
        except Exception:
            frames = self._fault("Dragoman could not convert the upstream's reply.")
        return self._leaving(frames)

    def _undecodable(self, error: str) -> bytes:
        logger.error("%s: upstream's compressed body is unusable: %s", self._name, error)
        error = f"The upstream's compressed body is unusable: {error}."
        return self._leaving(self._failed(error))

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
        return self._written(lambda: self._pipeline.give_up(error))

    def _written(self, write: Callable[[], list[Frame]]) -> bytes:
        """What is sent while the upstream is silent."""
        try:
            frames = write()
        except Exception:
            frames = self._fault("Dragoman could not write the reply.")
        return self._recorded(self._leaving(frames))

    def _leaving(self, frames: list[Frame]) -> bytes:
        if self.reply.writer.ended and not self._over:
            self._end()
        elif self._pipeline.broken:
            self._over, self.broken = True, self._pipeline.broken
        self.needs_attention = self.ends_at is not None or bool(self._events.end)
        return frames[0].raw if len(frames) == 1 else joined(frames)

    def _end(self) -> None:
        self._over = True
        self._pipeline.read.ended(self.reply.response)
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
