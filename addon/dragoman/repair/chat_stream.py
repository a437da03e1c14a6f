"""Repair of a streamed reply: frames of chat completion chunks in, frames out.

A frame takes one of three ways.  Nearly all pass by their bytes (`Prefilter`).  One that
only continues what the frame before it said is written from a template (`_continuing`).
Any other is read; its text and calls go into the channels of its choices (`TextChannel`); it
waits, whole, until they have decided what becomes of it, as that may depend on frames that
are still to come; and everything after it waits too, so that the order stays.  Then it is
written (`chunk_writer`): as it came, if nothing in it changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..notes import Evidence
from ..wire.chat_text import CONTENT, Passage, passages
from ..wire.errors import read_error
from ..wire.frame_templates import MAX_RUN, FrameTemplate, KnownTemplate, TemplateCache
from ..wire.json_codec import NotJson, loads
from ..wire.sse import BLANK_LINE_ENDS, Frame
from .chunk_templates import ChunkTemplate, one_text, rewritten, text_of
from .chunk_writer import chunk_like
from .declared_tools import DeclaredTools
from .events import ScanEvent
from .passed_frames import PassedFrames
from .pending import PendingFrame, PendingPart, Policy, delta_of
from .pending_frames import PendingFrames
from .prefilter import Prefilter
from .refused_markers import UnreadFrames
from .scanner import Scanner
from .text_channel import Channels

MAX_LIKE = 64 * 1024
"""Bytes of a frame that serves as the pattern of chunks that are added."""
_MODEL = re.compile(rb'"model"\s*:\s*"((?:[^"\\]|\\.){1,256})')


class ChatStreamRepair:
    """Repairs one stream (see `StreamRepair`).  `now` (seconds) is only used for call ids."""

    def __init__(
        self,
        tools: DeclaredTools,
        policy: Policy,
        evidence: Evidence,
        now: int,
    ) -> None:
        self._policy = policy
        self._evidence = evidence
        formats = policy.formats.active(tools.model)
        self._asked = tools.model
        self._named = False
        """Whether the reply has named its model."""
        self._channels = Channels(tools, policy, evidence, now, formats)
        self._prefilter = Prefilter(formats, stripped=bool(tools))
        self._passed = PassedFrames()
        self._templates: TemplateCache[ChunkTemplate] = TemplateCache()
        self._waiting = PendingFrames(policy)
        self._unread = UnreadFrames()
        self._continued: KnownTemplate[ChunkTemplate] | None = None
        """The template of the latest frame, if one that fits it may only continue that."""
        self._ahead = 1
        """How many such frames in a row are matched at once."""
        self._gave_up = False
        self._open_ended = False

    def leave_all(self) -> None:
        """Repair nothing."""
        self._gave_up = True

    def ignores(self, raw: bytes) -> bool:
        if self._gave_up:
            return True
        if not self._named and raw.find(b'"model"') >= 0:
            self._take_name(raw)
        if not (self._prefilter.resting and self._prefilter.passes(raw)):
            return False
        self._pass(raw)
        return True

    def _pass(self, raw: bytes) -> None:
        if self._passed.add(raw):
            may_skip = all(channel.scanner.may_skip for channel in self._channels)
            if not (may_skip and self._passed.shortened()):
                self._read_passed()

    def _take_name(self, raw: bytes) -> None:
        """The model that the reply names: which may add formats to those looked for."""
        if (found := _MODEL.search(raw)) is not None:
            self._named = True
            model = found[1].decode(errors="replace")
            formats = self._policy.formats.active(self._asked, model)
            self._prefilter.look_for(formats)
            self._channels.named(model, formats)

    def feed(self, frame: Frame, *, asked: bool = False) -> list[Frame]:
        if not asked and (
            self._gave_up or not (frame.whole or self._waiting) or self.ignores(frame.raw)
        ):
            return [frame]
        fitting = self._templates.match(frame)
        if fitting and (out := self._leave_unread(frame, *fitting)) is not None:
            return out
        if self._passed:
            self._read_passed()
        again = self._read_unread()
        if fitting is None:
            self._read(frame)
        else:
            text, known = fitting
            known.meaning.channel.latest = frame.raw
            more = None if again else self._continuing(frame, text, known)
            if more is not None:
                return [more]
            self._read_fitting(frame, text, known)
        self._settle()
        return self._waiting.take()

    def _leave_unread(
        self, frame: Frame, text: str, known: KnownTemplate[ChunkTemplate]
    ) -> list[Frame] | None:
        """The short way for a frame whose markers were refused before, all of them."""
        channel = known.meaning.channel
        refused = channel.scanner.refused
        if refused is None or known.meaning.fields != channel.fields:
            return None
        if channel.calls.repaired and self._policy.moves and channel.fields != CONTENT:
            return None
        if self._waiting:
            if (texts := self._waiting.unchanged(channel)) is None:
                return None
            channel.give_back()
            self._unread.add_held(texts, refused)
            self._waiting.clear()
        held = bool(self._unread)
        out = self._unread.add(frame, text, refused)
        for each in out or ():
            self._pass(each.raw)
        if held != bool(self._unread):
            self._settle()
        self._continued = None
        return out

    def _read_unread(self) -> bool:
        """Read the frames that wait for what comes, as it has to be read.  Whether there were
        any."""
        again = bool(self._unread)
        for frame in self._unread.take():
            fitting = self._templates.match(frame)
            if fitting is None:
                self._read(frame)
            else:
                self._read_fitting(frame, *fitting)
        return again

    def _continuing(
        self, frame: Frame, text: str, known: KnownTemplate[ChunkTemplate]
    ) -> Frame | None:
        """`continues` for one frame, which may fit another template than the one before."""
        like = known.meaning
        if self._continued is None or not self._may_continue(like):
            return None
        if (given := like.channel.scanner.takes(text)) is None:
            return None
        like.channel.end += len(text)
        if like.call:
            like.channel.calls.passed(given)
        self._continued = known
        return Frame(rewritten(known, frame.raw, [0, len(frame.raw)], [given]))

    def _may_continue(self, like: ChunkTemplate) -> bool:
        """Whether such a frame can take the short way now, whatever its text."""
        channel = like.channel
        if like.written is None or like.fields != channel.fields or self._waiting or self._unread:
            return False
        if like.call:
            return like.call == channel.calls.repaired and not channel.scanner.between
        return self._policy.moves and channel.scanner.between

    def continues(self, frames: bytes, begin: int) -> tuple[bytes, int]:
        """See `StreamRepair`."""
        known = self._continued
        if known is None:
            return b"", begin
        like = known.meaning
        channel, takes = like.channel, like.channel.scanner.takes
        texts, ends = known.pattern.texts_in(frames, begin, self._ahead)
        given: list[str] = []
        for text in texts:
            if not text or (more := takes(text)) is None:
                self._continued = None
                break
            channel.end += len(text)
            given.append(more)
        if not given:
            return b"", begin
        self._ahead = min(8 * self._ahead, MAX_RUN)
        last, end = ends[len(given) - 1 : len(given) + 1]
        channel.latest = frames[last:end]
        if like.call:
            channel.calls.passed("".join(given))
        return rewritten(known, frames, ends, given), end

    def _read_fitting(self, frame: Frame, text: str, known: KnownTemplate[ChunkTemplate]) -> None:
        """Read a frame that has this text and nothing else, as it fits a template."""
        self._waiting.begin(frame)
        like = known.meaning
        before = like.channel.open_call
        part = like.channel.part()
        self._scan(part, [Passage(like.fields, text)])
        like.channel.decide()
        exact = isinstance(known.pattern, FrameTemplate)
        self._waiting.add(PendingFrame(frame, [part], like=like.chunk if exact else None))
        out = self._let_out()
        if not self._waiting:
            known.meaning = like.now(known.pattern, text, before, part, out)

    def _read(self, frame: Frame) -> None:
        """Read any other.  If it has one text and nothing else, a template is made of it."""
        self._waiting.begin(frame)
        taken = self._take_in(frame)
        said = one_text(taken) if taken and self._templates.wanted else None
        self._let_out()
        if taken and said:
            channel = taken.parts[0].channel
            like = ChunkTemplate(channel, said.fields, taken.chunk)
            self._templates.learn(frame, said.text, len(said.fields), text_of, like)

    def _let_out(self) -> list[Frame]:
        """The latest frame is fully processed: a later fault must not send it again."""
        out = self._drain()
        self._waiting.done()
        for channel in self._channels:
            channel.settle()
        return out

    def _settle(self) -> None:
        if self._waiting.too_many:
            self._give_up()
        resting = quiet = not (self._waiting or self._unread)
        for channel in self._channels:
            resting = resting and channel.resting
            quiet = quiet and resting and channel.quiet
        self._prefilter.resting, self._prefilter.quiet = resting, resting and quiet
        known = None if quiet or self._gave_up else self._templates.latest
        self._continued = known if known and self._may_continue(known.meaning) else None
        self._ahead = 1

    def close(self) -> list[Frame]:
        """The stream has ended: what was held, and a finish reason if none came."""
        if self._unread:
            self._read_passed()
        self._read_unread()
        self._end()
        return self._waiting.take()

    def has_taken_in(self, frame: Frame) -> bool:
        return self._waiting.has_taken_in(frame)

    def end_after_fault(self) -> None:
        """What comes after a fault is forwarded as it comes."""

    def release(self) -> list[Frame]:
        """After a fault: everything that has not left, as it came where that is possible."""
        held = [(channel.last_chunk, channel.held_text) for channel in self._channels]
        frames = [chunk_like(like, {"content": text}) for like, text in held if text]
        natives = [(channel.last_chunk, channel.natives.flush()) for channel in self._channels]
        frames += [chunk_like(like, {"tool_calls": calls}) for like, calls in natives if calls]
        return [*self._waiting.flush(frames), *self._unread.take()]

    def _give_up(self) -> None:
        """Let everything out as it came, and all that comes after it."""
        self._evidence.note("gave up repair", "too much to hold back")
        self._waiting.append(self.release())
        self._channels.clear()
        self._gave_up = True

    # Taking a frame in

    def _take_in(self, frame: Frame) -> PendingFrame | None:
        """Read a frame, and let it wait; None if it is dropped."""
        data = frame.data
        if frame.is_done:
            self._end(done=True)
        try:
            chunk = loads(data) if data and frame.whole else None
        except NotJson:
            chunk = None
            if not frame.raw.endswith(BLANK_LINE_ENDS) and self._will_add:
                # Cut off in the middle: a frame added after it would become part of it.
                self._evidence.note("dropped", "an event without its end")
                return None
        self._open_ended = not frame.raw.endswith(BLANK_LINE_ENDS)
        taken = PendingFrame(frame, [])
        if isinstance(chunk, dict) and isinstance(chunk.get("choices"), list):
            taken.read = chunk
            self._take_in_choices(chunk, taken)
        elif frame.is_error or read_error(chunk):
            self._fail()
        self._waiting.add(taken)
        return taken

    def _take_in_choices(self, chunk: dict[str, Any], taken: PendingFrame) -> None:
        for position, value in enumerate(chunk["choices"]):
            channel = self._channels.of_choice(value, position)
            if channel is not None:
                if len(taken.frame.raw) <= MAX_LIKE:
                    channel.latest = {**chunk, "choices": [value]}
                taken.parts.append(self._take_in_choice(channel.part(position), value))

    def _take_in_choice(self, part: PendingPart, value: dict[str, Any]) -> PendingPart:
        channel, delta = part.channel, delta_of(value)
        self._scan(part, passages(delta))
        natives = delta.get("tool_calls")
        if isinstance(natives, list) and natives:
            part.natives = channel.natives.take(natives)
            part.changed |= part.natives != natives
        part.finish = value.get("finish_reason")
        if part.finish:  # some hosts send "" for none
            channel.finish(part, part.finish)
        channel.decide()
        return part

    def _scan(self, part: PendingPart, said: list[Passage]) -> None:
        for passage in said:
            if passage.fields != part.channel.fields:
                self._prefilter.text_began(passage.fields)
            part.channel.read(part, passage)

    def _read_passed(self) -> None:
        """Have the channels take in what has passed."""
        if self._passed.skipped:
            for channel in self._channels:
                channel.scanner.passed_unread()
        begun = [channel.natives for channel in self._channels if channel.natives.begun]
        if begun and self._passed.hold_calls:
            for natives in begun:
                natives.passed()
        for channel, fields, text in self._passed.read(self._channels.of_choice):
            channel.passed(fields, text)

    def _drain(self) -> list[Frame]:
        return self._waiting.let_out(several=len(self._channels) > 1)

    # The end

    def _end(self, *, done: bool = False) -> None:
        """Close every choice; give one that called tools and has no finish reason its own.
        `done`: the upstream has sent ``[DONE]``."""
        in_calls = [channel.scanner.in_call for channel in self._channels]
        self._end_channels(lambda scanner: scanner.close(whole=done))
        for channel, in_call in zip(self._channels, in_calls, strict=True):
            if not channel.finished and (channel.calls.repaired or in_call):
                channel.finished = True
                finish = "length" if in_call else "tool_calls"
                self._evidence.note("added finish_reason", finish)
                self._append([chunk_like(channel.last_chunk, {}, finish)])

    def _fail(self) -> None:
        """The upstream has failed: what is open stays so, and what is held is text."""
        self._end_channels(Scanner.abandon)
        for channel in self._channels:
            channel.finished = True

    def _end_channels(self, end: Callable[[Scanner], list[ScanEvent]]) -> None:
        """The last of every channel, for which there may be no frame any more; after all that
        waits."""
        last = [(channel, channel.end_in(channel.part(), end)) for channel in self._channels]
        self._drain()
        for channel, deltas in last:
            self._append([chunk_like(channel.last_chunk, delta) for delta in deltas])

    @property
    def _will_add(self) -> bool:
        """Whether frames of our own are added at the end of the stream."""
        return any(
            channel.scanner.in_call or (channel.calls.repaired and not channel.finished)
            for channel in self._channels
        )

    def _append(self, frames: list[Frame]) -> None:
        """Send frames of our own after those of the upstream."""
        if frames and self._open_ended:
            self._waiting.append([Frame(b"\n\n")])
            self._open_ended = False
        self._waiting.append(frames)
