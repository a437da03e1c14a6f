"""One part after another, whatever a model mixes: what a chat host says, for APIs whose clients
must receive parts apart.

Chat hosts mix text with the deltas of a call, and the deltas of two calls.  While a call is open,
everything after it waits.  The call ends when its arguments are complete and something waits, else
with the turn.  So no delta of it is cut off, and nothing waits without an open call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field

from ..notes import Evidence, printable
from ..wire.chat_calls import Call
from ..wire.json_codec import Json
from ..wire.reply_bounds import Budget
from .words import Arguments, CallBegin, Cited, Delta, Part, PartEnd, Text

PIECE = 64
"""Bytes that a text takes beside its characters while it waits."""
ITEM = 8 * 1024
"""What an item or a call counts beside its text: a turn has 1,000 of them at most, as each costs
as much as thousands of characters."""


@dataclass(slots=True)
class _Texts:
    """Text that follows an open call."""

    part: Part
    texts: list[str]


@dataclass(slots=True, eq=False)
class _Call:
    """A call, and what of it waits; once it has begun, nothing does."""

    part: Part
    waiting: Call = field(default_factory=Call)
    has_text: bool = False
    begun: bool = False
    whole: bool = False
    """Whether its arguments are complete."""
    closed: bool = False


class PartsInOrder:
    """`take` gives the deltas that leave now; those of all choices are one turn."""

    def __init__(self, names: Set[str], evidence: Evidence, budget: Budget) -> None:
        """`names`: those that a call may have.  `budget`: of the bytes that all texts take, about,
        and the pieces and items that hold them."""
        self._names = names
        self._evidence = evidence
        self._budget = budget
        self.answered = False
        """Whether there is more than reasoning and blanks."""
        self.held = False
        """Whether only the end of the turn may end a call."""
        self._waiting: deque[_Call | _Texts] = deque()
        self._calls: dict[Part, _Call] = {}
        self._kind = ""
        """Of the text that left last."""
        self._open: Part | None = None
        """The part that is open at the client."""
        self._blank: list[str] = []
        self._logprobs: list[Json] = []
        self._annotations: list[Json] = []

    @property
    def empty(self) -> bool:
        """Whether nothing is open, waits, or is still to come."""
        return not self._waiting and not self._blank

    @property
    def half_written(self) -> bool:
        """Whether a call lacks its arguments, or a part of them."""
        return any(not call.whole for call in self._waiting_calls)

    def lacks_name(self, *, cut: bool) -> bool:
        """Whether a call has no name, though the turn ends; `cut`: it was cut short."""
        return any(not c.waiting.name and (c.whole or not cut) for c in self._waiting_calls)

    @property
    def lack_value(self) -> list[str]:
        """The names of calls that have not begun, and end within a string or before a value."""
        waiting = (call.waiting for call in self._waiting_calls if not call.begun)
        return [call.name for call in waiting if call.lacks_value]

    @property
    def _waiting_calls(self) -> list[_Call]:
        return [call for call in self._waiting if isinstance(call, _Call)]

    @property
    def _in_text(self) -> bool:
        return self._open is not None and self._open.kind == "text"

    def take(self, delta: Delta) -> list[Delta]:
        if type(delta) is Arguments and delta.part is self._open:
            return [delta] if delta.text else []
        out: list[Delta] = []
        if isinstance(delta, Text):
            self._text(out, delta)
        elif isinstance(delta, Cited):
            self._annotations += delta.annotations
            self._cite(out)
        elif isinstance(delta, CallBegin | Arguments | PartEnd):
            self._call(out, delta)
        return out

    # Text

    def _text(self, out: list[Delta], delta: Text) -> None:
        """Blanks that would open a message wait for the next text: hosts send a line end before a
        call, which is no message."""
        part, text = delta.part, delta.text
        if part is self._open and not (self._waiting or self._logprobs or delta.logprobs):
            self._budget.size += len(text)
            out.append(delta)
            return
        if part.kind == "text":
            self._logprobs += delta.logprobs
            if not text:
                return
            if text.isspace() and (self._waiting or not self._in_text):
                self._budget.size += PIECE + len(text)
                self._blank.append(text)
                return
            if self._blank:
                text = "".join(self._blank) + text
                self._blank.clear()
        elif part.kind == "reasoning":
            self._logprobs.clear()
        self.answered |= part.kind != "reasoning"
        self._budget.size += len(text)
        if not self._waiting:
            self._write(out, part, text)
            return
        self._budget.size += PIECE
        last = self._waiting[-1]
        if isinstance(last, _Texts) and last.part.kind == part.kind:
            last.texts.append(text)
        else:
            self._waiting.append(_Texts(part, [text]))
        self._advance(out)

    def _write(self, out: list[Delta], part: Part, text: str) -> None:
        if part.kind != self._kind:
            self._budget.size += ITEM
            self._kind = part.kind
        self._open = part
        logprobs = self._logprobs if part.kind == "text" else ()
        out.append(Text(part, text, logprobs))
        if logprobs:
            self._logprobs = []
        if self._annotations:
            self._cite(out)

    def _cite(self, out: list[Delta]) -> None:
        """Annotations wait until a text is open."""
        if self._annotations and self._in_text:
            out.append(Cited(self._annotations))
            self._annotations = []

    # Calls

    def _call(self, out: list[Delta], delta: CallBegin | Arguments | PartEnd) -> None:
        call = self._calls.get(delta.part)
        if call is None:
            self._budget.size += ITEM
            self.answered = True
            self._drop_blank()
            call = self._calls[delta.part] = _Call(delta.part)
            self._waiting.append(call)
        if isinstance(delta, PartEnd):
            call.whole = True
        else:
            if isinstance(delta, CallBegin):
                call.waiting.id = delta.id
                call.waiting.name = delta.name or call.waiting.name
                if delta.part is self._open:
                    out.append(CallBegin(delta.part, delta.id, delta.name))
            if delta.text and delta.part is self._open:
                out.append(Arguments(delta.part, delta.text))
            elif delta.text:
                self._arguments(call, delta.text)
        self._advance(out)

    def _arguments(self, call: _Call, text: str) -> None:
        """Arguments of a call that is not open."""
        call.has_text = True
        if call.closed:
            if text.strip():
                self._evidence.note("dropped", "arguments after the end of their call")
        else:
            call.waiting.add(text)

    def _advance(self, out: list[Delta]) -> None:
        while self._waiting and self._step(out):
            pass

    def _step(self, out: list[Delta], *, final: bool = False, cut: bool = False) -> bool:
        """What leaves of the first that waits, which ends if it may; returns whether it has ended.
        A call without a name may not: the name follows, or the turn fails."""
        first = self._waiting[0]
        if isinstance(first, _Texts):
            self._write(out, first.part, "".join(first.texts))
        else:
            if not first.begun and self._is_named(first):
                self._begin(out, first)
            may_end = len(self._waiting) > 1 and not self.held and first.waiting.name
            if not (final or (may_end and first.whole)):
                return False
            self._end(out, first, cut=cut)
        self._waiting.popleft()
        return True

    def _is_named(self, call: _Call) -> bool:
        """Whether the name is complete: hosts cut names, before any arguments."""
        name = call.waiting.name
        if call.has_text or name not in self._names:
            return bool(name and call.has_text)
        return not [each for each in self._names if each != name and each.startswith(name)]

    def _begin(self, out: list[Delta], call: _Call) -> None:
        call.begun, self._open = True, call.part
        out.append(CallBegin(call.part, call.waiting.id, call.waiting.name))
        out += [Arguments(call.part, text) for text in call.waiting.unsent()]
        call.waiting.fragments = []

    def _end(self, out: list[Delta], call: _Call, *, cut: bool) -> None:
        call.closed = True
        cut = cut and not call.whole
        if cut and not call.begun:
            name = printable(call.waiting.name[:80]) or "no name"
            self._evidence.note("dropped", f"call of {name} that was cut")
            return
        if not call.begun:
            self._begin(out, call)
        out.append(PartEnd(call.part, cut))
        self._open = None

    # The end

    def settle(self, *, cut: bool) -> list[Delta]:
        """The turn is over: all leaves, and calls end; `cut` if it was cut short."""
        out: list[Delta] = []
        while self._waiting and self._step(out, final=True, cut=cut):
            pass
        if self._calls:
            self._drop_blank()
        elif self._blank:
            self._write(out, Part("text"), "".join(self._blank))
            self._blank.clear()
        self._open = None
        if self._annotations:
            self._evidence.note("dropped", "annotation without text", len(self._annotations))
            self._annotations = []
        return out

    def abandon(self) -> None:
        """The turn has failed: what waits is dropped, but for what has begun."""
        first = self._waiting[0] if self._waiting else None
        begun = isinstance(first, _Call) and first.begun
        if len(self._waiting) > begun:
            self._evidence.note("dropped", "what waited in line", len(self._waiting) - begun)
        self._waiting.clear()
        self._blank.clear()
        self._logprobs.clear()
        self._annotations.clear()

    def _drop_blank(self) -> None:
        if self._blank:
            self._evidence.note("dropped", "blank text beside a call")
            self._blank.clear()
