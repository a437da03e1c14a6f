"""The stream of a repaired reply: the stages, composed, and their safety net.

``bytes -> (decoding) -> sse -> kimi -> bytes``, once for each piece that mitmproxy hands
over.  No byte of text may be lost: after a fault the log has one traceback, what is held
is released, and the rest goes through as it comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..kimi.broken import EARLY, TAIL, broken_off, ends_early, last_frame
from ..kimi.chunks import ChunkRepair
from ..sse import BLANK_LINE_ENDS, HEARTBEAT, Frame, FrameSplitter
from .decoding import Decoder, DecodingError
from .ledger import Tail
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
        self._unrepaired: list[Frame] = []
        self._sent = Tail(TAIL)
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
        self._sent.add(joined)
        return joined

    def _open(self) -> bytes:
        return b""

    def _beat(self) -> bytes:
        """A comment, between two events: no client's parser shows it to anybody."""
        sent = self._sent.kept
        silent = self._ended or _is_in_event(sent) or sent.rstrip().endswith(b"[DONE]")
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

    def _end_with(self, out: list[bytes]) -> bytes:
        """The end of what the client has received once `out` is sent."""
        return (self._sent.kept + b"".join(out))[-TAIL:]

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
            if not self._splitter.empty or not self._sent.kept:
                self._break_off(what, "bad_encoding", out)
                return
            # All events are whole: some servers only flush their compressor.
            logger.warning("%s: %s", self._name, what)
        if not self._verbatim:
            self._unrepaired.extend(self._splitter.close())
            self._repair_frames(out)
            out += [frame.raw for frame in self._repair.close()]
            if self._has_end and ends_early(self._end_with(out)):
                self._break_off(EARLY, "upstream_error", out)
        self._ended = True

    def _take(self, plain: bytes, out: list[bytes]) -> None:
        if self._verbatim:
            out.append(plain)
            return
        self._unsplit = plain
        self._pass_frames(out)
        if self._unsplit:
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
        done = 0
        try:
            for frame in self._unrepaired:
                repaired += [each.raw for each in self._repair.feed(frame)]
                done += 1
        finally:
            del self._unrepaired[:done]
            if repaired:
                # One object for what may be thousands of tiny frames.
                out.append(b"".join(repaired))

    def _break_off(self, message: str, code: str, out: list[bytes]) -> None:
        """Nothing more can be read: the stream ends as if the upstream had said so."""
        unfinished = sum(len(frame.raw) for frame in self._splitter.close())
        dropped = f" An unfinished event of {unfinished} bytes is dropped." if unfinished else ""
        logger.error("%s: %s%s", self._name, message, dropped)
        end = self._end_with(out)
        if _is_in_event(end):
            out.append(b"\n\n")
        last = last_frame(end, message, code)
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
        unrepaired, self._unrepaired = self._unrepaired, []
        if unrepaired and (
            self._repair.has_taken_in(unrepaired[0])
            or any(frame is unrepaired[0] for frame in repaired)
        ):
            del unrepaired[0]  # the frame in which the fault was
        unsplit = self._released(self._splitter.close)
        return [*repaired, *unrepaired, *unsplit, Frame(self._unsplit)]

    def _released(self, release: Callable[[], list[Frame]]) -> list[Frame]:
        try:
            return release()
        except Exception:
            logger.exception("%s: held text could not be released", self._name)
            return []


def _is_in_event(sent: bytes) -> bool:
    """Whether an event has begun, and not ended."""
    return bool(sent) and not sent.endswith(BLANK_LINE_ENDS)
