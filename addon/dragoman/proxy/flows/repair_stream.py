"""The stream of a repaired reply: ``bytes -> (decoding) -> repair -> bytes``.

The stages are composed in `repair.pipeline`; here is what surrounds them: decoding, the record
and the log.  After a fault the log has one traceback, what is held is released, and the rest
passes as it comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ...bridge.cure.tool_names import ToolNames
from ...repair.pipeline import RepairPipeline, StreamRepair
from ...stored.turn_reader import TurnReader
from ...wire.chat_end import broken_off
from ...wire.slices import Slices, drained
from ...wire.sse import HEARTBEAT
from ..content_decoding import MAX_REPLY, Decoder
from ..observe.recorder import FlowRecorder
from .live_stream import LiveStream

logger = logging.getLogger(__name__)


class RepairStream(LiveStream):
    """The stream of a repaired reply."""

    def __init__(
        self,
        repair: StreamRepair,
        decoder: Decoder | None,
        *,
        name: str,
        record: FlowRecorder,
        heartbeat: float,
        labelled: bool,
        whole: Callable[[bytes], Slices[bytes]],
        waits: bool,
        has_end: bool,
        breaks: bool,
        turns: TurnReader | None = None,
        names: ToolNames | None = None,
    ) -> None:
        """`labelled`: whether the reply says that it is an event stream. `whole` repairs a
        document; `waits`: the reply's end waits for that (`slow_work`). `has_end`,
        `breaks`: see `RepairPipeline`. `turns` reads what is sent, if a turn's end waits until it
        has been kept. `names`: if tools were sent with others than the client's."""
        super().__init__(name, record, heartbeat, decoder)
        self._pipeline = RepairPipeline(
            repair,
            record.evidence,
            # Not a method: without a cycle an ended stream, and the tools that its request
            # declared, wait for no collector.
            partial(logger.warning, "%s: %s", name),
            labelled=labelled,
            max_document=MAX_REPLY,
            has_end=has_end,
            breaks=breaks,
        )
        self._whole = whole
        self._waits = waits
        self._held = b""
        self._repaired = b""
        """The reply made of the document."""
        self._turns = turns
        self._names = names

    def _feed(self, plain: bytes) -> bytes:
        try:
            sent = self._pipeline.feed(plain)
        except Exception:
            sent = self._fall_back()
        if self._names is not None:
            sent = self._named(sent)
        return sent if self._turns is None and not self._held else self._until_turn_end(sent)

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
        self._document = self._pipeline.document
        if self._document is not None:
            self.needs_attention = True
            if not self._waits:
                drained(self.slow_work())
                return self._repaired
        return self._until_turn_end(self._named(sent))

    def _undecodable(self, error: str) -> bytes:
        return self._cut_off(f"The upstream's compressed body is unusable: {error}.")

    def _cut_off(self, error: str) -> bytes:
        try:
            sent = self._broken_off(error)
        except Exception:
            sent = self._fall_back()
        return self._until_turn_end(self._named(sent))

    def heartbeat(self) -> bytes:
        """A comment, between two events: parsers ignore it."""
        return self._recorded(HEARTBEAT.raw if self._pipeline.may_be_interrupted else b"")

    def break_off(self, error: str) -> bytes:
        if self._pipeline.ended:
            return self._recorded(b"")
        message = broken_off(error)
        try:
            sent = self._broken_off(message)
        except Exception:
            logger.exception("%s: repair failed at the end of a broken stream", self._name)
            sent = self._ended(self._pipeline.fall_back_broken(message))
        return self._recorded(self._named(sent))

    @property
    def has_slow_work(self) -> bool:
        return self._document is not None

    def slow_work(self) -> Slices[None]:
        document, self._document = self._document or b"", None
        self._repaired = document  # what is sent after a fault
        try:
            self._repaired = self._named((yield from self._whole(document)))
            if self._turns is not None:
                yield from self._turns.reading(self._repaired)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", self._name)

    def slow_output(self) -> bytes:
        self._record.reply.add(b"", self._repaired)
        return self._repaired

    def drop_slow_work(self) -> None:
        self._document = None

    @property
    def holds_end(self) -> bool:
        return bool(self._held)

    def release_end(self) -> bytes:
        held, self._held = self._held, b""
        return self._recorded(held)

    def _until_turn_end(self, sent: bytes) -> bytes:
        """`sent` up to the end of a turn that has to be kept first; the rest is held."""
        end = len(sent)
        try:
            end = self._turns.feed(sent) if self._turns else end
        except Exception:
            logger.exception("%s: its reasoning is not remembered", self._name)
            self._turns = None
        if self._held:
            end = 0
        if end == len(sent) or not self._waits:
            return sent
        self._held += sent[end:]
        self.needs_attention = True
        return sent[:end]

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
        """Log the faults that lost what was held."""
        self._over, self.broken = self._pipeline.ended, self._pipeline.broken
        self.needs_attention = self.needs_attention or bool(self.broken)
        while self._pipeline.failures:
            failure = self._pipeline.failures.pop()
            error = "%s: held text could not be released"
            logger.error(error, self._name, exc_info=failure)
        return sent
