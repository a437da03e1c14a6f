"""The stream of a repaired reply: the stages, composed, and their safety net.

``bytes -> (decoding) -> sse -> kimi -> bytes``, once for each piece that mitmproxy hands
over.  No byte of text may be lost: after a fault the log has one traceback, what is held
is released, and the rest goes through as it comes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from ..kimi.broken import EARLY, TAIL, broken_off, ends_early, last_frame
from ..kimi.chunks import ChunkRepair
from ..sse import BLANK_LINE_ENDS, HEARTBEAT, Frame, FrameSplitter
from .decoding import Decoder, DecodingError
from .record import Record
from .stream import LiveStream, decoded

logger = logging.getLogger(__name__)

MAX_REJOINED = 64 * 1024
"""Bytes of an unfinished frame up to which looking at it again is cheaper than splitting."""


class RepairStream(LiveStream):
    """The stream of a repaired reply."""

    def __init__(
        self,
        repair: ChunkRepair,
        decoder: Decoder | None,
        *,
        name: str,
        record: Record,
        heartbeat: float,
        has_end: bool = False,
    ) -> None:
        """`has_end`: a chat completion tells how it ended, or the client is told that it did
        not: opencode would ask again for ever."""
        super().__init__(name, record, heartbeat)
        self._has_end = has_end
        self._repair = repair
        self._decoder = decoder
        self._splitter = FrameSplitter()
        self._unsplit = b""
        self._unrepaired: deque[Frame] = deque()
        self._sent_last = b""
        self._verbatim = False
        self._ended = False

    def _pass_on(self, data: bytes) -> bytes:
        out: list[bytes] = []
        try:
            if not self._ended:
                self._run(data, out)
        except Exception:
            logger.exception("%s: repair failed; the rest passes as it comes", self._name)
            out += [frame.raw for frame in self._leftovers()]
            self._verbatim = True
        return self._joined(out)

    def _joined(self, out: list[bytes]) -> bytes:
        joined = b"".join(out)
        self._sent_last = (self._sent_last + joined[-TAIL:])[-TAIL:]
        return joined

    def _open(self) -> bytes:
        return b""

    def _beat(self) -> bytes:
        """A comment, between two events: no client's parser shows it to anybody."""
        silent = self._ended or self._in_event or self._sent_last.rstrip().endswith(b"[DONE]")
        return b"" if silent else HEARTBEAT.raw

    def _give_up(self, error: str) -> bytes:
        out: list[bytes] = []
        try:
            if not self._ended:
                self._break_off(broken_off(error), "upstream_error", out)
        except Exception:
            logger.exception("%s: repair failed at the end of a broken stream", self._name)
            out += [frame.raw for frame in self._leftovers()]
        return self._joined(out)

    @property
    def _in_event(self) -> bool:
        return bool(self._sent_last) and not self._sent_last.endswith(BLANK_LINE_ENDS)

    def _run(self, data: bytes, out: list[bytes]) -> None:
        try:
            for plain in decoded(self._decoder, data, self._name):
                self._record.came(plain)
                self._take(plain, out)
        except DecodingError as error:
            self._break_off(
                f"The upstream's compressed body is unusable: {error}.", "bad_encoding", out
            )
            return
        if not data:
            self._close(out)

    def _close(self, out: list[bytes]) -> None:
        if self._decoder and not self._decoder.complete:
            what = "The upstream's compressed body ends too early."
            if not self._splitter.empty or not self._sent_last:
                self._break_off(what, "bad_encoding", out)
                return
            # All events are whole: some servers only flush their compressor.
            logger.warning("%s: %s", self._name, what)
        if not self._verbatim:
            self._unrepaired.extend(self._splitter.close())
            self._repair_frames(out)
            out += [frame.raw for frame in self._repair.close()]
            if self._has_end and ends_early(self._sent_last + b"".join(out)[-TAIL:]):
                self._break_off(EARLY, "upstream_error", out)
        self._ended = True

    def _take(self, plain: bytes, out: list[bytes]) -> None:
        if self._verbatim:
            out.append(plain)
            return
        self._unsplit = plain
        self._pass_frames(out)
        self._unrepaired.extend(self._splitter.feed(self._unsplit))
        self._unsplit = b""
        self._repair_frames(out)

    def _pass_frames(self, out: list[bytes]) -> None:
        """Let all whole frames through at once, if none of them needs repair."""
        rejoined = self._splitter.with_held(self._unsplit, MAX_REJOINED)
        if rejoined is None:
            return
        self._unsplit = rejoined
        end = rejoined.rfind(b"\n\n") + 2
        if end >= 2 and self._repair.ignores(rejoined[:end]):
            out.append(rejoined[:end])
            self._unsplit = rejoined[end:]

    def _repair_frames(self, out: list[bytes]) -> None:
        repaired: list[bytes] = []
        try:
            while self._unrepaired:
                repaired += [done.raw for done in self._repair.feed(self._unrepaired[0])]
                self._unrepaired.popleft()
        finally:
            # One object for what may be thousands of tiny frames.
            out.append(b"".join(repaired))

    def _break_off(self, message: str, code: str, out: list[bytes]) -> None:
        """Nothing more can be read: the stream ends as if the upstream had said so."""
        unfinished = sum(len(frame.raw) for frame in self._splitter.close())
        dropped = f" An unfinished event of {unfinished} bytes is dropped." if unfinished else ""
        logger.error("%s: %s%s", self._name, message, dropped)
        self._sent_last = (self._sent_last + b"".join(out)[-TAIL:])[-TAIL:]
        if self._in_event:
            out.append(b"\n\n")
        last = last_frame(self._sent_last, message, code)
        if last is None:
            pass
        elif self._verbatim:
            out.append(last.raw)
        else:
            self._unrepaired.append(last)
            self._repair_frames(out)
        self._ended = True

    def _leftovers(self) -> list[Frame]:
        """Everything that went into a stage and has not come out."""
        if self._verbatim:
            return []
        repaired = self._released(self._repair.release)
        unrepaired, self._unrepaired = self._unrepaired, deque()
        if unrepaired and any(frame is unrepaired[0] for frame in repaired):
            unrepaired.popleft()  # the frame in which the fault was
        unsplit = self._released(self._splitter.close)
        return [*repaired, *unrepaired, *unsplit, Frame(self._unsplit)]

    def _released(self, release: Callable[[], list[Frame]]) -> list[Frame]:
        try:
            return release()
        except Exception:
            logger.exception("%s: held text could not be released", self._name)
            return []
