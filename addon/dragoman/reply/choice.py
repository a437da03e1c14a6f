"""One choice of a reply: its texts, its calls, and how its turn ends.

| word                   | what becomes of it                                                      |
|------------------------|-------------------------------------------------------------------------|
| Text                   | the scanner of its channel reads it; an empty or a fixed one passes     |
| CallBegin              | nothing is JSON alone; other texts end; `Calls` decides what leaves     |
| Arguments … of a call  | `Calls` decides                                                         |
| PartBegin              | other texts end, but for one in doubt that may go on                    |
| PartEnd of a text      | its text may end: what comes next decides what its last characters are  |
| Finish                 | all texts end; the reason is that of the user's options                 |

A choice of a chat reply is one channel, in which a call may begin in the thoughts and end in the
answer.  In any other API each part of text is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ..notes import Evidence
from ..repair.call_rule import Rules
from ..repair.declared_tools import DeclaredTools
from ..repair.formats.marker_search import MarkerSearch
from ..repair.repair_options import RepairOptions
from ..repair.scanner import Scanner
from ..wire.finish_reasons import is_whole
from ..wire.reply_bounds import Budget
from .calls import Calls
from .channel import Channel, End, move
from .words import (
    Arguments,
    CallBegin,
    Delta,
    Finish,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Reader,
    Slot,
    Text,
    Unread,
)


@dataclass(frozen=True, slots=True)
class Declared:
    """What is known of the calls that may leak into a reply."""

    tools: DeclaredTools
    rules: Rules
    formats: MarkerSearch
    """Those that are looked for."""
    compared: Callable[[str], str] = str
    """The name by which a tool is compared, if that is another."""


class Choice:
    """`declared` is asked when a text begins: a reply names its model before it."""

    def __init__(
        self,
        choice: int,
        reader: Reader,
        declared: Callable[[], Declared],
        options: RepairOptions,
        evidence: Evidence,
        *,
        budget: Budget,
    ) -> None:
        self._choice = choice
        self._reader = reader
        self._declared = declared
        self._options = options
        self._evidence = evidence
        self._budget = budget
        known = declared()
        made = choice, known.tools, known.formats, evidence, budget
        self.calls = Calls(*made, compared=known.compared, cut_names=reader.one_channel)
        self.channels: dict[Part | None, Channel] = {}
        """By their parts; that of a reply with one channel a choice has none."""
        self.finished = False
        self.cut = False
        """Whether the end of a text has cut a call."""
        self._changed = False
        """Whether something was taken out of a text."""
        self._answers = self._follows = False
        """Whether there is something that is no thought, and whether that precedes what comes."""

    # What a word does

    def read(self, slot: Slot, delta: Delta) -> None:
        """Read a word of this choice; what leaves of it goes to its slot, or to later ones."""
        if type(delta) is Text:
            self._text(slot, delta)
        elif isinstance(delta, CallBegin):
            self.not_alone(slot)
            self._answers = self._follows = True
            self._end_texts(slot, Scanner.end_before_more, call=True)
            slot.out += [delta] if delta.part.fixed else self.calls.native(delta)
        elif isinstance(delta, Finish):
            self._finish(slot, delta)
        elif isinstance(delta, Arguments | PartEnd | Other) and _of_call(delta):
            slot.out += self.calls.native(delta)
        else:
            if isinstance(delta, PartBegin):
                self._begin(slot, delta.part)
            slot.out.append(delta)
            if isinstance(delta, PartEnd) or (isinstance(delta, Other) and delta.ends_text):
                self._may_end(delta.part)

    def _text(self, slot: Slot, delta: Text) -> None:
        part = delta.part
        if part.fixed or not delta.text:
            slot.out.append(delta)
            return
        key = None if self._reader.one_channel else part
        channel = self.channels.get(key)
        if channel is None:
            if key is not None:
                self._end_texts(slot, Scanner.end_before_more)
            channel = self.channels[key] = self._new_channel(part)
        channel.add(slot, part, delta.text)

    def _new_channel(self, part: Part) -> Channel:
        known = self._declared()
        thinks = part.kind == "reasoning" and not self._reader.one_channel
        formats = known.formats.without_alone() if self._follows or thinks else known.formats
        scanner = Scanner(known.tools, known.rules, formats, self._budget)
        moves = self._options.moves
        return Channel(scanner, self.calls, self._reader.part_of, self._evidence, moves=moves)

    def _begin(self, slot: Slot, part: Part) -> None:
        self._end_texts(slot, Scanner.end_before_more)
        if part.kind != "reasoning":
            self._follows |= self._answers
            self._answers = True

    def not_alone(self, slot: Slot) -> None:
        """The turn has more than a text: JSON alone is no call."""
        for channel in self.channels.values():
            channel.place(slot, channel.scanner.not_alone())

    def _may_end(self, part: Part | None) -> None:
        for mine, channel in self.channels.items():
            channel.ended |= mine is not None and part in (mine, mine.item)

    # Ends

    def waits(self, part: Part, *, call: bool) -> bool:
        """Whether a text is in doubt that more of it may decide, and `part` is another."""
        return any(
            channel.may_continue(call=call)
            for mine, channel in self.channels.items()
            if part is not mine and (mine is None or part is not mine.item)
        )

    def _end_texts(self, slot: Slot, end: End, *, call: bool = False) -> None:
        """Something else begins: a text has ended, unless it is in doubt and may go on."""
        for part, channel in [*self.channels.items()]:
            if part is not None and not channel.may_continue(call=call):
                self._end_text(part, slot, end)

    def _end_text(self, part: Part | None, slot: Slot, end: End) -> None:
        channel = self.channels[part]
        held = bool(channel.scanner.held_call)
        cuts = channel.end(slot, end)
        self._changed |= channel.changed
        # A text that shows the header of a call ends a native reply as its host has ended it.
        self.cut |= cuts and (held or self._reader.one_channel or self._changed)
        if part is not None:
            del self.channels[part]

    def release(self, slot: Slot) -> None:
        """Too much is in doubt: it is text."""
        for part in [*self.channels]:
            self._end_text(part, slot, Scanner.release)

    def close(self, slot: Slot, end: End, *, whole: bool) -> None:
        """The turn ends, well or not: all texts and calls are decided."""
        slot.out += self.calls.release()
        for part in [*self.channels]:
            self._end_text(part, slot, end)
        slot.out += self.calls.close(cut=not whole)

    def _finish(self, slot: Slot, delta: Finish) -> None:
        whole, follows = is_whole(delta.reason), self._follows and not self._reader.one_channel
        end = Scanner.end_before_more if follows else Scanner.close
        self.close(slot, partial(end, whole=whole), whole=whole)
        self.finished = True
        called = self.calls.leaks > 0
        reason = self._options.finish_after(delta.reason, called=called, cut=self.cut)
        if reason != delta.reason:
            delta = replace(delta, reason=reason, status=None)
        slot.out.append(delta)

    def conclude(self, slot: Slot, *, whole: bool) -> None:
        """The reply has ended: a turn with calls has a reason for its end."""
        self.close(slot, partial(Scanner.close, whole=whole), whole=whole)
        if not self.finished and (self.calls.leaks or self.cut):
            self.finished = True
            reason = "length" if self.cut else "tool_calls"
            self._evidence.change("added finish_reason", reason)
            slot.out.append(Finish(self._choice, reason, added=True))

    def abandon(self, slot: Slot) -> None:
        """The reply has broken off: what is held of a call is not given."""
        self.close(slot, Scanner.abandon, whole=False)
        self.finished = True

    # What leaves

    def decide(self, *, held: bool) -> None:
        """See up to where texts are decided; see `Channel.decide`."""
        for channel in self.channels.values():
            channel.decide(held=held)

    def move(self, slots: list[Slot]) -> None:
        """Beside a call, what is left of a frame's texts goes to the answer (the specification),
        unless it is blank, or stays."""
        changed = [slot for slot in slots if not slot.same]
        if changed and not [slot for slot in slots if slot.stays]:
            for slot in slots:
                move(slot, self._reader.part_of)


def _of_call(delta: Arguments | PartEnd | Other) -> bool:
    """Whether `Calls` decides what becomes of it."""
    if isinstance(delta, Other) and delta.unread in (Unread.HEAD, Unread.TOKEN):
        return True
    return delta.part is not None and delta.part.kind == "call" and not delta.part.fixed
