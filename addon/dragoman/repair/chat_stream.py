"""Repair of a streamed reply: frames of chat completion chunks in, frames out.

A frame that needs no repair leaves as the bytes it came in.  Whether it needs repair
may depend on frames that are still to come (its text may end in the start of a
marker); such a frame waits, whole, in `_waiting`, and everything behind it waits too,
so that the order stays.  A frame that needs repair is replaced by one chunk for each
thing it said, each with the metadata of the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..notes import Evidence
from ..wire.chat_delta import choice_index
from ..wire.chat_end import is_whole
from ..wire.chat_text import CONTENT, Passage, Span, by_field, passages, text_of_fields
from ..wire.errors import read_error
from ..wire.frame_templates import KnownTemplate, TemplateCache
from ..wire.json_codec import NotJson, loads, quoted
from ..wire.sse import BLANK_LINE_ENDS, Frame, joined, split
from .call_builder import CallBuilder
from .call_rule import rule_for
from .declared_tools import DeclaredTools
from .events import Arguments, CallEnd, CallStart, ScanEvent, Text
from .formats.kimi_k2.markers import may_hold_marker
from .passed_frames import PassedFrames
from .pending import (
    ChoiceState,
    PendingChoice,
    PendingFrame,
    Policy,
    chunk_like,
    delta_of,
    finish_after,
    note_piece,
    release,
    render,
)
from .pending_frames import PendingFrames
from .prefilter import TEXTS, begins_call, begins_text, holds_text, may_name_text
from .scanner import Scanner
from .templates import ChunkTemplate, one_text, text_of

MAX_CHOICES = 128
"""Choices of one reply that are scanned; further ones are forwarded as they are."""

MAX_INDEX = 2**31
"""An index of a call beyond this is none."""

MAX_LIKE = 64 * 1024
"""Bytes of a frame that serves as the pattern of chunks that are added."""


class ChatStreamRepair:
    """Repairs one stream.  `now` (seconds) only serves to make call ids."""

    def __init__(self, tools: DeclaredTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence
        self._now = now
        self._choices: dict[int, ChoiceState] = {}
        self._waiting = PendingFrames()
        self._out: list[Frame] = []
        self._current: Frame | None = None
        self._taken_in: Frame | None = None
        self._passed = PassedFrames()
        # Fields whose text has not begun: a stripped header may stand at their start.
        self._unread = set(TEXTS) if tools else set()
        self._quiet = self._resting = True
        self._gave_up = False
        self._open_ended = False
        self._patterns: TemplateCache[ChunkTemplate] = TemplateCache()

    def ignores(self, raw: bytes) -> bool:
        """Whether `raw`, one or more whole frames, needs no repair for certain."""
        if self._gave_up:
            return True
        if not self._resting or may_hold_marker(raw) or begins_call(raw):
            return False
        if may_name_text(raw):
            if not self._quiet and holds_text(raw):
                return False
            if begins_text(raw, self._unread):
                return False
        if self._passed.add(raw):
            may_skip = all(choice.scanner.may_skip for choice in self._choices.values())
            if not (may_skip and self._passed.shortened()):
                self._read_passed()
        return True

    def feed(self, frame: Frame) -> list[Frame]:
        """The frames that may leave now that `frame` has come."""
        if self._gave_up or not (frame.whole or self._waiting) or self.ignores(frame.raw):
            return [frame]
        self._current = frame
        if self._passed:
            self._read_passed()
        fitting = self._patterns.match(frame)
        if fitting is None:
            self._read(frame)
        else:
            text, known = fitting
            known.meaning.choice.last_chunk = known.meaning.chunk
            if (more := self._more(text, known.meaning)) is not None:
                return [more]
            self._read_text(frame, text, known)
        self._settle()
        return self._take()

    def _let_out(self) -> None:
        """The latest frame has been taken in: from now on a fault is none of its."""
        self._drain()
        self._taken_in, self._current = self._current, None
        for choice in self._choices.values():
            choice.settle()

    def _settle(self) -> None:
        """A frame is done with."""
        if self._waiting.too_many:
            self._give_up()
        choices = self._choices.values()
        self._resting = not self._waiting and all(choice.resting for choice in choices)
        self._quiet = self._resting and all(choice.quiet for choice in choices)

    def _more(self, text: str, like: ChunkTemplate) -> Frame | None:
        """The short way for a frame like the one before, if all it says is more of the same."""
        choice = like.choice
        if like.written is None or like.call != choice.open_call or self._waiting:
            return None
        if like.fields != choice.fields or not (like.call or self._policy.moves):
            return None
        if not choice.scanner.takes(text):
            return None
        more = Frame(like.written.around(quoted(text)))
        choice.end += len(text)
        self._current = None
        return more

    def _read_text(self, frame: Frame, text: str, known: KnownTemplate[ChunkTemplate]) -> None:
        """The way of a frame that says this text and nothing else, as it fits a pattern."""
        like = known.meaning
        before = like.choice.open_call
        part = PendingChoice(0, like.choice, [])
        like.choice.open_parts.append(part)
        self._scan_text(part, like.fields, text)
        like.choice.decide()
        self._waiting.add(PendingFrame(frame, [part]))
        self._let_out()
        if not self._waiting:
            known.meaning = like.now(text, before, part, self._out)

    def _read(self, frame: Frame) -> None:
        """The long way.  A frame that says one text and nothing else is remembered."""
        self._take_in(frame)
        latest = self._waiting.latest
        said = one_text(latest) if latest and self._patterns.wanted else None
        self._let_out()
        if latest and said and not self._waiting:
            choice = latest.parts[0].choice
            like = ChunkTemplate(choice, said.fields, choice.last_chunk)
            self._patterns.learn(latest.frame, said.text, len(said.fields), text_of, like)

    def close(self) -> list[Frame]:
        """The stream has ended: what was held, and a finish reason if none came."""
        self._end()
        return self._take()

    def whole(self, stream: bytes) -> bytes:
        """A stream that was received whole, repaired."""
        if self.ignores(stream):
            return stream
        repaired = bytearray()
        for frame in split(stream):
            repaired += joined(self.feed(frame))
        return bytes(repaired) + joined(self.close())

    def has_taken_in(self, frame: Frame) -> bool:
        """Whether the latest frame is this one, and all it said has left or would with
        `release`."""
        return frame is self._taken_in

    def release(self) -> list[Frame]:
        """After a fault: everything that has not left, as it came where that is possible.

        The frame in which the fault occurred counts as not begun.
        """
        frames = self._out
        for choice in self._choices.values():
            header, pieces, count = choice.held_call
            held = header + "".join(pieces[:count])
            frames += [chunk_like(choice.last_chunk, {"content": held})] if held else []
        for waiting in self._waiting:
            if waiting.frame is not self._current:
                frames += release(waiting, self._policy)
        frames += [self._current] if self._current is not None else []
        self._out, self._current = [], None
        self._waiting.clear()
        return frames

    def _take(self) -> list[Frame]:
        out, self._out = self._out, []
        return out

    def _give_up(self) -> None:
        """Let everything out as it came, and all that comes after it."""
        self._evidence.note("gave up repair", "too much to hold back")
        self._out = self.release()
        self._choices.clear()
        self._gave_up = True

    # Taking a frame in

    def _take_in(self, frame: Frame) -> None:
        data = frame.data
        if frame.is_done:
            self._end(done=True)
        try:
            chunk = loads(data) if data and frame.whole else None
        except NotJson:
            chunk = None
            if not frame.raw.endswith(BLANK_LINE_ENDS) and self._will_add:
                # Cut off in the middle: what is added behind it would become part of it.
                self._evidence.note("dropped", "an event without its end")
                return
        self._open_ended = not frame.raw.endswith(BLANK_LINE_ENDS)
        if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
            if frame.is_error or read_error(chunk):
                self._fail()
            self._waiting.add(PendingFrame(frame, []))
            return
        waiting = PendingFrame(frame, [], chunk)
        for position, value in enumerate(chunk["choices"]):
            choice = self._choice_of(chunk, value, position)
            if choice is not None:
                if len(frame.raw) <= MAX_LIKE:
                    choice.last_chunk = {**chunk, "choices": [value]}
                waiting.parts.append(self._scan(choice, position, value))
        self._waiting.add(waiting)

    def _choice_of(self, chunk: dict[str, Any], value: object, position: int) -> ChoiceState | None:
        if not isinstance(value, dict):
            return None
        index = choice_index(value, position)
        if index not in self._choices:
            if len(self._choices) >= MAX_CHOICES:
                return None
            model = chunk.get("model")
            rule = rule_for(self._tools, model if isinstance(model, str) else "")
            self._choices[index] = ChoiceState(
                Scanner(self._tools, rule),
                CallBuilder(self._evidence, self._now),
                last_chunk={"object": "chat.completion.chunk", "choices": [{"index": index}]},
            )
        return self._choices[index]

    def _scan(self, choice: ChoiceState, position: int, value: dict[str, Any]) -> PendingChoice:
        delta = delta_of(value)
        part = PendingChoice(position, choice, [])
        choice.open_parts.append(part)
        for passage in passages(delta):
            self._scan_text(part, passage.fields, passage.text)
        natives = delta.get("tool_calls")
        if isinstance(natives, list) and natives:
            part.natives = [_renumbered(native, choice.calls) for native in natives]
            part.changed |= part.natives != natives
        part.finish = value.get("finish_reason")
        if part.finish:  # some hosts send "" for none
            self._place(part, choice.scanner.close(whole=is_whole(part.finish)))
            part.finish = finish_after(
                part.finish, choice.calls.repaired > 0, self._is_cut(choice), self._policy
            )
            part.changed |= part.finish != value["finish_reason"]
            choice.finished = True
        choice.decide()
        return part

    def _scan_text(self, part: PendingChoice, fields: tuple[str, ...], text: str) -> None:
        choice = part.choice
        if fields != choice.fields:
            choice.fields = fields
            self._place(part, choice.scanner.enter(text_of_fields(fields)))
            self._unread -= {b'"%b"' % name.encode() for name in fields}
        end = choice.end + len(text)
        part.spans.append(Span(choice.end, end, fields))
        part.passages.append(Passage(fields, text))
        choice.end = end
        self._place(part, choice.scanner.feed(text))

    def _is_cut(self, choice: ChoiceState) -> bool:
        return choice.cut or choice.scanner.cut_in_header

    # Placing what the scanner found

    def _place(self, part: PendingChoice, pieces: list[ScanEvent]) -> None:
        calls = part.choice.calls
        for piece in pieces:
            if isinstance(piece, Text):
                self._place_text(part, piece)
            elif isinstance(piece, CallStart):
                self._add_calls(part, calls.start(piece))
            elif isinstance(piece, Arguments):
                self._add_calls(part, calls.arguments(piece.text))
            elif isinstance(piece, CallEnd):
                self._add_calls(part, calls.end(piece))
                part.choice.cut = part.choice.cut or (piece.cut and not piece.valid)
            else:
                note_piece(self._evidence, piece)

    def _add_calls(self, part: PendingChoice, deltas: list[dict[str, Any]]) -> None:
        for delta in deltas:
            part.add({"tool_calls": [delta]})
            part.changed = True

    def _place_text(self, current: PendingChoice, piece: Text) -> None:
        """Give text back to the frames it came from; what waits there is decided now."""
        open_parts = current.choice.open_parts
        gone = min((part.spans[0].begin for part in open_parts if part.spans), default=None)
        if gone is None or gone > piece.start:  # a header that was none: its frames have left
            rest = piece.text if gone is None else piece.text[: gone - piece.start]
            moves = self._policy.moves and bool(rest.strip())
            current.add(dict.fromkeys(CONTENT if moves else current.choice.fields, rest))
            current.changed = True
        for part in open_parts:
            for span, text in by_field(piece.start, piece.text, part.spans):
                moves = piece.trailing and self._policy.moves and span.fields != CONTENT
                part.plain += 0 if moves else len(text)
                part.add(dict.fromkeys(CONTENT if moves else span.fields, text))

    # What went by unread

    def _read_passed(self) -> None:
        """Tell the scanners what they have not seen."""
        if self._passed.skipped:
            for choice in self._choices.values():
                choice.scanner.passed_unread()
        for choice, fields, text in self._passed.read(self._choice_of):
            if fields != choice.fields:
                choice.fields = fields
                choice.scanner.enter(text_of_fields(fields))
            choice.scanner.passed(text)

    # Letting frames out

    def _drain(self) -> None:
        """Let out what is decided, in its order.  All of it or nothing: a header may stand
        in one frame and its call in a later one, and after a fault neither has left."""
        decided = self._waiting.decided(several=len(self._choices) > 1)
        frames = [frame for waiting in decided for frame in render(waiting, self._policy)]
        self._waiting.remove(decided)
        self._out += frames

    # The end

    def _end(self, *, done: bool = False) -> None:
        """Close every choice; give one that called tools and has no finish reason its own.
        `done`: the upstream has said that this is the end."""
        in_calls = [choice.scanner.in_call for choice in self._choices.values()]
        self._end_choices(lambda scanner: scanner.close(whole=done))
        for choice, in_call in zip(self._choices.values(), in_calls, strict=True):
            if not choice.finished and (choice.calls.repaired or in_call):
                choice.finished = True
                finish = "length" if in_call else "tool_calls"
                self._evidence.note("added finish_reason", finish)
                self._append([chunk_like(choice.last_chunk, {}, finish)])

    def _fail(self) -> None:
        """The upstream has failed: what is open stays so, and what is held is text."""
        self._end_choices(Scanner.abandon)
        for choice in self._choices.values():
            choice.finished = True

    def _end_choices(self, end: Callable[[Scanner], list[ScanEvent]]) -> None:
        """The last of every choice, for which there may be no frame any more; after all that
        waits."""
        parts = []
        for choice in self._choices.values():
            part = PendingChoice(0, choice, [])
            choice.open_parts.append(part)
            self._place(part, end(choice.scanner))
            for open_part in choice.open_parts:
                open_part.open = False
            choice.open_parts.clear()
            parts.append(part)
        self._drain()
        for part in parts:
            self._append([chunk_like(part.choice.last_chunk, delta) for delta in part.deltas])

    @property
    def _will_add(self) -> bool:
        """Whether the end of the stream adds something behind what came."""
        return any(
            choice.scanner.in_call or (choice.calls.repaired and not choice.finished)
            for choice in self._choices.values()
        )

    def _append(self, frames: list[Frame]) -> None:
        """Send frames of our own behind what came."""
        if frames and self._open_ended:
            self._out.append(Frame(b"\n\n"))
            self._open_ended = False
        self._out += frames


def _renumbered(native: object, calls: CallBuilder) -> Any:
    if not isinstance(native, dict):
        return native
    index = native.get("index", 0)
    if type(index) is not int or not 0 <= index < MAX_INDEX:
        return native
    client_index = calls.native_index(index)
    call_id = calls.native_id(native.get("id"), client_index)
    if client_index == index and call_id == native.get("id"):
        return native
    return {**native, "index": client_index} | ({"id": call_id} if "id" in native else {})
