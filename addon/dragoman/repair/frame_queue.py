"""The frames of a reply that wait, in their order, until it is decided what becomes of them.

| a frame is | while                                                    | it …                   |
|------------|----------------------------------------------------------|------------------------|
| open       | the scanner holds back some of its text                  | waits                  |
| decided    | it is not, but a frame before it                         | waits                  |
| sent       | all before it are decided, too                           | leaves, maybe replaced |

A frame leaves as itself if nothing in it has changed.  Else it is replaced by a chunk for each of
its texts and calls, and one for what else it says: a usage, a finish reason.

A choice is one text, which a model writes from its start to its end, thoughts and answer, in
different fields; calls may leak into it.  A frame has a part of it.  What the scanner makes of it
goes back to the parts: text to its own, a call to the one that completed it, or that after it.
The invariant: a part whose text left as it came, and which has no call, leaves its frame unchanged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..notes import Evidence
from ..wire.chat_calls import read_delta
from ..wire.chat_delta import NOT_ONLY, choice_index
from ..wire.chat_end import is_whole
from ..wire.chat_text import (
    CONTENT,
    Passage,
    passages,
    rewritten,
    text_of_fields,
    without_text,
    written,
)
from ..wire.json_codec import Json, array
from ..wire.sse import Frame, encode_chunk
from .call_builder import CallBuilder, Delta
from .call_rule import rules_for
from .declared_tools import DeclaredTools
from .events import Dropped, LeftAsText, ScanEvent, SectionStart, Text
from .formats.active import ActiveFormats
from .native_calls import NativeCalls
from .policy import Policy, note_piece
from .scan_state import ReplyCounts
from .scanner import Scanner

MAX_CHOICES = 128
"""Choices of one reply that are read; others are forwarded as they are."""
MAX_REMEMBERED = 5_000
"""Calls, ids and indexes of one reply that are known, those of 1,000 calls; with elements of
`tool_calls` beside another one."""
MAX_AFTER_OPEN = 256
"""Frames that wait for an open one of another choice."""
MAX_HELD = 16 * 1024
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Frames, and their bytes, that may wait in all: four characters to a frame of what may be a call
(`call_reader.CANDIDATE_LIMIT`).  More is no LLM's reply, and is not repaired any further."""
MAX_METADATA = 64 * 1024
"""Bytes of a frame whose metadata are those of chunks that are added."""


@dataclass(slots=True, eq=False)
class Choice:
    """The text of one choice and its calls."""

    index: int
    scanner: Scanner
    calls: CallBuilder
    natives: NativeCalls
    policy: Policy
    evidence: Evidence
    latest: Json
    """The latest chunk, if it is not too large: its metadata are those of chunks that are added."""
    fields: tuple[str, ...] = ()
    """The fields that carry the text now."""
    _before: tuple[int, tuple[str, ...]] = 0, ()
    """Where in the text they began to, and the fields before."""
    length: int = 0
    """Characters of the text so far."""
    role_sent: bool = False
    finished: bool = False
    _parts: deque[Part] = field(default_factory=deque)
    """The parts whose text is not decided."""

    def read(self, part: Part, passages: list[Passage]) -> None:
        """The texts of a frame."""
        for passage in passages:
            if passage.fields != self.fields:
                self._place(part, self.scanner.enter(text_of_fields(passage.fields)))
                self._before, self.fields = (self.length, self.fields), passage.fields
            if not part.came:
                self._parts.append(part)
                part.waiting.open += 1
            passage.begin = self.length
            part.came.append(passage)
            self.length += len(passage.text)
            part.end = self.length
            if events := self.scanner.feed(passage.text):
                self._place(part, events)

    def called(self, part: Part) -> None:
        """A frame has a native call."""
        self._place(part, self.scanner.not_alone())

    def finish(self, part: Part, reason: object) -> None:
        """A frame has the reason why the text has ended."""
        whole = is_whole(reason)
        self.end(part, lambda scanner: scanner.close(whole=whole), whole=whole)
        called, cut = self.calls.repaired > 0, self.scanner.cut
        part.finish = self.policy.finish_after(reason, called=called, cut=cut)
        part.changed |= part.finish != reason
        self.finished = True

    def end(self, part: Part, end: Callable[[Scanner], list[ScanEvent]], *, whole: bool) -> None:
        """The text ends, well or not: all of it is decided."""
        part.left += self.natives.release()
        self._place(part, end(self.scanner))
        part.left += self.calls.close(cut=not whole)
        self.decide()

    def decide(self) -> None:
        """Text was read: see up to where it is decided."""
        decided = self.length - self.scanner.undecided if self._parts else 0
        while self._parts and self._parts[0].end <= decided:
            self._parts.popleft().waiting.open -= 1

    def _place(self, part: Part, events: list[ScanEvent]) -> None:
        """What the scanner has found.  All but text goes to this part, which completed it, or to
        that of the next text, if that is before it."""
        starts = [event.start for event in reversed(events) if isinstance(event, Text)]
        for event in events:
            if isinstance(event, Text):
                self._place_text(part, event)
                starts.pop()
            elif isinstance(event, Dropped | LeftAsText):
                note_piece(self.evidence, event)
            elif isinstance(event, SectionStart):
                self._move_before(event.start)
            else:
                owner = part
                if starts:
                    owner = next((each for each in self._parts if each.end > starts[-1]), part)
                owner.left += self.calls.deltas_of(event)

    def _move_before(self, start: int) -> None:
        """What a part has before a section without calls, which begins here, is `content`."""
        for part in self._parts if self.policy.moves else ():
            if part.came[0].begin < start < part.end and not (part.stays or part.whole):
                texts = [left for left in part.left if isinstance(left, tuple) and left[1].strip()]
                part.left = [(CONTENT, x[1]) if x in texts else x for x in part.left]

    def _place_text(self, current: Part, piece: Text) -> None:
        """Give text back to the parts that it came with."""
        first = self._parts[0] if self._parts else None
        waits = first.came[0].begin if first else piece.start + len(piece.text)
        if waits > piece.start:  # text that looked like a header: its frames have left, this waits
            owner, rest = first or current, piece.text[: waits - piece.start]
            begin, before = self._before
            size = max(0, begin - piece.start) if piece.start >= 0 else 0
            for fields, text in ((before, rest[:size]), (self.fields, rest[size:])):
                if text:
                    owner.add(self.policy.fields_of(piece, fields), text)
        for part in self._parts:
            begins_before = piece.start < part.came[0].begin
            ends_after = piece.start + len(piece.text) > part.end
            for passage in part.came:
                begin = passage.begin - piece.start
                if text := piece.text[max(0, begin) : max(0, begin + len(passage.text))]:
                    part.stays |= begins_before or ends_after or piece.kind is not None
                    part.add(self.policy.fields_of(piece, passage.fields), text)


