"""One text of a reply: the texts of its frames go in, and the results go back to the frames.

A channel is a text that a model writes from its start to its end, in which calls may leak: in
a chat completion all text of one choice, thoughts and answer, in different fields.  It has no
frames, only those parts of them that belong to it; text goes back to the part from which it
came, a call to the part that completes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..notes import Evidence
from ..wire.chat_delta import choice_index
from ..wire.chat_end import is_whole
from ..wire.chat_text import CONTENT, Passage, by_passage, text_of_fields
from ..wire.json_codec import Json, loads
from ..wire.sse import Frame
from .call_builder import CallBuilder
from .call_rule import rules_for
from .declared_tools import DeclaredTools
from .events import CallEnd, Dropped, LeftAsText, ScanEvent, Text
from .formats.active import ActiveFormats
from .formats.protocol import NOTHING_HELD, Held
from .native_calls import NativeCalls
from .pending import PendingPart, Policy, fields_of, finish_after, note_piece
from .scanner import Scanner

MAX_CHANNELS = 128
"""Channels of one reply that are read; others are forwarded as they are."""


@dataclass(slots=True, eq=False)
class TextChannel:
    """Repairs one text."""

    scanner: Scanner
    calls: CallBuilder
    natives: NativeCalls
    policy: Policy
    evidence: Evidence
    latest: Json | bytes
    """The latest chunk that belongs to it, if it is not too large; or its frame, if it has not been
    parsed, and belongs to nothing else."""
    fields: tuple[str, ...] = ()
    """Those that carry the text now."""
    length: int = 0
    """Characters of it so far."""
    open_parts: deque[PendingPart] = field(default_factory=deque)
    role_seen: bool = False
    finished: bool = False
    cut: bool = False
    """Whether a call was cut off."""
    held_call: Held = NOTHING_HELD
    """What was held of a call after the latest frame (`Scanner.held_call`)."""
    closed_parts: list[PendingPart] = field(default_factory=list)
    """Those that were decided since then."""

    # What is asked

    @property
    def last_chunk(self) -> Json:
        """The latest, whose metadata are those of chunks that are added."""
        latest = self.latest
        if isinstance(latest, bytes):
            latest = self.latest = loads(Frame(latest).data or b"")
        return latest

    @property
    def open_call(self) -> int:
        """Which repaired call is open: the first is 1; 0 for none."""
        return self.calls.repaired if self.scanner.in_call else 0

    @property
    def held_text(self) -> str:
        return self.held_call.text

    @property
    def resting(self) -> bool:
        """Whether a frame without any text needs no repair as far as this goes."""
        if self.calls.repaired and not self.finished:
            return False
        return self.scanner.between and self.natives.resting

    # The texts of frames

    def new_part(self, position: int = 0) -> PendingPart:
        """For a frame with text of this channel, at a position among its choices."""
        part = PendingPart(position, self)
        self.open_parts.append(part)
        return part

    def read(self, part: PendingPart, passage: Passage) -> None:
        if passage.fields != self.fields:
            self._place(part, self._enter(passage.fields))
        size = len(passage.text)
        passage.begin = self.length
        part.passages.append(passage)
        part.size += size
        self.length += size
        self._place(part, self.scanner.feed(passage.text))

    def passed(self, fields: tuple[str, ...], text: str) -> None:
        """A text of a frame that passed."""
        if fields != self.fields:
            self._enter(fields)
        self.scanner.passed(text)

    def finish(self, part: PendingPart, reason: object) -> None:
        """A frame has the reason why the text has ended."""
        part.add_calls(self.natives.flush())
        self._place(part, self.scanner.close(whole=is_whole(reason)))
        cut = self.cut or self.scanner.cut_in_header
        part.finish = finish_after(reason, self.calls.repaired > 0, cut, self.policy)
        part.changed |= part.finish != reason
        self.finished = True

    def end(self, part: PendingPart, end: Callable[[Scanner], list[ScanEvent]]) -> list[Json]:
        """The reply ends, well or not: the last deltas, for which there is no frame."""
        part.add_calls(self.natives.flush())
        self._place(part, end(self.scanner))
        for open_part in self.open_parts:
            open_part.open = False
        self.open_parts.clear()
        return part.deltas

    def decide(self) -> None:
        """Text was read: see which parts' ends are still undecided."""
        decided = self.length - self.scanner.undecided
        while self.open_parts:
            part = self.open_parts[0]
            last = part.passages[-1] if part.passages else None
            part.open = last is not None and last.begin + len(last.text) > decided
            if part.open:
                break
            self.closed_parts.append(self.open_parts.popleft())
        if self.open_parts and not self.open_parts[-1].passages:
            self.open_parts[-1].open = False
            self.closed_parts.append(self.open_parts.pop())

    def give_back(self) -> None:
        """The frames that wait will be read again, or not at all."""
        self.open_parts.clear()
        self.scanner.give_back()

    def settle(self) -> None:
        """A frame has been processed: remember what is held of it and those before.  Results for
        frames that have left may be in the first that waits, or in the latest."""
        self.held_call = self.scanner.held_call
        for part in self.closed_parts:
            part.settled = True
        self.closed_parts.clear()
        if self.open_parts:
            decided = self.length - self.scanner.undecided
            self.open_parts[0].remember(decided)
            if len(self.open_parts) > 1 and self.open_parts[-1].deltas:
                self.open_parts[-1].remember(decided)

    # What becomes of it

    def _enter(self, fields: tuple[str, ...]) -> list[ScanEvent]:
        self.fields = fields
        return self.scanner.enter(text_of_fields(fields))

    def _place(self, part: PendingPart, events: list[ScanEvent]) -> None:
        """What the scanner has found; all but text goes to this part."""
        for event in events:
            if isinstance(event, Text):
                self._place_text(part, event)
            elif isinstance(event, Dropped | LeftAsText):
                note_piece(self.evidence, event)
            else:
                part.add_calls(self.calls.deltas_of(event))
                self.cut = self.cut or (isinstance(event, CallEnd) and event.cuts_call)

    def _place_text(self, current: PendingPart, piece: Text) -> None:
        """Give text back to the frames it came from; what waits there is decided now."""
        parts = self.open_parts
        first = None
        for part in parts:
            if part.passages:
                first = part
                break
        waits = first.passages[0].begin if first else piece.start + len(piece.text)
        if waits > piece.start:  # text that looked like a header: its frames have left, this waits
            rest = piece.text[: waits - piece.start]
            moves = self.policy.moves and bool(rest.strip())
            part = first or current
            part.add(dict.fromkeys(CONTENT if moves else self.fields, rest))
            part.changed = True
        for part in parts:
            for received, text in by_passage(piece.start, piece.text, part.passages):
                fields = fields_of(piece, received, self.policy)
                part.plain += len(text) if fields == received else 0
                part.has_kinds |= piece.kind is not None
                part.add(dict.fromkeys(fields, text))


class Channels:
    """The channels of one reply."""

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
        self._formats = formats
        self._model = ""
        self._by_index: dict[int, TextChannel] = {}
        self.all = self._by_index.values()

    def set_model(self, model: str, formats: ActiveFormats) -> None:
        """The reply has named its model; in channels to come these formats are looked for."""
        self._model, self._formats = model, formats

    def clear(self) -> None:
        self._by_index.clear()

    def of_choice(self, value: object, position: int) -> TextChannel | None:
        """That of a choice at a position of a chunk; None if that is invalid, or one too many."""
        if not isinstance(value, dict):
            return None
        index = choice_index(value, position)
        if index not in self._by_index:
            if len(self._by_index) >= MAX_CHANNELS:
                return None
            rules = rules_for(self._tools, self._model)
            calls = CallBuilder(self._evidence, self._now, self._tools)
            self._by_index[index] = TextChannel(
                Scanner(self._tools, rules, self._formats),
                calls,
                NativeCalls(self._tools, calls, self._formats, self._evidence),
                self._policy,
                self._evidence,
                {"object": "chat.completion.chunk", "choices": [{"index": index}]},
            )
        return self._by_index[index]
