"""The stages of a repaired reply, composed: ``bytes -> sse -> repair -> bytes``.

Live streams, whole replies and the replay of a recorded flow all run this.  After a fault of a
stage, which the caller gets as an exception, `fall_back` returns what has not left, as it came, and
the rest passes as it comes; but once something has been changed, the reply breaks off.  A reply
that its upstream cuts off is cut off for the client, after what was held.
"""

from __future__ import annotations

from collections import deque

from ..notes import Evidence
from ..wire.body_form import BodyForm
from ..wire.chat_end import CHUNK, EARLY, TAIL, has_ended, is_done, is_half, turn_ended
from ..wire.heartbeats import HEARTBEAT
from ..wire.reply_bounds import STEP
from ..wire.sse import BLANK_LINE_ENDS, DONE, LARGE, Frame, FrameSplitter, joined
from .facts import TurnReader
from .stage import RepairStage, Steps, at_once


class RepairPipeline:
    """Methods that return bytes return those that are sent now.

    `labelled`, `max_document`: see `BodyForm`.
    `reports_end`: whether a whole reply reports its end, as a chat completion does: without, it was
    cut off, and opencode asks again for ever if it ends well.  `breaks`: whether the client's reply
    can be broken off; otherwise its last event is an error.  `read`: notes the facts of the reply;
    if it keeps thoughts that led to calls, they are kept before the client receives the end of
    their turn.
    """

    def __init__(
        self,
        repair: RepairStage,
        evidence: Evidence,
        *,
        labelled: bool = True,
        max_document: int = 0,
        reports_end: bool = False,
        breaks: bool = True,
        read: TurnReader | None = None,
    ) -> None:
        self._repair = repair
        self.read = repair.facts = read
        self._evidence = evidence
        self._reports_end = reports_end
        self._breaks = breaks
        self._form = BodyForm(labelled=labelled, max_document=max_document)
        self._splitter = FrameSplitter()
        self._unsplit = b""
        """A piece of the body that is being split."""
        self._unrepaired: deque[Frame] = deque()
        self._steps: Steps[list[Frame]] | None = None
        """The repair of the first of them, a large one that has begun."""
        self.waits = False
        """Whether frames wait to be repaired: `feed` returns after each large one, and other flows
        may run.  The next call goes on, with a piece or none."""
        self._out: list[Frame] = []
        """What leaves now."""
        self.kept_first = 0
        """Bytes at the end of what was returned last that leave when the turn has been kept."""
        self._sent = b""
        """The end of what has left."""
        self._idle = b""
        """The latest frame, if it has passed at once, and has said nothing: so does the next one if
        it is the same."""
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
        """Why the client's reply has to break off, if it does."""
        self.early = False
        """Whether it does, if so, as the upstream's body has ended before its turn."""

    def heartbeat(self) -> bytes:
        """What keeps the client waiting now: nothing within an event, or at the end."""
        sent = self._sent
        busy = self._steps is not None or _is_in_event(sent)
        if not self._form.is_stream or self.ended or busy or is_done(sent):
            return b""
        return (HEARTBEAT if self._verbatim else self._repair.heartbeat()).raw

    def feed(self, data: bytes) -> bytes:
        """A piece of the upstream's body, or none: see `waits`."""
        if self._verbatim:
            self._out.append(Frame(data))
        elif self._form.streams:
            self._take(data)
        else:
            self._find_form(data)
        return self._leaving()

    def close(self) -> bytes:
        """The upstream's body has ended."""
        if not self._verbatim:
            self._take(self._form.close(), at_end=True)
        self.document = self._form.document()
        if self.document is None:
            self._end()
        self.ended = True
        return self._leaving()

    def break_off(self, error: str) -> bytes:
        """Nothing more can be read: the reply ends here, well only if its turn had ended."""
        self._break_off(error)
        self.ended = True
        return self._leaving()

    def fall_back(self, error: str = "") -> bytes:
        """After a fault: what has not left, as it came, and what comes later passes; but the reply
        ends if something has been changed, or with the upstream's `error`."""
        unsent = [] if self._verbatim else self._repair.unsent()
        if unsent is None and turn_ended(self._end_with(b"")):
            unsent = []
        if unsent is not None and not self._verbatim:
            # The frame in which the fault was may be in both.
            held = [each for each in self._unrepaired if all(each is not sent for sent in unsent)]
            rest = self._unsplit + (self._form.document() or self._form.close())
            self._out += [*unsent, *held, *self._splitter.close(), Frame(rest)]
        self._verbatim, self.waits = True, False
        self._stop_reading()
        if error or unsent is None:
            self._end_early(error or "A fault in Dragoman.")
        return self._leaving()

    def whole(self, stream: bytes) -> Steps[bytes]:
        """A whole event stream, repaired; other flows may run where it yields."""
        sent = []
        for start in range(0, len(stream), STEP):
            sent.append(self.feed(stream[start : start + STEP]))
            yield
            while self.waits:
                sent.append(self.feed(b""))
                yield
        return b"".join([*sent, self.close()])

    def _stop_reading(self) -> None:
        """The rest of the reply passes unread."""
        if self.read is not None:
            self.read.stopped = True

    def _leaving(self) -> bytes:
        out, self._out, self.kept_first = self._out, [], 0
        if not out:
            return b""
        if self.read is not None and (end := self.read.turn_end) is not None:
            self.read.turn_end = None
            if end in out:
                self.kept_first = len(joined(out[out.index(end) :]))
        leaving = out[0].raw if len(out) == 1 else joined(out)
        self._sent = (self._sent + leaving[-TAIL:])[-TAIL:]
        return leaving

    # A piece of the body

    def _find_form(self, data: bytes) -> None:
        stream = self._form.feed(data)
        if self._form.too_large:
            self._evidence.note("not repaired:", "the body is too large to be read as a whole")
            self._out.append(Frame(self._form.document() or b""))
            self._verbatim, self._reports_end = True, False
            self._stop_reading()
        else:
            self._take(stream)

    def _take(self, data: bytes, *, at_end: bool = False) -> None:
        """A piece of an event stream: repair the frames that wait, and those that it completes, up
        to a large one; all of them at the end."""
        self._unsplit = data
        frames = self._splitter.feed(data)
        self._unrepaired.extend(frames)
        self._unsplit = b""
        if self._reports_end and not self._has_chunk:
            self._look_for_chunk(joined(frames))
        while self._unrepaired:
            frame = self._unrepaired[0]
            if self.read is not None and frame.raw == self._idle:
                self._out.append(frame)
                self.read.again(len(frame.raw))
            else:
                large = len(frame.raw) > LARGE
                sent = self._step(frame, at_end) if large else self._repair.feed(frame)
                if sent is None:
                    break
                self._out += sent
                learned = self.read is None or self.read.upstream.learned
                self._idle = b"" if learned or sent != [frame] else frame.raw
            self._unrepaired.popleft()
            if len(frame.raw) > LARGE and not at_end:
                break
        self.waits = bool(self._unrepaired)

    def _step(self, frame: Frame, at_end: bool) -> list[Frame] | None:
        """A step of the repair of a large frame: what is sent for it, None until that is known."""
        steps = self._steps or self._repair.steps(frame)
        self._steps = None
        if at_end:
            return at_once(steps)
        try:
            next(steps)
        except StopIteration as end:
            sent: list[Frame] = end.value
            return sent
        self._steps = steps
        return None

    def _look_for_chunk(self, frames: bytes) -> None:
        self._has_chunk = CHUNK in frames
        self._has_other = self._has_other or b"data" in frames

    # The end

    def _end(self) -> None:
        half = False
        if not self._verbatim:
            rest = self._rest()
            ended = self.read is not None and self.read.client.facts.ended
            half = rest is None and not (ended or self._reports_end)
            self._unrepaired.extend(rest or ())
            self._take(b"", at_end=True)
        if half or self._is_cut(b"") or self._is_in_call:
            self._break_off(EARLY)
            self.early = True
        elif not self._verbatim:
            self._out += self._repair.close()

    @property
    def _is_in_call(self) -> bool:
        """Whether a call would be cut if the reply ended now; an error ends it otherwise."""
        return self._breaks and not self._verbatim and self._repair.unfinished

    def _rest(self) -> list[Frame] | None:
        """What follows the last blank line; None if that is only a part of an event."""
        rest = self._splitter.close()
        if not rest:
            return rest
        if self._reports_end and not self._has_chunk:
            self._look_for_chunk(rest[0].raw)
        if is_half(rest[0]) or self._is_cut(rest[0].raw):
            self._evidence.change("dropped", "an event without its end")
            return None
        return rest

    def _is_cut(self, rest: bytes) -> bool:
        """Whether a chat completion has not reported its end, with this `rest`; an empty reply
        counts as one."""
        is_chat = self._reports_end and (self._has_chunk or not self._has_other)
        return is_chat and not has_ended(self._end_with(rest))

    def _end_with(self, rest: bytes) -> bytes:
        """The end of what the client has received once all that leaves and this is sent."""
        return b"".join((self._sent, joined(self._out), rest))[-TAIL:]

    def _break_off(self, error: str) -> None:
        self.error = error
        if not self._verbatim:
            self._take(b"", at_end=True)
        document = self._form.document()
        if document is not None:
            self._out.append(Frame(document))
            self.broken = error if self._breaks else ""
            return
        if any([self._form.close().strip(), *self._splitter.close()]):
            self._evidence.change("dropped", "an event without its end")
        end = self._end_with(b"")
        if turn_ended(end) and not self._is_in_call:
            if not is_done(end):
                self._end_in(DONE)
        else:
            if self._breaks and not self._verbatim:
                self._out += self._repair.break_off()
            self._end_early(error)

    def _end_early(self, error: str) -> None:
        """The reply breaks off, or ends with an error where it cannot."""
        self.error, self.ended = error, True
        if self._breaks:
            self.broken = error
        else:
            self._end_in(self._repair.error(error))

    def _end_in(self, last: Frame) -> None:
        """The last event of a reply."""
        if self.read is not None:
            self.read.end_upstream()
        if _is_in_event(self._end_with(b"")):
            self._out.append(Frame(b"\n\n"))
        if self._verbatim:
            self._out.append(last)
        else:
            self._unrepaired.append(last)
            self._take(b"", at_end=True)


def _is_in_event(sent: bytes) -> bool:
    return bool(sent) and not sent.endswith(BLANK_LINE_ENDS)
