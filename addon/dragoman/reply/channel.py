"""One text as a model writes it, from its start to its end, into which calls may leak.

In a chat reply it is all of a choice, thoughts and answer, in different parts; in any other it is
one part.  Each of its slots brings some of it.  What the scanner makes of it goes back to these:
text to its own slot, a call to the slot that completed it, or that of the next text, if that is
before it.  The invariant: a slot whose text left as it came, and which has no call, is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import groupby

from ..notes import Evidence
from ..repair.events import Dropped, LeftAsText, ScanEvent, SectionStart
from ..repair.events import Text as ScannedText
from ..repair.repair_options import note_piece
from ..repair.scanner import Scanner
from .calls import Calls
from .words import Delta, Kind, Part, Slot, Text

End = Callable[[Scanner], list[ScanEvent]]
"""How a text ends."""
PartOf = Callable[[Kind, Part], Part]
"""Where a text of a kind goes beside a part."""
_KINDS: dict[str, Kind] = {"content": "text", "reasoning": "reasoning"}


class Channel:
    """`moves`: whether what follows a call is of the answer."""

    def __init__(
        self, scanner: Scanner, calls: Calls, part_of: PartOf, evidence: Evidence, *, moves: bool
    ) -> None:
        self.scanner = scanner
        self._calls = calls
        self._part_of = part_of
        self._evidence = evidence
        self._moves = moves
        self.part: Part | None = None
        """That of the text now."""
        self._before: tuple[int, Part | None] = 0, None
        """Where in the text that began, and the part before."""
        self.length = 0
        """Characters of the text so far."""
        self._slots: deque[Slot] = deque()
        """Those whose text is not decided."""
        self.ended = False
        """Whether no more of it comes: only how it ends is to be decided."""
        self.changed = False
        """Whether something has been taken out of it."""

    def may_continue(self, *, call: bool = False) -> bool:
        """Whether something is in doubt that more of the text may decide.  A native `call` ends a
        text in which no call is open."""
        in_doubt = not (self.scanner.between or self.ended)
        return in_doubt and (self.scanner.in_call or not call)

    # Text in

    def add(self, slot: Slot, part: Part, text: str) -> None:
        """A slot brings some of the text."""
        if part is not self.part:
            kind = "content" if part.kind == "text" else "reasoning"
            self.place(slot, self.scanner.enter(kind))
            self._before, self.part = (self.length, self.part), part
            part.channel = self
        self.wait(slot, text)
        if events := self.scanner.feed(text):
            self.place(slot, events)

    def wait(self, slot: Slot, text: str) -> None:
        """A slot is open until it is decided what becomes of this text; a long one comes in
        pieces."""
        self.length += len(text)
        if self._slots and self._slots[-1] is slot:
            slot.end = self.length
            return
        slot.begin = self.length - len(text)
        slot.end = self.length
        self._slots.append(slot)
        slot.said.open += 1

    def decide(self, *, held: bool) -> None:
        """Close the slots whose text is decided.  `held`: that of a call that is held is not, as it
        may be text yet; else such slots are empty, and the text would be in a later one."""
        if not self._slots:
            return
        decided = self.length - self.scanner.undecided
        if held:
            decided -= self.scanner.held_size
        while self._slots and self._slots[0].end <= decided:
            self._slots.popleft().said.open -= 1

    # What the scanner has made of it

    def place(self, slot: Slot, events: list[ScanEvent]) -> None:
        """All but text goes to this slot, which completed it, or to that of the next text, if that
        is before it."""
        starts = [event.start for event in reversed(events) if isinstance(event, ScannedText)]
        for event in events:
            if isinstance(event, ScannedText):
                self._place_text(slot, event)
                starts.pop()
            elif isinstance(event, Dropped | LeftAsText):
                self.changed |= isinstance(event, Dropped)
                note_piece(self._evidence, event)
            elif isinstance(event, SectionStart):
                self._move_before(event.start)
            else:
                self.changed = True
                owner = slot
                if starts:
                    owner = next((each for each in self._slots if each.end > starts[-1]), slot)
                owner.out += self._calls.leaked(event)

    def _move_before(self, start: int) -> None:
        """What a slot has before a section without calls, which begins here, is of the answer."""
        for slot in self._slots if self._moves else ():
            delta = slot.delta
            whole = not isinstance(delta, Text) or delta.part.whole
            if slot.begin < start < slot.end and not (slot.stays or whole):
                move(slot, self._part_of)

    def _place_text(self, current: Slot, piece: ScannedText) -> None:
        """Give text back to the slots that it came with."""
        slots, end = self._slots, piece.start + len(piece.text)
        waits = slots[0].begin if slots else end
        if waits > piece.start:  # what looked like a call: its slots have left, this waits
            owner, rest = slots[0] if slots else current, piece.text[: waits - piece.start]
            begin, before = self._before
            size = max(0, begin - piece.start) if piece.start >= 0 else 0
            for part, text in ((before, rest[:size]), (self.part, rest[size:])):
                if text and part is not None:
                    _append(owner, self._text(piece, part, text))
        for slot in slots:
            begin, size = slot.begin - piece.start, slot.end - slot.begin
            text = piece.text[max(0, begin) : max(0, begin + size)]
            if text and isinstance(slot.delta, Text):
                slot.stays |= piece.start < slot.begin or end > slot.end or piece.kind is not None
                _append(slot, self._text(piece, slot.delta.part, text))

    def _text(self, piece: ScannedText, part: Part, text: str) -> Text:
        """A text in the part for it: that of its kind in its format, or the answer after a call."""
        kind = _KINDS[piece.kind] if piece.kind else None
        if kind is None and piece.trailing and self._moves:
            kind = "text"
        if kind is not None and kind != part.kind:
            part = self._part_of(kind, part)
        return Text(part, text)

    # Its end

    def end(self, slot: Slot, end: End) -> bool:
        """The text ends: all of it is decided.  Returns whether that cuts a call."""
        self.place(slot, end(self.scanner))
        self.decide(held=False)
        if self.part is not None:
            self.part.channel = None
        return self.scanner.cut


def move(slot: Slot, part_of: PartOf) -> None:
    """Texts that are left in a slot are of the answer, but for blanks."""
    for at, delta in enumerate(slot.out):
        if isinstance(delta, Text) and delta.part.kind != "text" and delta.text.strip():
            slot.out[at] = Text(part_of("text", delta.part), delta.text)


def join_pieces(slot: Slot) -> None:
    """All of a long text has been read."""
    slot.in_pieces = False
    pieces, slot.out = slot.out, []
    for part, group in groupby(pieces, lambda each: each.part if isinstance(each, Text) else each):
        if isinstance(part, Part):
            text = "".join(each.text for each in group if isinstance(each, Text))
            _append(slot, Text(part, text))
        else:
            slot.out += group


def _append(slot: Slot, text: Text) -> None:
    """Add a text to what leaves; one that came in one piece is itself."""
    if slot.in_pieces:
        slot.out.append(text)
        return
    last = slot.out[-1] if slot.out else None
    if isinstance(last, Text) and last.part is text.part:
        text = Text(text.part, last.text + text.text)
        slot.out.pop()
    delta: Delta | None = slot.delta
    if isinstance(delta, Text) and delta.part is text.part and delta.text == text.text:
        text = delta
    slot.out.append(text)