Left = tuple[tuple[str, ...], str] | Delta
"""A text with its fields, or the delta of a call."""


@dataclass(slots=True, eq=False)
class Part:
    """What a frame has of one choice, and what becomes of it."""

    waiting: WaitingFrame
    choice: Choice
    original: Json
    """The delta of the choice, or its message, which has the same fields."""
    position: int = 0
    """The choice's in the chunk."""
    whole: bool = False
    """Whether it is a message."""
    finish: object = None
    natives: list[Json] | None = None
    """What leaves of the upstream's own calls."""
    changed: bool = False
    """Whether its calls or its finish reason have changed."""
    came: list[Passage] = field(default_factory=list)
    """Its texts."""
    end: int = 0
    """Where the last of them ends in the choice's text."""
    left: list[Left] = field(default_factory=list)
    """What became of these, and the deltas of the leaked calls that they completed."""
    stays: bool = False
    """Whether its text stays in its fields beside a call: its format says what kind of text it is,
    or a marker that is text goes on in another frame."""

    @property
    def has_changed(self) -> bool:
        return self.changed or self.left != [(each.fields, each.text) for each in self.came]

    def add(self, fields: tuple[str, ...], text: str) -> None:
        """Append a text."""
        last = self.left[-1] if self.left else None
        if isinstance(last, tuple) and last[0] == fields:
            self.left[-1] = fields, last[1] + text
        else:
            self.left.append((fields, text))

    def deltas(self) -> list[Json]:
        """The deltas that replace its texts.  Beside a call, what is left of a text goes to
        `content` (the specification), unless it is blank or `stays`."""
        get, moves = self.original.get, None
        before: tuple[str, ...] = ()
        deltas, text = list[Json](), ""
        for left in self.left:
            if isinstance(left, dict):
                deltas.append({"tool_calls": [left]})
                before = ()
                continue
            moves = self._moves if moves is None else moves
            fields = CONTENT if moves and left[1].strip() else left[0]
            text = (text if fields == before else "") + left[1]
            deltas[len(deltas) - (fields == before) :] = [
                {name: written(name, text, get(name)) for name in fields}
            ]
            before = fields
        return deltas

    @property
    def _moves(self) -> bool:
        if self.stays or not (self.choice.calls.repaired and self.choice.policy.moves):
            return False
        texts = self.texts()
        return any(texts.get(each.fields) != each.text for each in self.came)

    def texts(self) -> dict[tuple[str, ...], str]:
        """What left as text, by its fields."""
        texts: dict[tuple[str, ...], str] = {}
        for left in self.left:
            if isinstance(left, tuple):
                texts[left[0]] = texts.get(left[0], "") + left[1]
        return texts

    def message(self) -> Json:
        """The whole message that replaces the `original`."""
        calls = [*(self.natives or ())]
        for call in self.left:
            if isinstance(call, tuple):
                continue
            if "id" in call:
                calls.append({name: call[name] for name in ("id", "type", "function")})
            else:
                function = calls[-1]["function"]
                arguments = function["arguments"] + call["function"]["arguments"]
                calls[-1] = {**calls[-1], "function": {**function, "arguments": arguments}}
        message = {**self.original}
        for fields, text in ({each.fields: "" for each in self.came} | self.texts()).items():
            for name in fields:
                message[name] = rewritten(name, text, message.get(name))
        if calls or self.natives is not None:
            message["tool_calls"] = calls
        if calls:
            message["content"] = message.get("content") or None
        return message


