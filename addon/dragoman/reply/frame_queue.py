"""Repair of a reply of any API: what its reader says in, what its writer is to write out.

| a frame is | while                                          | it …                              |
|------------|------------------------------------------------|-----------------------------------|
| unread     | it is about another part than a text in doubt  | waits                             |
| open       | some of its text may be of a call              | waits                             |
| decided    | it is not, but a frame before it               | waits                             |
| sent       | all before it are decided, too                 | leaves by the writer              |

Nearly every frame only continues the text, or the arguments of a native call: it leaves at once
(`_continue`), and no word is made of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

from ..notes import Evidence
from ..repair.repair_options import RepairOptions
from ..repair.scanner import Scanner
from ..wire.errors import read_error
from ..wire.heartbeats import HEARTBEAT
from ..wire.reply_bounds import (
    MAX_AFTER_OPEN,
    MAX_HELD,
    MAX_HELD_BYTES,
    MAX_REMEMBERED,
    MAX_UNREAD,
    STEP,
    Budget,
)
from ..wire.sse import Frame
from .channel import Channel, join_pieces
from .choice import Choice, Declared
from .stage import RepairStage, Steps
from .unrepaired import Unrepaired
from .words import (
    CallBegin,
    Delta,
    Done,
    Failed,
    Finish,
    More,
    Part,
    Reader,
    Said,
    SameApiWriter,
    Slot,
    Text,
    Writer,
)


class QueuedRepair(RepairStage):
    """Repairs one stream: `reader | repair | writer`.  `declared` says what is known of calls, when
    the first word of a choice, or of a text, has come."""

    def __init__(
        self,
        reader: Reader,
        writer: SameApiWriter,
        declared: Callable[[], Declared],
        options: RepairOptions,
        evidence: Evidence,
    ) -> None:
        self.reader = reader
        self._own_writer = writer
        self._writer: Writer = writer
        self._declared = declared
        self._options = options
        self._evidence = evidence
        self._budget = Budget()
        self._choices: dict[int, Choice] = {}
        """By their choices."""
        self._queue: list[Said] = []
        """The frames that have not left."""
        self._unread: deque[Said] = deque()
        """Those of them that are not read before a text in doubt has ended."""
        self._leaving: list[Said] = []
        """Those that leave now, while they are written."""
        self._size = 0
        """Bytes of the queue."""
        self._followed = 0
        """Bytes that are kept for its end; a chat reply is not kept."""
        self._most_followed = math.inf if reader.one_channel else MAX_HELD_BYTES
        self._lets_go = reader.one_channel
        """Whether the frames of a call that is held leave, empty, before it is known to be one:
        otherwise they leave as they came if it is text."""
        self._changed = False
        """Whether something has left that differs from what came."""
        self._unrepaired: Unrepaired | None = None
        """Where repair has given up."""
        self._in_steps = False
        """Whether a long text may be left in `_unfinished`."""
        self._unfinished: Steps[None] | None = None

    def write_by(self, writer: Writer, budget: Budget) -> None:
        """Before the first frame: the `writer` of another API writes what leaves, so that no frame
        leaves as it came, and thoughts stay thoughts."""
        self._writer, self._changed = writer, True
        self._budget = budget
        self._options = self._options.bridged

    # The interface of `RepairStage`

    def heartbeat(self) -> Frame:
        return HEARTBEAT if self._unrepaired is not None else self._own_writer.heartbeat()

    def error(self, message: str) -> Frame:
        return self._own_writer.error(message)

    @property
    def unfinished(self) -> bool:
        if self.reader.one_channel or self.reader.ended:
            return False
        return self._changed or any(not each.scanner.between for each in self._channels)

    def feed(self, frame: Frame) -> list[Frame]:
        if self._unrepaired is not None:
            passes = self.reader.one_channel or not self._changed
            sent = self._unrepaired.feed(frame)
            return sent if passes else []
        reader, facts = self.reader, self.facts
        if self._followed > self._most_followed:
            return [*self._give_up("a reply that is too long"), *self.feed(frame)]
        if (more := reader.more(frame)) is not None:
            part, text = more
            self._followed += len(text)
            now = not self._queue or (not self._lets_go and self._is_held(part))
            if now and (out := self._continue(frame, more)) is not None:
                return out
            if facts is not None:
                facts.more(frame, reader, more, None)
            said = Said(frame, reader.value)
            said.slots = [Slot(said, reader.delta(part, text))]
            said.lone = reader.counted is None and not reader.says_more
        else:
            self._followed += len(frame.raw)
            frame.note_bound(self._evidence)
            words = reader.read(frame)
            said = Said(frame, reader.value if reader.known else None)
            if facts is not None:
                facts.came(said, reader, words)
            said.slots = [Slot(said, word) for word in words]
        self._take(said)
        if self._unfinished is not None:
            return []  # what leaves is known at the end of the steps
        return self._too_much() or self._release()

    def steps(self, frame: Frame) -> Steps[list[Frame]]:
        self._in_steps = True
        try:
            out = self.feed(frame)
        finally:
            self._in_steps = False
        if (rest := self._unfinished) is not None:
            yield from rest
            self._unfinished = None
            out += self._too_much() or self._release()
        return out

    def close(self) -> list[Frame]:
        """The stream has ended: what was held, and a finish reason if none came."""
        return self._last(partial(self._conclude, whole=False))

    def break_off(self) -> list[Frame]:
        """The upstream broke off: what was held, but for that of a call."""
        return self._last(self._abandon)

    def unsent(self) -> list[Frame] | None:
        """After a fault: the frames that have not left, as they came; None if something has left
        that differs from what came."""
        if self._changed:
            return None
        held = self._leaving or self._writer.held
        return [said.frame for said in (*held, *self._queue)]

    # A frame that only continues

    @staticmethod
    def _is_held(part: Part) -> bool:
        """Whether more of a part's text is of a call that is held, and so waits with it."""
        channel: Channel | None = part.channel
        return channel is not None and channel.scanner.in_call

    def _continue(self, frame: Frame, more: More) -> list[Frame] | None:
        """What leaves for a frame that has more of the text, or of the arguments of a native call;
        None, and nothing is taken, if it may do more than to continue these."""
        (part, text), facts = more, self.facts
        choice = self._choices.get(part.choice)
        if choice is None:
            return None
        channel = part.channel
        if part.kind == "call":
            if not choice.calls.only_continues(part, text):
                return None
            for each in choice.channels.values():
                if not each.scanner.between:
                    return None
            choice.calls.continued(part, text)
            if facts is not None:
                facts.more(frame, self.reader, more, part)
            return self._writer.passed(frame, part, text)
        if channel is None or channel.part is not part or len(choice.channels) > 1:
            return None
        if self.reader.says_more and (choice.calls.leaks or channel.scanner.in_call):
            return None
        if (taken := channel.scanner.take_more(text)) is None:
            return None
        left: Part | None = part if taken else None
        if taken and part.kind == "reasoning" and self._options.moves and choice.calls.leaks:
            left = self.reader.part_of("text", part)
        if facts is not None:
            facts.more(frame, self.reader, more, left)
        if taken:
            channel.length += len(text)
            return self._writer.passed(frame, part, text)
        if self._lets_go:
            channel.length += len(text)
            self._changed = True
            return self._writer.replaced(frame, part)
        said = Said(frame, self.reader.value)
        said.slots = [slot := Slot(said, self.reader.delta(part, text))]
        channel.wait(slot, text)
        self._add(said)
        return self._too_much()

    # Any other frame

    def _take(self, said: Said) -> None:
        self._add(said)
        if self._unread or (not self.reader.one_channel and self._waits(said)):
            said.open += 1
            self._unread.append(said)
            self._read_waiting(said)
        elif self._in_steps and any(map(_is_long, said.slots)):
            said.open += 1
            self._unfinished = self._read_in_steps(said)
        else:
            self._read(said)

    def _add(self, said: Said) -> None:
        self._queue.append(said)
        self._size += len(said.frame.raw)

    def _waits(self, said: Said) -> bool:
        """Whether a frame is about another part than a text in doubt that may go on (items
        overlap)."""
        for slot in said.slots:
            part = getattr(slot.delta, "part", None)
            if part is None:
                return False
            if self._choice(part.choice).waits(part, call=isinstance(slot.delta, CallBegin)):
                return True
        return False

    def _read_waiting(self, last: Said) -> None:
        """Read what waits, if it need not any more; and the `last` that came, if that is about the
        text in doubt, or the end of the reply."""
        if any(isinstance(slot.delta, Finish | Failed | Done) for slot in last.slots):
            for channel in self._channels:
                channel.ended = True
        elif not self._waits(last):
            self._unread.pop()
            last.open -= 1
            self._read(last)
        while self._unread and not self._waits(self._unread[0]):
            said = self._unread.popleft()
            said.open -= 1
            if any(choice.calls.leaks for choice in self._choices.values()):
                self._queue.remove(said)  # what it says follows all that was read before it
                self._queue.append(said)
            self._read(said)

    def _read_all(self) -> None:
        while self._unread:
            said = self._unread.popleft()
            said.open -= 1
            self._read(said)

    def _read_in_steps(self, said: Said) -> Steps[None]:
        """As `_read`, a long text in pieces."""
        for slot in self._in_order(said):
            delta = slot.delta
            if isinstance(delta, Text) and _is_long(slot):
                slot.in_pieces = True
                for at in range(0, len(delta.text), STEP):
                    self._read_word(slot, Text(delta.part, delta.text[at : at + STEP]))
                    yield
                join_pieces(slot)
            elif delta is not None:
                self._read_word(slot, delta)
                yield
        said.open -= 1

    def _read(self, said: Said) -> None:
        for slot in self._in_order(said):
            if slot.delta is not None:
                self._read_word(slot, slot.delta)

    def _in_order(self, said: Said) -> list[Slot]:
        """The words of a frame as they are to be read."""
        slots = said.slots
        if len(slots) > 1:
            for slot in slots:
                if isinstance(slot.delta, CallBegin):
                    self._choice(slot.delta.part.choice).not_alone(slot)
            if any(isinstance(slot.delta, Text) and slot.delta.part.whole for slot in slots):
                # A message that came whole: what leaks in it may repeat one of its calls.
                slots = sorted(slots, key=lambda slot: isinstance(slot.delta, Text | Finish))
        return slots

    def _read_word(self, slot: Slot, delta: Delta) -> None:
        if isinstance(delta, Failed | Done):
            if isinstance(delta, Done):
                self._conclude(slot, whole=True)
            elif len(slot.said.slots) == 1:
                self._abandon(slot)
            slot.out.append(delta)
        elif isinstance(delta, Finish):
            self._choice(delta.choice).read(slot, delta)
        elif delta.part is None:
            slot.out.append(delta)
        else:
            choice = self._choice(delta.part.choice)
            choice.read(slot, delta)
            if slot.said.open:
                choice.decide(held=not self._lets_go)

    @property
    def _channels(self) -> Iterator[Channel]:
        return (each for choice in self._choices.values() for each in choice.channels.values())

    def _choice(self, choice: int) -> Choice:
        if choice not in self._choices:
            made = self.reader, self._declared, self._options, self._evidence
            self._choices[choice] = Choice(choice, *made, budget=self._budget)
        return self._choices[choice]

    # Ends

    def _conclude(self, slot: Slot, *, whole: bool) -> None:
        for choice in self._choices.values():
            choice.conclude(slot, whole=whole)

    def _abandon(self, slot: Slot) -> None:
        for choice in self._choices.values():
            choice.abandon(slot)

    def _let_out(self, slot: Slot) -> None:
        """More of the calls follows, so none that is held to be compared is cut."""
        for choice in self._choices.values():
            choice.close(slot, Scanner.release, whole=True)

    def _last(self, end: Callable[[Slot], None]) -> list[Frame]:
        """The end of the stream, after all frames: what is added is in a slot of our own."""
        if self._unrepaired is not None:
            return []
        self._read_all()
        last = Said(Frame(b""))
        slot = Slot(last, None)
        end(slot)
        out = self._release()
        if slot.out:
            last.slots = [slot]
        sent = self._writer.end(last)
        if self.facts is not None:
            self.facts.left(last, self.reader, sent)
        return out + sent

    # What leaves

    def _release(self) -> list[Frame]:
        """What is sent now; all of that or, if a fault comes in between, nothing.  Where several
        choices run, frames of the others wait for an open one only up to a limit."""
        queue, count = self._queue, 0
        while count < len(queue) and not queue[count].open:
            count += 1
        after = len(queue) - count
        if len(self._choices) > 1 and after > MAX_AFTER_OPEN and after % MAX_AFTER_OPEN == 1:
            leaving = [said for said in queue if not said.open]
            rest = [said for said in queue if said.open]
        elif count:
            leaving, rest = queue[:count], queue[count:]
        else:
            return []
        self._queue, self._leaving = rest, [*self._writer.held, *leaving]
        out, changed = list[Frame](), self._changed
        for said in leaving:
            self._size -= len(said.frame.raw)
            delta = said.slots[0].delta if said.lone else None
            if isinstance(delta, Text) and not said.slots[0].out:  # all of it is of a call
                if self.reader.one_channel:
                    changed = True
                    continue
                if changed:
                    out += self._writer.replaced(said.frame, delta.part)
                    continue
            if self._options.moves:
                self._move(said)
            sent = self._writer.write(said)
            changed = changed or self._writer.changes(said, sent)
            if self.facts is not None:
                self.facts.left(said, self.reader, sent)
            out += sent
        for said in leaving:
            if said not in self._writer.held:
                said.slots = []  # no cycle may keep the declared tools until a collection
        self._leaving, self._changed = [], changed
        self._lets_go = self._lets_go or changed
        return out

    def _move(self, said: Said) -> None:
        """Move what is left of texts beside a call, which may have come in a later frame."""
        texts: dict[int, list[Slot]] = {}
        for slot in said.slots:
            if isinstance(slot.delta, Text) and self._choices[slot.delta.part.choice].calls.leaks:
                texts.setdefault(slot.delta.part.choice, []).append(slot)
        for choice, slots in texts.items():
            self._choices[choice].move(slots)

    # Where repair ends before the stream

    def _too_much(self) -> list[Frame]:
        """What leaves if there is too much of something."""
        if self.reader.remembered > MAX_REMEMBERED:
            return self._give_up("too many calls")
        if not self._waits_for_too_much:
            return []
        if self.reader.one_channel:
            return self._give_up("too much to hold back")
        out: list[Frame] = []
        if not self._lets_go:
            self._lets_go = True
            out = self._decide_all()
        if self._waits_for_too_much:
            self._evidence.note("gave up repair", "too much to hold back")
            self._end_doubt()
            out += self._decide_all()
        return out

    @property
    def _waits_for_too_much(self) -> bool:
        many = len(self._queue) > MAX_HELD or self._size > MAX_HELD_BYTES
        return many or len(self._unread) > MAX_UNREAD

    def _decide_all(self) -> list[Frame]:
        for choice in self._choices.values():
            choice.decide(held=False)
        return self._release()

    def _end_doubt(self) -> None:
        """What may be of a call is text, and what waits for that is read."""
        last = self._queue[-1]
        last.slots.append(slot := Slot(last, None))
        for choice in self._choices.values():
            choice.release(slot)
        self._read_all()

    def _give_up(self, why: str) -> list[Frame]:
        """Let everything out, as it came if nothing has changed, and all that comes after it; a
        reply whose writer numbers all that it has ends with an error, if something has."""
        self._evidence.note("gave up repair", why)
        out = self.unsent()
        if out is None:
            out = self._last(self._let_out)
            if not self.reader.one_channel:
                out.append(self._end_with("The reply is too long."))
        elif self.facts is not None:
            for said in self._queue:
                for slot in said.slots:
                    slot.out = [] if slot.delta is None else [slot.delta]
                self.facts.left(said, self.reader, [said.frame])
        # A leaked call that has left may have the index of one of the host's.
        numbers = self.reader.one_channel and self.reader.remembered <= MAX_REMEMBERED
        writes = self._writer is not self._own_writer or (self._changed and numbers)
        self._unrepaired = Unrepaired(self.reader, self._writer if writes else None, self.facts)
        self._queue, self._choices = [], {}
        return out

    def _end_with(self, error: str) -> Frame:
        """The last that the client receives."""
        frame = self.error(error)
        if self.facts is not None:
            said = Said(frame, frame.json)
            said.slots = [Slot(said, None, [Failed(frame.json, read_error(frame.json))])]
            self.facts.left(said, self.reader, [frame])
            self.facts.client_ended = True
        return frame


def _is_long(slot: Slot) -> bool:
    """Whether its text is read in pieces."""
    delta = slot.delta
    return isinstance(delta, Text) and len(delta.text) > STEP and not delta.part.fixed
