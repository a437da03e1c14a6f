"""The stream of a repaired reply: ``bytes -> (decoding) -> repair -> bytes``.

The stages are composed in `repair.pipeline`; here is what surrounds them: decoding, the record
and the log.  After a fault the log has one traceback, what is held is released, and the rest
passes as it comes.
"""

from __future__ import annotations

import logging
from functools import partial

from ...bridge.cure.tool_names import ToolNames
from ...repair.pipeline import RepairPipeline, StreamRepair
from ...wire.chat_end import broken_off
from ..content_decoding import MAX_REPLY
from .live_stream import LiveStream, ReplyContext

logger = logging.getLogger(__name__)


class RepairStream(LiveStream):
    """The stream of a repaired reply."""

    def __init__(
        self,
        repair: StreamRepair,
        context: ReplyContext,
        *,
        has_end: bool,
        keeps: bool = False,
        names: ToolNames | None = None,
    ) -> None:
        """`has_end`: see `RepairPipeline`. `keeps`: a turn's end waits
        until its reasoning has been kept. `names`: if tools were sent with others than
        the client's."""
        super().__init__(context)
        self._pipeline = RepairPipeline(
            repair,
            context.record.evidence,
            # Not a method: without a cycle an ended stream, and the tools that its request
            # declared, wait for no collector.
            partial(logger.warning, "%s: %s", context.name),
            labelled=context.labelled,
            max_document=MAX_REPLY,
            has_end=has_end,
            breaks=context.breaks,
            keeps=keeps,
        )
        context.record.read = self._pipeline.read
        self._repair = repair
        self._held = b""
        self._keeps = keeps
        self._names = names

    def _feed(self, plain: bytes) -> bytes:
        try:
            sent = self._pipeline.feed(plain)
        except Exception:
            sent = self._fall_back()
        return self._until_turn_end(sent)

    def _close(self) -> bytes:
        if self._decoder and not self._decoder.complete:
            error = "The upstream's compressed body ends too early."
            if not self._pipeline.is_whole:
                return self._cut_off(error)
            # All events are whole: some servers only flush their compressor.
            logger.warning("%s: %s", self._name, error)
        try:
            sent = self._ended(self._pipeline.close())
        except Exception:
            sent = self._fall_back()
        if self._pipeline.error:
            logger.error("%s: %s", self._name, self._pipeline.error)
        if self._pipeline.document is None:
            return self._until_turn_end(sent)
        return self._repaired(self._pipeline.document)

    def _undecodable(self, error: str) -> bytes:
        return self._cut_off(f"The upstream's compressed body is unusable: {error}.")

    def _cut_off(self, error: str) -> bytes:
        try:
            sent = self._broken_off(error)
        except Exception:
            sent = self._fall_back()
        return self._until_turn_end(sent)

    def heartbeat(self) -> bytes:
        """Sent between two events: clients ignore it."""
        return self._recorded(self._pipeline.heartbeat)

    def break_off(self, error: str) -> bytes:
        if self._pipeline.ended:
            return self._recorded(b"")
        message = broken_off(error)
        try:
            sent = self._broken_off(message)
        except Exception:
            logger.exception("%s: repair failed at the end of a broken stream", self._name)
            sent = self._ended(self._pipeline.fall_back(message))
        return self._recorded(self._named(sent))

    def _repaired(self, document: bytes) -> bytes:
        """A reply that is no event stream; as it came after a fault."""
        try:
            repaired = self._repair.document(document)
            self._pipeline.read.documents(document, repaired)
            sent = self._named(repaired)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", self._name)
            return document
        if not (self._keeps and self._waits):
            return sent
        self._held = sent
        self.needs_attention = True
        return b""

    @property
    def holds_end(self) -> bool:
        return bool(self._held)

    def release_end(self) -> bytes:
        held, self._held = self._held, b""
        return self._recorded(held)

    def _until_turn_end(self, sent: bytes) -> bytes:
        """`sent` up to the end of a turn that has to be kept first; the rest is held."""
        end = len(sent) - self._pipeline.kept_first
        if self._held:
            end = 0
        if end == len(sent) or not self._waits:
            return self._named(sent)
        self._held += self._named(sent[end:])
        self.needs_attention = True
        return self._named(sent[:end])

    def _named(self, sent: bytes) -> bytes:
        """`sent` with the client's names of tools."""
        if self._names is None:
            return sent
        try:
            return self._names.restored(sent)
        except Exception:
            logger.exception("%s: the names of tools stay as they came", self._name)
            self._names = None
            return sent

    def _broken_off(self, error: str) -> bytes:
        logger.error("%s: %s", self._name, error)
        return self._ended(self._pipeline.break_off(error))

    def _fall_back(self) -> bytes:
        """After a fault."""
        logger.exception("%s: repair failed; the rest passes as it comes", self._name)
        return self._ended(self._pipeline.fall_back())

    def _ended(self, sent: bytes) -> bytes:
        self._over, self.broken = self._pipeline.ended, self._pipeline.broken
        self.needs_attention = self.needs_attention or bool(self.broken)
        return sent