@dataclass(slots=True, eq=False)
class WaitingFrame:
    """A frame that has not been sent."""

    frame: Frame
    chunk: Json | None = None
    parts: list[Part] = field(default_factory=list)
    open: int = 0
    """How many of them have text that is not decided."""
    says_more: bool = True
    """Whether it has more than texts."""
    replaced: list[Frame] | None = None
    """What is sent in its place, if that is known."""


class FrameQueue:
    """The frames of one reply, and its choices."""

    def __init__(
        self,
        tools: DeclaredTools,
        policy: Policy,
        evidence: Evidence,
        now: int,
        formats: ActiveFormats,
    ) -> None:
        self._tools = tools
        self._policy = policy
        self._evidence = evidence
        self._now = now
        self.formats = formats
        """The formats that are looked for in choices to come."""
        self.model = ""
        """That of the reply."""
        self._made: set[str] = set()
        """See `CallBuilder`."""
        self._choices: dict[int, Choice] = {}
        self._counts = ReplyCounts()
        self.choices = self._choices.values()
        self.waiting: list[WaitingFrame] = []
        self._size = self._beside = 0
        self.too_much = ""
        """What there is too much of, for an answer of an LLM; empty if there is not."""
        self.changed = False
        """Whether something has left that differs from what came."""

    # Frames in

    def choice_of(self, value: object, position: int) -> Choice | None:
        """The choice at a position of a chunk; None if it is invalid, or one too many."""
        if not isinstance(value, dict):
            return None
        index = choice_index(value, position)
        if index not in self._choices:
            if len(self._choices) >= MAX_CHOICES:
                return None
            rules = rules_for(self._tools, self.model)
            calls = CallBuilder(self._evidence, self._now, self._tools, self._made)
            natives = NativeCalls(self._tools, calls, self.formats, self._evidence)
            scanner = Scanner(self._tools, rules, self.formats, self._counts)
            chunk = {"object": "chat.completion.chunk", "choices": [{"index": index}]}
            choice = Choice(index, scanner, calls, natives, self._policy, self._evidence, chunk)
            self._choices[index] = choice
        return self._choices[index]

    def read(self, frame: Frame, chunk: Json, alone: tuple[Choice, Passage] | None = None) -> None:
        """Read a frame with any choices; or with one that has one text `alone` (`lone_text`), which
        need not be that of this `chunk`."""
        waiting = WaitingFrame(frame, chunk)
        for position, value in enumerate(chunk["choices"]):
            choice = alone[0] if alone else self.choice_of(value, position)
            if choice is None:
                continue
            if len(frame.raw) <= MAX_METADATA:
                choice.latest = {**chunk, "choices": [value]}
            delta, message = value.get("delta"), value.get("message")
            whole = isinstance(message, dict) and not isinstance(delta, dict)
            delta = message if whole else delta if isinstance(delta, dict) else {}
            part = Part(waiting, choice, delta, position, whole, value.get("finish_reason"))
            waiting.parts.append(part)
            natives = [] if alone else array(delta.get("tool_calls"))
            if natives:
                choice.called(part)
            if natives and whole:  # so is each of them, and what leaks may repeat one
                part.natives = choice.natives.take_whole(natives)
            choice.read(part, [alone[1]] if alone else passages(delta))
            if natives and not whole:
                part.natives = choice.natives.take(natives)
                self._beside += len(natives) - 1
                remembered = sum(each.natives.remembered for each in self.choices)
                if remembered + self._beside > MAX_REMEMBERED:
                    self.too_much = "too many calls"
            part.changed = part.natives is not None and part.natives != natives
            if part.finish or whole:  # some hosts send "" for none
                choice.finish(part, part.finish)
            choice.decide()
            waiting.says_more = not alone or bool(chunk.get("usage") or "role" in delta)
        self.add(waiting)

    def add(self, waiting: WaitingFrame) -> None:
        self.waiting.append(waiting)
        self._size += len(waiting.frame.raw)
        if len(self.waiting) > MAX_HELD or self._size > MAX_HELD_BYTES:
            self.too_much = "too much to hold back"

    # Frames out

    def document(self) -> Json | None:
        """The one frame that was read, a whole reply, with all that it calls in its messages; None
        if nothing in it has changed."""
        (waiting,) = self.waiting
        if waiting.chunk is None or not any(part.has_changed for part in waiting.parts):
            return None
        choices = [*waiting.chunk["choices"]]
        for part in waiting.parts:
            value = choices[part.position]
            if part.whole and part.has_changed:
                new = {"message": part.message(), "finish_reason": part.finish}
                choices[part.position] = value | new
        return {**waiting.chunk, "choices": choices}

    def release(self) -> list[Frame]:
        """What is sent now; all of that or, if a fault comes in between, nothing.  Where several
        choices run, frames of the others wait for an open one only up to a limit."""
        waiting, count = self.waiting, 0
        while count < len(waiting) and not waiting[count].open:
            count += 1
        leaving, after = waiting[:count], len(waiting) - count
        if len(self._choices) > 1 and after > MAX_AFTER_OPEN and after % MAX_AFTER_OPEN == 1:
            leaving = [each for each in waiting if not each.open]
        sent, changed = list[Frame](), self.changed
        for each in leaving:
            if each.says_more or each.parts[0].left:
                frames = self._written(each)
                changed = changed or len(frames) != 1 or frames[0] is not each.frame
                sent += frames
            else:  # all of its text is of a call
                changed = True
            each.parts = []  # no cycle may keep the declared tools until a collection
        if len(leaving) == len(waiting):
            self.waiting, self._size = [], 0
        elif leaving:
            left = set(map(id, leaving))
            self.waiting = [each for each in waiting if id(each) not in left]
            self._size -= sum(len(each.frame.raw) for each in leaving)
        self.changed = changed
        return sent

    def forget(self) -> None:
        """Nothing is repaired any more."""
        self.waiting = []
        self._choices.clear()

    def _written(self, waiting: WaitingFrame) -> list[Frame]:
        """The frames that replace a decided one: itself, if nothing changed."""
        if waiting.replaced is not None:
            return waiting.replaced
        parts, chunk, frame = waiting.parts, waiting.chunk, waiting.frame
        if chunk is None or not [part for part in parts if part.has_changed]:
            return [frame]
        written, others = list[Frame](), frame.other_lines
        for part in parts:
            choice = part.choice
            for delta in part.deltas():
                if "role" in part.original and not choice.role_sent:
                    choice.role_sent = True
                    delta = {"role": part.original["role"], **delta}  # noqa: PLW2901
                new = encode_chunk(with_delta(chunk, delta, None, part.position), others)
                one = not (choice.finished or choice.index or any(map(chunk.get, NOT_ONLY)))
                if one and "tool_calls" in delta:
                    new.only = read_delta(delta["tool_calls"][0])
                written.append(new)
                others = b""
        if waiting.says_more and (rest := self._rest(parts, chunk)):
            written.append(encode_chunk(rest, others))
        return written

    def _rest(self, parts: list[Part], chunk: Json) -> Json | None:
        """The chunk without the texts; None if that says nothing."""
        by_position = {part.position: part for part in parts}
        says_something, choices = bool(chunk.get("usage")), []
        for position, value in enumerate(chunk["choices"]):
            part = by_position.get(position)
            if part is None:  # not read
                choices.append(value)
                says_something = True
                continue
            delta = part.original
            texts = {name for passage in part.came for name in passage.fields}
            kept = {name: member for name, member in delta.items() if name not in {*texts, "role"}}
            kept |= {name: more for name in texts if (more := without_text(name, delta[name]))}
            if part.natives is not None:
                kept["tool_calls"] = part.natives
            says_something |= bool(part.finish or value.get("usage") or any(kept.values()))
            if "role" in delta and not part.choice.role_sent:
                kept = {"role": delta["role"], **kept}
                part.choice.role_sent = says_something = True
            name = "message" if part.whole else "delta"
            rest = {**value, name: kept, "finish_reason": part.finish}
            if rest.get("logprobs"):  # they spell out the tokens, markers included
                rest["logprobs"] = None
            choices.append(rest)
        return {**chunk, "choices": choices} if says_something else None


def with_delta(
    chunk: Json, delta: Json, finish: str | None = None, at: int = 0, *, counts: bool = False
) -> Json:
    """A chunk with another delta of its choice `at` a place; with its usage only if it `counts`."""
    value = {**chunk["choices"][at], "delta": delta, "finish_reason": finish}
    value.pop("message", None)
    if value.get("logprobs"):
        value["logprobs"] = None
    new = {**chunk, "choices": [value]}
    if not counts:
        value.pop("usage", None)
        if new.get("usage") is not None:
            del new["usage"]
    return new
