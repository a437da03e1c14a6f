"""Repair of a streamed reply: frames of chat completion chunks in, frames out.

Nearly every frame differs from the one before in one text alone (`SameFrames`), and nearly all of
these only continue the text, or the arguments of the open call: such a frame is written at once
(`_continue`).  Any other goes into the `FrameQueue`, and leaves it once its choices have decided
what becomes of their texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..notes import Evidence
from ..wire.chat_calls import CallDelta
from ..wire.chat_delta import NOT_ONLY, lone_text
from ..wire.chat_text import CONTENT, Passage
from ..wire.errors import read_error
from ..wire.json_codec import Json, dumps, string
from ..wire.same_frames import SameFrames, with_arguments
from ..wire.sse import BLANK_LINE_ENDS, Document, Frame, Only, encode_chunk
from .declared_tools import DeclaredTools
from .events import ScanEvent
from .frame_queue import (
    MAX_METADATA,
    Choice,
    FrameQueue,
    Part,
    WaitingFrame,
    with_delta,
)
from .policy import Policy
from .scanner import Scanner
from .stage import RepairStage

MAX_MISSES = 16
"""Frames in a row that are not like the one before; after so many, none of the stream is."""


class ChatRepair(RepairStage):
    """Repairs one stream of chat completions.  `now` (seconds) is only used for call ids."""

    def __init__(self, tools: DeclaredTools, policy: Policy, evidence: Evidence, now: int) -> None:
        self._policy = policy
        self._evidence = evidence
        self._model_asked_for = tools.model
        self._has_model = False
        """Whether the reply has named its model."""
        formats = policy.formats.active(tools.model)
        self._queue = FrameQueue(tools, policy, evidence, now, formats)
        self._same: SameFrames | None = None
        """The latest frame with one text, if others may be like it."""
        # What all frames like the latest have in common:
        self._choice: Choice | None = None
        self._fields: tuple[str, ...] = ()
        """Where their text is (`LoneText`); none if it is the arguments of a call."""
        self._only: Only | None = None
        """All that one of them says, if nobody has to read it again."""
        self._says_more = False
        """Whether they have a role, or what is said of the whole reply."""
        self._misses = 0
        self._gave_up = False
        self._open_ended = False
        """Whether the latest frame has no blank line at its end."""

    def feed(self, frame: Frame) -> list[Frame]:
        if self._gave_up:
            return [frame]
        queue, same = self._queue, self._same
        if same is not None and (text := same.text_in(frame.raw)):
            self._misses = 0
            chunk: Any = same.chunk  # of an earlier frame, equal but for its text
        else:
            chunk = frame.readable(self._evidence)
            text = self._learn(frame, chunk) if isinstance(chunk, dict) else ""
        choice = self._choice
        if text and choice is not None:
            if choice.latest is not chunk and len(frame.raw) <= MAX_METADATA:
                choice.latest = chunk
            if isinstance(self._only, CallDelta):
                frame.only = CallDelta(self._only.index, "", "", text)
            elif self._only is not None:
                frame.only = self._only[0], text
            if self._only is not None and chunk.get("usage"):
                frame.counted = chunk
            if not queue.waiting:
                go_on = self._continue if self._fields else self._continue_native
                if (out := go_on(frame, choice, chunk, text)) is not None:
                    return out
        if text and choice is not None and self._fields and frame.raw.endswith(BLANK_LINE_ENDS):
            self._open_ended = False
            queue.read(frame, chunk, (choice, Passage(self._fields, text)))
        else:
            self._read(frame, frame.value if text else chunk)
        return self._give_up(queue.too_much) if queue.too_much else queue.release()

    def _find_model(self, chunk: Json) -> None:
        """The model that the reply names may add formats to those looked for."""
        if not self._has_model and (model := string(chunk.get("model"))):
            self._has_model = True
            self._queue.model = model
            self._queue.formats = self._policy.formats.active(self._model_asked_for, model)

    def _learn(self, frame: Frame, chunk: Json) -> str:
        """The one text of a chunk, empty if it says more.  Frames like it are known then."""
        self._find_model(chunk)
        if (found := lone_text(chunk)) is None:
            return ""
        (value,) = chunk["choices"]
        self._fields, text, only = found
        self._only = None if frame.is_error else only
        self._choice = self._queue.choice_of(value, 0)
        self._says_more = "role" in value["delta"] or any(map(chunk.get, NOT_ONLY))
        self._misses += 1
        known = self._misses <= MAX_MISSES
        self._same = SameFrames.of(frame, chunk, self._fields, text) if known else None
        return text

    # A frame that only continues what is open

    def _continue(self, frame: Frame, choice: Choice, chunk: Json, text: str) -> list[Frame] | None:
        """What replaces a frame that only continues the text, or a leaked call, which is held;
        None, and nothing is taken, if this one does not."""
        fields, calls, scanner = self._fields, choice.calls, choice.scanner
        changes = fields != CONTENT and calls.repaired > 0 and self._policy.moves
        if (self._says_more and (changes or scanner.in_call)) or fields != choice.fields:
            return None
        if (taken := scanner.take_more(text)) is None:
            return None
        choice.length += len(text)
        if taken and not changes:
            return [frame]
        self._queue.changed = True
        if taken:
            same = self._same
            if same is not None and same.replaced:
                new = same.replacement(taken)
            else:
                delta = with_delta(chunk, {"content": taken}, counts=True)
                new = encode_chunk(delta, frame.other_lines)
                if same is not None:
                    same.replace(new, taken)
            if self._only is not None:
                new.only = "text", taken
            new.counted = frame.counted
            return [new]
        if not chunk.get("usage"):
            return []
        (value,) = chunk["choices"]
        delta = {name: member for name, member in value["delta"].items() if name not in fields}
        rest = with_delta(chunk, delta, value.get("finish_reason"), counts=True)
        counted = encode_chunk(rest, frame.other_lines)
        counted.counted = frame.counted
        return [counted]

    def _continue_native(
        self, frame: Frame, choice: Choice, chunk: Json, text: str
    ) -> list[Frame] | None:
        """What replaces a frame that only continues the arguments of a native call; or None."""
        (value,) = chunk["choices"]
        (call,) = value["delta"]["tool_calls"]
        if not (choice.scanner.between and choice.natives.rests_at(call["index"])):
            return None
        call = with_arguments(call, text)
        sent = choice.natives.take([call])
        if len(sent) == 1 and sent[0] is call:
            return [frame]
        waiting = WaitingFrame(frame, chunk)
        finish = value.get("finish_reason")
        waiting.parts.append(
            Part(waiting, choice, value["delta"], finish=finish, natives=sent, changed=True)
        )
        self._queue.add(waiting)
        return self._queue.release()

    # Any other frame

    def _read(self, frame: Frame, value: Any) -> None:
        """Read a frame, and let it wait."""
        done = value is None and frame.is_done
        if done:
            self._end(done=True)
        is_open = not frame.raw.endswith(BLANK_LINE_ENDS)
        if is_open and value is None and frame.data and self._will_add and not done:
            # Cut off in the middle: a frame added after it would become part of it.
            self._evidence.note("dropped", "an event without its end")
            self._queue.add(WaitingFrame(frame, replaced=[]))
            return
        self._open_ended = is_open
        if isinstance(value, dict) and isinstance(value.get("choices"), list):
            self._queue.read(frame, value)
            return
        if frame.is_error or read_error(value):
            self._fail()
        self._queue.add(WaitingFrame(frame))

    def document(self, body: bytes) -> bytes:
        """A reply that came whole, repaired; as it came if nothing in it needs that."""
        value = Document(body).readable(self._evidence)
        if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
            return body
        self._find_model(value)
        self._queue.read(Frame(b""), value)
        repaired = self._queue.document()
        return body if repaired is None else dumps(repaired)

    # The end

    def close(self) -> list[Frame]:
        """The stream has ended: what was held, and a finish reason if none came."""
        self._end()
        return self._queue.release()

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what is certain."""
        self._fail()
        return self._queue.release()

    def _end(self, *, done: bool = False) -> None:
        """Close every choice; give one that called tools and has no finish reason its own.
        `done`: the upstream has sent ``[DONE]``."""
        self._end_choices(lambda scanner: scanner.close(whole=done), whole=done)
        for choice in self._queue.choices:
            cut = choice.scanner.cut
            if not choice.finished and (choice.calls.repaired or cut):
                choice.finished = True
                finish = "length" if cut else "tool_calls"
                self._evidence.note("added finish_reason", finish)
                self._append([_added_chunk(choice.latest, {}, finish)])

    def _fail(self) -> None:
        """The upstream has failed: nothing is sent of what is held."""
        self._end_choices(Scanner.abandon, whole=False)
        for choice in self._queue.choices:
            choice.finished = True

    def _end_choices(self, end: Callable[[Scanner], list[ScanEvent]], *, whole: bool) -> None:
        """The last of every choice, after all that waits; a frame for it may be missing."""
        for choice in self._queue.choices:
            part = Part(WaitingFrame(Frame(b"")), choice, {})
            choice.end(part, end, whole=whole)
            deltas = part.deltas()
            self._append([_added_chunk(choice.latest, delta) for delta in deltas])

    @property
    def _will_add(self) -> bool:
        """Whether frames of our own are added at the end of the stream."""
        return any(
            choice.scanner.in_call or (choice.calls.repaired and not choice.finished)
            for choice in self._queue.choices
        )

    def _append(self, frames: list[Frame]) -> None:
        """Send frames of our own after those of the upstream."""
        if frames and self._open_ended:
            frames = [Frame(b"\n\n"), *frames]
            self._open_ended = False
        if frames:
            self._queue.add(WaitingFrame(Frame(b""), replaced=frames))

    # Where repair ends before the stream

    def unsent(self) -> list[Frame] | None:
        """After a fault: the frames that have not left, as they came; None if something has left
        that differs from what came."""
        return None if self._queue.changed else [each.frame for each in self._queue.waiting]

    def _give_up(self, why: str) -> list[Frame]:
        """Let everything out, as it came if nothing has changed, and all that comes after it."""
        self._evidence.note("gave up repair", why)
        self._gave_up = True
        if (unsent := self.unsent()) is None:
            self._end_choices(Scanner.release, whole=False)
            unsent = self._queue.release()
        self._queue.forget()
        return unsent


def _added_chunk(latest: Json, delta: Json, finish: str | None = None) -> Frame:
    """A chunk with the metadata of the latest one."""
    return encode_chunk(with_delta(latest, delta, finish))
