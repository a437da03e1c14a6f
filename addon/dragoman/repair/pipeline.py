"""The stages of a repaired reply, composed: ``bytes -> sse -> repair -> bytes``.

Live streams, whole replies and the replay of a recorded flow all run this.  No byte of text may
be lost: after a fault of a stage, which the caller gets as an exception, `fall_back` returns what
is held, and the rest passes as it comes.  A reply that its upstream cuts off is cut off for the
client, after what was held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from ..notes import Evidence
from ..wire.body_form import BodyForm
from ..wire.chat_end import EARLY, TAIL, error_frame, has_ended, is_done, is_half, turn_ended
from ..wire.slices import Slices
from ..wire.sse import BLANK_LINE_ENDS, DONE, Frame, FrameSplitter, joined
from ..wire.stream_tail import Tail

_AT_ONCE = 4 * 1024
"""Bytes of a whole event stream that are fed by one call."""


class StreamRepair(Protocol):
    """The stage that repairs: of chat completions, `ChatStreamRepair`."""

    def take_unread(self, raw: bytes) -> bool:
        """Take one or more whole frames that need no repair for certain, by their bytes alone.
        Returns whether they are taken, and leave as they came; if not, `feed` takes each."""

    def feed(self, frame: Frame, *, asked: bool = False) -> list[Frame]:
        """Take a frame; returns those that may leave.  `asked`: `take_unread` was just False for
        it."""

    def close(self) -> list[Frame]:
        """The stream has ended: what was held."""

    def has_taken_in(self, frame: Frame, /) -> bool:
        """Whether the latest frame is this one, and all its content has left or would with
        `release`."""

    def release(self) -> list[Frame]:
        """After a fault or a break: everything that has not left."""

    def end_after_fault(self) -> list[Frame] | None:
        """The end of a reply that cannot pass as it comes any more; None if it can."""


class RepairPipeline:
    """Methods that return bytes return those that are sent now.

    `warn` receives what a person should know.  `labelled`, `max_document`: see `BodyForm`.
    `has_end`: a chat completion that does not report its end was cut off: opencode asks again for
    ever if such a reply ends well.  `breaks`: whether the client's reply can be broken off;
    otherwise its last event is an error.
    """

    def __init__(
        self,
        repair: StreamRepair,
        evidence: Evidence,
        warn: Callable[[str], None] = lambda what: None,  # noqa: ARG005
        *,
        labelled: bool = True,
        max_document: int = 0,
        has_end: bool = False,
        breaks: bool = True,
    ) -> None:
        self._repair = repair
        self._evidence = evidence
        self._warn = warn
        self._has_end = has_end
        self._breaks = breaks
        self._form = BodyForm(labelled=labelled, max_document=max_document)
        self._splitter = FrameSplitter()
        self._unsplit = b""
        """A piece of the body that is being split."""
        self._unrepaired: deque[Frame] = deque()
        self._out: list[bytes] = []
        """What leaves now."""
        self._sent = Tail(TAIL)
        self._has_chunk = self._has_other = False
        """Whether a chunk of a chat completion has come, and whether other events have."""
        self._verbatim = False
        self.ended = False
        """Whether nothing more is to be fed."""
        self.document: bytes | None = None
        """The reply, where it has ended and is no event stream; it has not left."""
        self.error = ""
        """Why the reply ends early, if it does."""
        self.broken = ""
        """The same where the client's reply has to break off."""
        self.failures: list[Exception] = []
        """Further faults, after which something that was held is lost."""

    @property
    def may_be_interrupted(self) -> bool:
        """Whether a comment may be sent now, that is, between two events."""
        sent = self._sent.kept
        return self._form.is_stream and not (self.ended or _is_in_event(sent) or is_done(sent))

    @property
    def is_whole(self) -> bool:
        """Whether something was sent, and nothing of an event is held."""
        return not self._splitter.held and bool(self._sent.kept)

    def feed(self, data: bytes) -> bytes:
        """A piece of the upstream's body."""
        if self._verbatim:
            self._out.append(data)
        elif self._form.streams:
            self._take(data)
        else:
            self._find_form(data)
        return self._leaving()

    def close(self) -> bytes:
        """The upstream's body has ended."""
        if not self._verbatim:
            self._take(self._form.close())
        self.document = self._form.document()
        if self.document is None:
            self._end()
        self.ended = True
        return self._leaving()

    def break_off(self, error: str) -> bytes:
        """Nothing more can be read: the reply ends here, well only if its turn had ended."""
        self._break_off(error)
        return self._leaving()

    def fall_back(self) -> bytes:
        """After a fault in `feed` or `close`: all that went into a stage and has not come out.
        What comes later passes as it comes, unless the stage ends the reply."""
        try:
            end = self._repair.end_after_fault()
        except Exception as failure:
            self.failures.append(failure)
            end = []
        self._send(self._leftovers() if end is None else end)
        self._verbatim = end is None
        self.ended = self.ended or end is not None
        return self._leaving()

    def fall_back_broken(self, error: str) -> bytes:
        """After a fault in `break_off`: the same, and then the reply breaks off."""
        self._send(self._leftovers())
        self.error = self.broken = error
        return self._leaving()

    def reading(self, stream: bytes) -> Slices[bytes]:
        """A whole event stream, repaired."""
        out: list[bytes] = []
        for begin in range(0, len(stream), _AT_ONCE):
            out.append(self.feed(stream[begin : begin + _AT_ONCE]))
            yield
        return b"".join([*out, self.close()])

    def _send(self, frames: Iterable[Frame]) -> None:
        self._out += [frame.raw for frame in frames]

    def _leaving(self) -> bytes:
        if not self._out:
            return b""
        leaving = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out = []
        self._sent.add(leaving)
        return leaving

    # A piece of the body

    def _find_form(self, data: bytes) -> None:
        stream = self._form.feed(data)
        if self._form.too_large:
            self._warn("the body is too large to be repaired as a whole")
            self._out.append(self._form.document() or b"")
            self._verbatim, self._has_end = True, False
        else:
            self._take(stream)

    def _take(self, data: bytes) -> None:
        """A piece of an event stream: its whole frames pass at once, if none needs repair."""
        self._unsplit = data
        asked = False
        if self._splitter.held:
            end = data.find(b"\n\n") + 2
            self._split(end if end > 1 else len(data))
            data = self._unsplit
        if not self._splitter.held and (end := data.rfind(b"\n\n") + 2) > 1:
            frames = data[:end]
            if self._has_end and not self._has_chunk:
                self._look_for_chunk(frames)
            asked = not self._repair.take_unread(frames)
            if not asked:
                self._out.append(frames)
                self._unsplit = data[end:]
        if self._unsplit:
            self._split(len(data), asked=asked)

    def _split(self, size: int, *, asked: bool = False) -> None:
        """Repair the frames that so many of the unsplit bytes complete; `asked`: see `feed` of
        `StreamRepair`."""
        frames = self._splitter.feed(self._unsplit[:size])
        self._unrepaired.extend(frames)
        self._unsplit = self._unsplit[size:]
        if self._has_end and not self._has_chunk:
            self._look_for_chunk(joined(frames))
        self._repair_frames(asked=asked and len(frames) == 1)

    def _repair_frames(self, *, asked: bool = False) -> None:
        while self._unrepaired:
            self._send(self._repair.feed(self._unrepaired[0], asked=asked))
            self._unrepaired.popleft()

    def _look_for_chunk(self, frames: bytes) -> None:
        self._has_chunk = b'"choices"' in frames
        self._has_other = self._has_other or b"data" in frames

    # The end

    def _end(self) -> None:
        if not self._verbatim:
            self._unrepaired.extend(self._rest())
            self._repair_frames()
        if self._is_cut(b""):
            self._break_off(EARLY)
        elif not self._verbatim:
            self._send(self._repair.close())

    def _rest(self) -> list[Frame]:
        """What follows the last blank line, without what is only a part of an event."""
        rest = self._splitter.close()
        if not (rest and self._has_end):
            return rest
        if not self._has_chunk:
            self._look_for_chunk(rest[0].raw)
        if is_half(rest[0]) or self._is_cut(rest[0].raw):
            self._drop(len(rest[0].raw))
            return []
        return rest

    def _is_cut(self, rest: bytes) -> bool:
        """Whether a chat completion has not reported its end, with this `rest`; an empty reply
        counts as one."""
        is_chat = self._has_end and (self._has_chunk or not self._has_other)
        return is_chat and not has_ended(self._end_with(rest))

    def _end_with(self, rest: bytes) -> bytes:
        """The end of what the client has received once all that leaves and this is sent."""
        return b"".join((self._sent.kept, *self._out, rest))[-TAIL:]

    def _drop(self, size: int) -> None:
        if size:
            self._warn(f"an unfinished event of {size} bytes is dropped")
            self._evidence.note("dropped", "an event without its end")

    def _break_off(self, error: str) -> None:
        self.error = error
        document = self._form.document()
        if document is not None:
            self._out.append(document)
            self.broken = error if self._breaks else ""
            self.ended = True
            return
        unfinished = [self._form.close().strip(), *(f.raw for f in self._splitter.close())]
        self._drop(sum(map(len, unfinished)))
        end = self._end_with(b"")
        self.ended = True
        if turn_ended(end):
            if not is_done(end):
                self._end_in(DONE, end)
        elif self._breaks:
            if not self._verbatim:  # else a fault has released it
                self._send(self._released(self._repair.release))
            self.broken = error
        else:
            self._end_in(error_frame(error), end)

    def _end_in(self, last: Frame, end: bytes) -> None:
        """The last event of a reply that has ended so far with `end`."""
        if _is_in_event(end):
            self._out.append(b"\n\n")
        if self._verbatim:
            self._out.append(last.raw)
        else:
            self._unrepaired.append(last)
            self._repair_frames()

    # A fault

    def _leftovers(self) -> list[Frame]:
        """Everything that went into a stage and has not come out."""
        if self._verbatim:
            return []
        repaired = self._released(self._repair.release)
        unrepaired, self._unrepaired = list(self._unrepaired), deque()
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
        except Exception as failure:
            self.failures.append(failure)
            return []


def _is_in_event(sent: bytes) -> bool:
    return bool(sent) and not sent.endswith(BLANK_LINE_ENDS)
