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
from ..content_decoding import MAX_REPLY, Decoder, DecodingError
from ..observe.recorder import FlowRecorder
from .live_stream import LiveStream, decoded

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
        document; `waits`: the reply's end waits for that (`LiveStream.reading`). `has_end`,
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
        self._read = b""
        """The reply made of the document."""
        self._turns = turns
        self._names = names

    def _feed(self, data: bytes) -> bytes:
        passing = self._repaired(data)
        if self._turns is None:
            return passing
        try:
            end = self._turns.feed(passing)
        except Exception:
            logger.exception("%s: its reasoning is not remembered", self._name)
            self._turns = None
            return passing
        self._held += passing[end:] if self._waits else b""
        return passing[:end] if self._waits else passing

    def _repaired(self, data: bytes) -> bytes:
        if self._pipeline.ended:
            return b""
        out: list[bytes] = []
        try:
            self._repair(data, out)
        except Exception:
            logger.exception("%s: repair failed; the rest passes as it comes", self._name)
            out.append(self._released(self._pipeline.fall_back()))
        return out[0] if len(out) == 1 else b"".join(out)

    def _repair(self, data: bytes, out: list[bytes]) -> None:
        try:
            for plain in decoded(self._decoder, data, self._name):
                self._record.came(plain)
                out.append(self._named(self._pipeline.feed(plain)))
        except DecodingError as error:
            what = f"The upstream's compressed body is unusable: {error}."
            out.append(self._broken_off(what))
            return
        if not data:
            self._close(out)

    def heartbeat(self) -> bytes:
        """A comment, between two events: parsers ignore it."""
        return self._recorded(HEARTBEAT.raw if self._pipeline.may_be_interrupted else b"")

    def last_word(self, error: str) -> bytes:
        if self._pipeline.ended:
            return self._recorded(b"")
        message = broken_off(error)
        try:
            out = self._broken_off(message)
        except Exception:
            logger.exception("%s: repair failed at the end of a broken stream", self._name)
            out = self._released(self._pipeline.fall_back_broken(message))
        return self._recorded(out)

    @property
    def unread(self) -> bool:
        return self._document is not None

    def leave(self) -> None:
        self._document = None

    @property
    def unkept(self) -> bool:
        return bool(self._held)

    def end(self) -> bytes:
        held, self._held = self._held, b""
        return self._recorded(held)

    def reading(self) -> Slices[None]:
        document, self._document = self._document or b"", None
        self._read = document  # what is sent after a fault
        try:
            self._read = self._named((yield from self._whole(document)))
            if self._turns is not None:
                yield from self._turns.reading(self._read)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", self._name)

    def what_was_read(self) -> bytes:
        self._record.left(self._read)
        return self._read

    def _close(self, out: list[bytes]) -> None:
        if self._decoder and not self._decoder.complete:
            what = "The upstream's compressed body ends too early."
            if not self._pipeline.is_whole:
                out.append(self._broken_off(what))
                return
            # All events are whole: some servers only flush their compressor.
            logger.warning("%s: %s", self._name, what)
        out.append(self._released(self._pipeline.close()))
        self._document = self._pipeline.document
        if self._document is not None and not self._waits:
            drained(self.reading())
            out.append(self._read)
        if self._pipeline.error:
            logger.error("%s: %s", self._name, self._pipeline.error)

    def _broken_off(self, error: str) -> bytes:
        logger.error("%s: %s", self._name, error)
        return self._released(self._pipeline.break_off(error))

    def _released(self, out: bytes) -> bytes:
        """Log the faults that lost what was held."""
        self.broken = self._pipeline.broken
        while self._pipeline.failures:
            failure = self._pipeline.failures.pop()
            what = "%s: held text could not be released"
            logger.error(what, self._name, exc_info=failure)
        return self._named(out)

    def _named(self, out: bytes) -> bytes:
        if self._names is None:
            return out
        try:
            return self._names.restored(out)
        except Exception:
            logger.exception("%s: the names of tools stay as they came", self._name)
            self._names = None
            return out
