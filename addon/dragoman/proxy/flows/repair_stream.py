"""The stream of a repaired reply: the stages, composed, and their safety net.

``bytes -> (decoding) -> sse -> kimi -> bytes``, once for each piece that mitmproxy hands
over.  No byte of text may be lost: after a fault the log has one traceback, what is held
is released, and the rest goes through as it comes.  A reply that its upstream cuts off is
cut off for the client, behind what was held.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...repair.chat_stream import ChatStreamRepair
from ...wire.chat_end import (
    EARLY,
    TAIL,
    broken_off,
    error_frame,
    has_ended,
    is_done,
    is_half,
    turn_ended,
)
from ...wire.slices import Slices, drained
from ...wire.sse import BLANK_LINE_ENDS, DONE, HEARTBEAT, Frame, FrameSplitter, joined
from ..content_decoding import Decoder, DecodingError
from ..observe.kept_body import Tail
from ..observe.recorder import FlowRecorder
from .live_stream import Form, LiveStream, decoded

logger = logging.getLogger(__name__)

MAX_REJOINED = 64 * 1024
"""Bytes of an unfinished frame up to which looking at it again is cheaper than splitting."""


class RepairStream(LiveStream):
    """The stream of a repaired reply."""

    def __init__(
        self,
        repair: ChatStreamRepair,
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
    ) -> None:
        """`labelled`: whether the reply says that it is an event stream.  `whole` repairs one
        that is a document; `waits`: its end waits for that (`LiveStream.reading`).  `has_end`: a
        chat completion tells how it ended, or it was cut off: opencode asks again for ever if
        such a reply ends well.  `breaks`: whether the client's reply can be broken off;
        otherwise its last event is an error."""
        super().__init__(name, record, heartbeat)
        self._has_end = has_end
        self._breaks = breaks
        self._broken = ""
        self._repair = repair
        self._decoder = decoder
        self._form = Form(labelled=labelled)
        self._whole = whole
        self._waits = waits
        self._document: bytes | None = None
        self._read = b""
        """What came of the document."""
        self._splitter = FrameSplitter()
        self._unsplit = b""
        self._unrepaired: list[Frame] = []
        self._sent = Tail(TAIL)
        self._begun = self._differs = False
        """Whether a chunk of a chat completion has come, and whether other events have."""
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
        silent = self._ended or not self._form.is_stream or _is_in_event(sent) or is_done(sent)
        return b"" if silent else HEARTBEAT.raw

    def _give_up(self, error: str) -> bytes:
        out: list[bytes] = []
        try:
            if not self._ended:
                self._break_off(broken_off(error), out)
        except Exception:
            logger.exception("%s: repair failed at the end of a broken stream", self._name)
            out += [frame.raw for frame in self._leftovers()]
            self._broken = broken_off(error)
        return self._joined(out)

    @property
    def broken(self) -> str:
        return self._broken

    @property
    def unread(self) -> bool:
        return self._document is not None

    def reading(self) -> Slices[None]:
        document, self._document = self._document or b"", None
        self._read = document  # what a fault leaves
        try:
            self._read = yield from self._whole(document)
        except Exception:
            logger.exception("%s: repair failed; the reply passes as it came", self._name)

    def what_was_read(self) -> bytes:
        read = self._joined([self._read])
        self._record.left(read)
        return read

    def _end_with(self, out: list[bytes]) -> bytes:
        """The end of what the client has received once `out` is sent."""
        return (self._sent.kept + b"".join(out))[-TAIL:]

    def _run(self, data: bytes, out: list[bytes]) -> None:
        try:
            for plain in decoded(self._decoder, data, self._name):
                self._record.came(plain)
                self._take(plain if self._verbatim else self._form.feed(plain), out)
        except DecodingError as error:
            self._break_off(f"The upstream's compressed body is unusable: {error}.", out)
            return
        if not data:
            self._close(out)

    def _close(self, out: list[bytes]) -> None:
        if self._decoder and not self._decoder.complete:
            what = "The upstream's compressed body ends too early."
            if not self._splitter.empty or not self._sent.kept:
                self._break_off(what, out)
                return
            # All events are whole: some servers only flush their compressor.
            logger.warning("%s: %s", self._name, what)
        self._take(self._form.close(), out)
        document = self._form.document()
        if document is not None:
            self._document = document
            self._ended = True
            if not self._waits:
                drained(self.reading())
                out.append(self._read)
            return
        if not self._verbatim:
            self._unrepaired.extend(self._rest(out))
            self._repair_frames(out)
        if self._is_cut(out):
            self._break_off(EARLY, out)
        elif not self._verbatim:
            out += [frame.raw for frame in self._repair.close()]
        self._ended = True

    def _rest(self, out: list[bytes]) -> list[Frame]:
        """What stands behind the last blank line, without what is only a part of an event."""
        rest = self._splitter.close()
        if not (rest and self._has_end):
            return rest
        self._look_for_chunk(rest[0].raw)
        if is_half(rest[0]) or self._is_cut([*out, rest[0].raw]):
            self._drop(len(rest[0].raw))
            return []
        return rest

    def _is_cut(self, out: list[bytes]) -> bool:
        """Whether a chat completion has not come to an end of its own; one of which nothing
        has come is one."""
        is_chat = self._has_end and (self._begun or not self._differs)
        return is_chat and not has_ended(self._end_with(out))

    def _look_for_chunk(self, frames: bytes) -> None:
        if not self._begun:
            self._begun = b'"choices"' in frames
            self._differs = self._differs or b"data" in frames

    def _drop(self, size: int) -> None:
        if size:
            logger.warning("%s: an unfinished event of %d bytes is dropped", self._name, size)
            self._record.evidence.note("dropped", "an event without its end")

    def _take(self, plain: bytes, out: list[bytes]) -> None:
        if self._verbatim:
            out.append(plain)
            return
        if self._form.too_large:
            logger.warning("%s: the body is too large to be repaired as a whole", self._name)
            out.append(self._form.document() or b"")
            self._verbatim, self._has_end = True, False
            return
        self._unsplit = plain
        self._pass_frames(out)
        if self._unsplit:
            self._unrepaired.extend(self._splitter.feed(self._unsplit))
            self._unsplit = b""
            if not self._begun:
                self._look_for_chunk(joined(self._unrepaired))
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
            self._look_for_chunk(out[-1])

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

    def _break_off(self, message: str, out: list[bytes]) -> None:
        """Nothing more can be read: the reply ends here, well only if its turn had ended."""
        logger.error("%s: %s", self._name, message)
        document = self._form.document()
        if document is not None:
            out.append(document)
            self._broken = message if self._breaks else ""
            self._ended = True
            return
        unfinished = [self._form.close().strip(), *(f.raw for f in self._splitter.close())]
        self._drop(sum(map(len, unfinished)))
        end = self._end_with(out)
        self._ended = True
        if turn_ended(end):
            if not is_done(end):
                self._end_in(DONE, end, out)
        elif self._breaks:
            out += [frame.raw for frame in self._released(self._repair.release)]
            self._broken = message
        else:
            self._end_in(error_frame(message), end, out)

    def _end_in(self, last: Frame, end: bytes, out: list[bytes]) -> None:
        """The last event of a reply that has ended so far with `end`."""
        if _is_in_event(end):
            out.append(b"\n\n")
        if self._verbatim:
            out.append(last.raw)
        else:
            self._unrepaired.append(last)
            self._repair_frames(out)

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
        unknown = self._form.document() or self._form.close()
        return [*repaired, *unrepaired, *unsplit, Frame(self._unsplit), Frame(unknown)]

    def _released(self, release: Callable[[], list[Frame]]) -> list[Frame]:
        try:
            return release()
        except Exception:
            logger.exception("%s: held text could not be released", self._name)
            return []


def _is_in_event(sent: bytes) -> bool:
    """Whether an event has begun, and not ended."""
    return bool(sent) and not sent.endswith(BLANK_LINE_ENDS)
