"""The stream callable of a repaired flow: the stages, composed, and their safety net.

``bytes -> (decoding) -> sse -> kimi -> bytes``, once for each piece that mitmproxy
hands over, and recorded on both sides.  Whatever happens in a stage, nothing may escape
from here (mitmproxy would cut the stream) and no byte of text may be lost: after a fault
the log has one traceback, what is held is released, and the rest goes through as it comes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator

from ..bridge.reply import Reply
from ..jsonio import dumps
from ..kimi.chunks import ChunkRepair
from ..sse import BLANK_LINE_ENDS, Frame, FrameSplitter, encode
from .decoding import Decoder, DecodingError
from .record import Record

logger = logging.getLogger(__name__)

MAX_REJOINED = 64 * 1024
"""Bytes of an unfinished frame up to which looking at it again is cheaper than splitting."""


class RepairStream:
    """Called by mitmproxy with each piece of the upstream's body, and ``b""`` at its end.

    Returns the bytes to send, never an empty one: mitmproxy would write it as the end
    of a chunked body.
    """

    def __init__(
        self, repair: ChunkRepair, decoder: Decoder | None, name: str, record: Record
    ) -> None:
        self._repair = repair
        self._decoder = decoder
        self._name = name
        self._record = record
        self._splitter = FrameSplitter()
        self._unsplit = b""
        self._unrepaired: deque[Frame] = deque()
        self._sent_last = b""
        self._verbatim = False
        self._ended = False

    def __call__(self, data: bytes) -> list[bytes]:
        out: list[bytes] = []
        try:
            if not self._ended:
                self._run(data, out)
        except Exception:
            logger.exception("%s: repair failed; the rest passes as it comes", self._name)
            out += [frame.raw for frame in self._leftovers()]
            self._verbatim = True
        joined = b"".join(out)
        self._sent_last = (self._sent_last + joined[-4:])[-4:]
        self._record.left(joined)
        return [joined] if joined else []

    def _run(self, data: bytes, out: list[bytes]) -> None:
        try:
            for plain in _decoded(self._decoder, data, self._name):
                self._record.came(plain)
                self._take(plain, out)
        except DecodingError as error:
            self._break_off(f"The upstream's compressed body is unusable: {error}.", out)
            return
        if not data:
            self._close(out)

    def _close(self, out: list[bytes]) -> None:
        if self._decoder and not self._decoder.complete:
            what = "The upstream's compressed body ends too early."
            if not self._splitter.empty or not self._sent_last:
                self._break_off(what, out)
                return
            # All events are whole: some servers only flush their compressor.
            logger.warning("%s: %s", self._name, what)
        if not self._verbatim:
            self._unrepaired.extend(self._splitter.close())
            self._repair_frames(out)
            out += [frame.raw for frame in self._repair.close()]
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

    def _break_off(self, message: str, out: list[bytes]) -> None:
        """What comes cannot be read: the stream ends as if the upstream had said so."""
        unfinished = sum(len(frame.raw) for frame in self._splitter.close())
        dropped = f" An unfinished event of {unfinished} bytes is dropped." if unfinished else ""
        logger.error("%s: %s%s", self._name, message, dropped)
        sent_last = (self._sent_last + b"".join(out)[-4:])[-4:]
        if sent_last and not sent_last.endswith(BLANK_LINE_ENDS):
            out.append(b"\n\n")
        if self._verbatim:
            out.append(_error_frame(message).raw)
        else:
            self._unrepaired.append(_error_frame(message))
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


class BridgeStream:
    """The stream of a bridged reply: ``bytes -> (decoding) -> sse -> kimi -> bridge -> bytes``.

    There is no verbatim to fall back on: after a fault the client gets its one terminal,
    `response.failed`, and whatever still comes from the upstream is passed over.
    """

    def __init__(
        self,
        reply: Reply,
        repair: ChunkRepair | None,
        decoder: Decoder | None,
        name: str,
        record: Record,
    ) -> None:
        self._reply = reply
        self._repair = repair
        self._decoder = decoder
        self._name = name
        self._record = record
        self._splitter = FrameSplitter()

    def __call__(self, data: bytes) -> list[bytes]:
        out: list[Frame] = []
        try:
            if not self._reply.finished:
                self._run(data, out)
        except DecodingError as error:
            logger.error("%s: upstream's compressed body is unusable: %s", self._name, error)
            self._fail(out, f"The upstream's compressed body is unusable: {error}.")
        except Exception:
            logger.exception("%s: the bridge failed", self._name)
            self._fail(out, "Dragoman could not convert the upstream's reply.")
        joined = b"".join(frame.raw for frame in out)
        self._record.left(joined)
        return [joined] if joined else []

    def _run(self, data: bytes, out: list[Frame]) -> None:
        for plain in _decoded(self._decoder, data, self._name):
            self._record.came(plain)
            self._take(self._splitter.feed(plain), out)
        if not data:
            self._take(self._splitter.close(), out)
            for frame in self._repair.close() if self._repair else []:
                out += self._reply.feed(frame)
            out += self._reply.close()

    def _take(self, frames: list[Frame], out: list[Frame]) -> None:
        for frame in frames:
            for repaired in self._repair.feed(frame) if self._repair else [frame]:
                out += self._reply.feed(repaired)

    def _fail(self, out: list[Frame], message: str) -> None:
        try:
            out += self._reply.fail("server_error", message)
        except Exception:
            logger.exception("%s: not even the failure could be told", self._name)


class WatchedStream:
    """A stream that passes as it comes, and is recorded."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def __call__(self, data: bytes) -> list[bytes]:
        self._record.came(data)
        self._record.left(data)
        return [data] if data else []


def _decoded(decoder: Decoder | None, data: bytes, name: str) -> Iterator[bytes]:
    """What a piece of the body holds; raises `DecodingError` and nothing else."""
    if decoder is None:
        if data:
            yield data
        return
    try:
        yield from decoder.feed(data)
    except DecodingError:
        raise
    except Exception:
        logger.exception("%s: decoding failed", name)
        raise DecodingError("Dragoman cannot decode it") from None


def _error_frame(message: str) -> Frame:
    error = {"message": message, "type": "upstream_error", "param": None, "code": "bad_encoding"}
    return encode(dumps({"error": error}))
