"""Repair of a streamed reply: frames of chat completion chunks in, frames out.

A frame takes one of three ways.  Nearly all pass by their bytes (`Prefilter`).  One that
only continues the text or the arguments of the frame before it is written from a template
(`_continuing`).  Any other is read, and its text and calls go into the channels of its choices
(`TextChannel`).  It waits, with all after it, until they have decided what becomes of it.  Then
it is written (`chunk_writer`): as it came, if nothing in it changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..notes import Evidence
from ..wire.chat_text import CONTENT, Passage, passages
from ..wire.errors import read_error
from ..wire.frame_templates import KnownTemplate, TemplateCache
from ..wire.json_codec import Json, NotJson, loads
from ..wire.sse import BLANK_LINE_ENDS, Frame
from .chunk_templates import ChunkTemplate, learn, one_text, rewritten
from .chunk_writer import added_chunk
from .declared_tools import DeclaredTools
from .events import ScanEvent
from .passed_frames import PassedFrames
from .pending import PendingFrame, PendingPart, Policy, delta_of
from .pending_frames import PendingFrames
from .prefilter import Prefilter
from .refused_markers import RefusedMarkers, UnreadFrames
from .scanner import Scanner
from .text_channel import Channels, TextChannel

MAX_METADATA = 64 * 1024
"""Bytes of a frame whose metadata are those of chunks that are added."""
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
        self._model_asked_for = tools.model
        self._has_model = False
        """Whether the reply has named its model."""
        self._channels = Channels(tools, policy, evidence, now, formats)
        self._prefilter = Prefilter(formats, stripped=bool(tools))
        self._passed = PassedFrames()
        self._templates: TemplateCache[ChunkTemplate] = TemplateCache()
        self._pending = PendingFrames(policy)
        self._unread = UnreadFrames()
        self._continued: KnownTemplate[ChunkTemplate] | None = None
        """The latest template, if a frame that fits may only continue those before it."""
        self._gave_up = False
        self._open_ended = False
        """Whether the latest frame has no blank line at its end."""

    def leave_all(self) -> None:
        """Repair nothing."""
        self._gave_up = True

    # Frames that need not be read

    def take_unread(self, raw: bytes) -> bool:
        if self._gave_up:
            return True
        if not self._has_model and raw.find(b'"model"') >= 0:
            self._find_model(raw)
        if not (self._prefilter.resting and self._prefilter.passes(raw)):
            return False
        if self._passed.add(raw):
            self._skip_or_read_passed()
        return True

    def _find_model(self, raw: bytes) -> None:
        """The model that the reply names may add formats to those looked for."""
        if (found := _MODEL.search(raw)) is not None:
            self._has_model = True
            model = found[1].decode(errors="replace")
            formats = self._policy.formats.active(self._model_asked_for, model)
            self._prefilter.look_for(formats)
            self._channels.set_model(model, formats)

    def _skip_or_read_passed(self) -> None:
        may_skip = all(channel.scanner.may_skip for channel in self._channels.all)
        if not (may_skip and self._passed.shortened()):
            self._read_passed()

    def _read_passed(self) -> None:
        """Have the channels read what has passed."""
        channels = self._channels.all
        if self._passed.skipped:
            for channel in channels:
                channel.scanner.passed_unread()
        with_calls = [channel.natives for channel in channels if channel.natives.has_calls]
        if with_calls and self._passed.hold_calls:
            for natives in with_calls:
                natives.passed()
        for channel, fields, text in self._passed.read(self._channels.of_choice):
            channel.passed(fields, text)

    def _continuing(
        self, frame: Frame, text: str, known: KnownTemplate[ChunkTemplate]
    ) -> list[Frame] | None:
        """What replaces a frame that only continues the text or the arguments of those before it;
        None, and nothing is taken, if this does not."""
        channel = known.meaning.channel
        result = channel.scanner.takes(text)
        if result is None:
            return None
        channel.latest = frame.raw
        channel.length += len(text)
        if known.meaning.call:
            channel.calls.keep_arguments(result)
        return rewritten(known, frame.raw, result)

    def _may_continue(self, template: ChunkTemplate) -> bool:
        """Whether a frame that fits can take the short way now, whatever its text."""
        channel = template.channel
        if template.written is None or template.fields != channel.fields:
            return False
        if self._pending.frames or self._unread.frames:
            return False
        if template.call:
            return template.call == channel.calls.repaired and not channel.scanner.between
        return self._policy.moves and channel.scanner.between

    def _leave_unread(
        self, frame: Frame, text: str, template: ChunkTemplate, refused: RefusedMarkers
    ) -> list[Frame] | None:
        """The short way for a frame whose markers were refused before, all of them."""
        channel, unread = template.channel, self._unread
        if template.fields != channel.fields:
            return None
        if channel.calls.repaired and self._policy.moves and channel.fields != CONTENT:
            return None
        if self._pending.frames:
            if (texts := self._pending.unchanged(channel)) is None:
                return None
            channel.give_back()
            unread.add_held(texts, refused)
            self._pending.clear()
        held = bool(unread.frames)
        out = unread.add(frame, text, refused)
        for each in out or ():
            if self._passed.add(each.raw):
                self._skip_or_read_passed()
        if held != bool(unread.frames):
            self._settle()
        self._continued = None
        return out

    # Frames that are read

    def feed(self, frame: Frame, *, asked: bool = False) -> list[Frame]:
        readable = frame.whole or self._pending.frames
        if not asked and (self._gave_up or not readable or self.take_unread(frame.raw)):
            return [frame]
        fitting = self._templates.match(frame)
        if fitting is not None:
            text, known = fitting
            if known is self._continued:
                continued = self._continuing(frame, text, known)
                if continued is not None:
                    return continued
            refused = known.meaning.channel.scanner.refused
            if refused is not None:
                out = self._leave_unread(frame, text, known.meaning, refused)
                if out is not None:
                    return out
        if self._passed.pieces:
            self._read_passed()
        if self._unread.frames:
            self._read_unread()
        if fitting is None:
            self._read(frame)
        else:
            known.meaning.channel.latest = frame.raw
            self._read_fitting(frame, text, known)
        self._settle()
        return self._pending.take()

    def _read_unread(self) -> None:
        """Read the frames that wait for the next one, as it has to be read."""
        for frame in self._unread.take():
            fitting = self._templates.match(frame)
            if fitting is None:
                self._read(frame)
            else:
                self._read_fitting(frame, *fitting)

    def _read_fitting(self, frame: Frame, text: str, known: KnownTemplate[ChunkTemplate]) -> None:
        """Read a frame that has this text and nothing else, as it fits a template."""
        pending, template = self._pending, known.meaning
        channel = template.channel
        pending.begin(frame)
        part = channel.new_part()
        self._scan(part, (Passage(template.fields, text),))
        channel.decide()
        values = known.pattern.values_in(frame.raw)
        pending.add(PendingFrame(frame, [part], envelope=template.envelope, values=values))
        out = self._let_out((channel,))
        if not pending.frames:
            template.learn(values, text, part, out)

    def _read(self, frame: Frame) -> None:
        """Read any other.  If it has one text and nothing else, a template is made of it."""
        self._pending.begin(frame)
        waiting = self._take_in(frame)
        text = one_text(waiting) if waiting and self._templates.wanted else None
        self._let_out(self._channels.all)
        if waiting and text:
            learn(self._templates, waiting, text)

    def _let_out(self, read: Iterable[TextChannel]) -> list[Frame]:
        """The latest frame, of these channels, is fully processed: a later fault must not send
        it again."""
        out = self._pending.let_out(several=len(self._channels.all) > 1)
        self._pending.done()
        for channel in read:
            channel.settle()
        return out

    def _settle(self) -> None:
        """See what the next frame may do."""
        if self._pending.frames and self._pending.too_many:
            self._give_up()
        resting = quiet = not (self._pending.frames or self._unread.frames)
        if resting:
            for channel in self._channels.all:
                resting = resting and channel.resting
                quiet = quiet and resting and channel.scanner.idle
        self._prefilter.resting, self._prefilter.quiet = resting, quiet
        known = None if resting or self._gave_up else self._templates.latest
        self._continued = known if known and self._may_continue(known.meaning) else None

    def _take_in(self, frame: Frame) -> PendingFrame | None:
        """Read a frame, and let it wait; None if it is dropped."""
        data = frame.data
        if frame.is_done:
            self._end(done=True)
        is_open = not frame.raw.endswith(BLANK_LINE_ENDS)
        try:
            chunk = loads(data) if data and frame.whole else None
        except NotJson:
            chunk = None
            if is_open and self._will_add:
                # Cut off in the middle: a frame added after it would become part of it.
                self._evidence.note("dropped", "an event without its end")
                return None
        self._open_ended = is_open
        waiting = PendingFrame(frame)
        if isinstance(chunk, dict) and isinstance(chunk.get("choices"), list):
            waiting.parsed = chunk
            for position, value in enumerate(chunk["choices"]):
                channel = self._channels.of_choice(value, position)
                if channel is not None:
                    if len(frame.raw) <= MAX_METADATA:
                        channel.latest = {**chunk, "choices": [value]}
                    waiting.parts.append(self._take_in_choice(channel.new_part(position), value))
        elif frame.is_error or read_error(chunk):
            self._fail()
        self._pending.add(waiting)
        return waiting

    def _take_in_choice(self, part: PendingPart, value: Json) -> PendingPart:
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

    def _scan(self, part: PendingPart, received: Iterable[Passage]) -> None:
        for passage in received:
            if passage.fields != part.channel.fields:
                self._prefilter.text_began(passage.fields)
            part.channel.read(part, passage)

    # The end

    def close(self) -> list[Frame]:
        """The stream has ended: what was held, and a finish reason if none came."""
        if self._unread.frames:
            self._read_passed()
            self._read_unread()
        self._end()
        return self._pending.take()

    def _end(self, *, done: bool = False) -> None:
        """Close every choice; give one that called tools and has no finish reason its own.
        `done`: the upstream has sent ``[DONE]``."""
        in_calls = [channel.scanner.in_call for channel in self._channels.all]
        self._end_channels(lambda scanner: scanner.close(whole=done))
        for channel, in_call in zip(self._channels.all, in_calls, strict=True):
            if not channel.finished and (channel.calls.repaired or in_call):
                channel.finished = True
                finish = "length" if in_call else "tool_calls"
                self._evidence.note("added finish_reason", finish)
                self._append([added_chunk(channel.last_chunk, {}, finish)])

    def _fail(self) -> None:
        """The upstream has failed: what is open stays so, and what is held is text."""
        self._end_channels(Scanner.abandon)
        for channel in self._channels.all:
            channel.finished = True

    def _end_channels(self, end: Callable[[Scanner], list[ScanEvent]]) -> None:
        """The last of every channel, after all that waits; a frame for it may be missing."""
        last = [(each, each.end(each.new_part(), end)) for each in self._channels.all]
        self._pending.let_out(several=len(last) > 1)
        for channel, deltas in last:
            self._append([added_chunk(channel.last_chunk, delta) for delta in deltas])

    @property
    def _will_add(self) -> bool:
        """Whether frames of our own are added at the end of the stream."""
        return any(
            channel.scanner.in_call or (channel.calls.repaired and not channel.finished)
            for channel in self._channels.all
        )

    def _append(self, frames: list[Frame]) -> None:
        """Send frames of our own after those of the upstream."""
        if frames and self._open_ended:
            self._pending.append([Frame(b"\n\n")])
            self._open_ended = False
        self._pending.append(frames)

    # A fault

    def has_taken_in(self, frame: Frame) -> bool:
        return self._pending.has_taken_in(frame)

    def end_after_fault(self) -> None:
        """What comes after a fault is forwarded as it comes."""

    def release(self) -> list[Frame]:
        """After a fault: everything that has not left, as it came where that is possible."""
        held = [(channel.last_chunk, channel.held_text) for channel in self._channels.all]
        frames = [added_chunk(latest, {"content": text}) for latest, text in held if text]
        natives = [(channel.last_chunk, channel.natives.flush()) for channel in self._channels.all]
        frames += [added_chunk(latest, {"tool_calls": calls}) for latest, calls in natives if calls]
        return [*self._pending.flush(frames), *self._unread.take()]

    def _give_up(self) -> None:
        """Let everything out as it came, and all that comes after it."""
        self._evidence.note("gave up repair", "too much to hold back")
        self._pending.append(self.release())
        self._channels.clear()
        self._gave_up = True
