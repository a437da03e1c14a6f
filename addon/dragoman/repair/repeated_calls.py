"""Calls that a host sends twice: as markup in a text, and as the parsed call.

One leaked and one native call of a reply with the same name and equal arguments, as JSON values,
are one call, whichever came first; two native ones are two, and two leaked ones are two.  What
comes first leaves as it arrives.  A call that may repeat one is held until both have ended, and
then dropped or released; no other is ever held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any, Generic, TypeVar

from ..notes import Evidence
from ..wire.json_codec import NotJson, dumps, loads
from ..wire.reply_bounds import MAX_CALLS, MAX_REPLY, Budget
from .events import Call

MAX_COMPARED = 2 * MAX_CALLS
"""Calls of a choice that are compared: as many as a client runs, and their repetitions."""
MAX_COMMAS = 50_000
"""About as many values are read at once; arguments with more are equal if their texts are."""
OfHost = TypeVar("OfHost")
"""What an owner sends of a native call."""


@dataclass(slots=True, eq=False)
class ComparedCall:
    """A call as far as it has come, leaked or native."""

    name: str
    """Empty while that is not known: it may be any."""
    leaked: bool
    arguments: StringIO
    held: list[Any] | None = None
    """What of it has not left; None if it leaves as it arrives."""
    empty: bool = True
    """Whether there are none so far."""
    complete: bool = True
    """Whether all arguments so far are kept."""
    ended: bool = False
    paired: bool = False
    """Whether an equal one of the other kind has come."""
    dropped: bool = False
    _value: bytes | None = None

    def equals(self, other: ComparedCall) -> bool:
        """Whether both have ended, with the same name and arguments."""
        known = self.complete and other.complete and self.ended and other.ended
        return known and self.name == other.name and self._read() == other._read()

    def end_of_arguments(self, size: int) -> str:
        """The last characters of the arguments so far, if these are known."""
        if not self.complete:
            return ""
        length = self.arguments.tell()
        self.arguments.seek(max(0, length - size))
        return self.arguments.read()

    def _read(self) -> bytes:
        if self._value is None:
            self._value = _normal_form(self.arguments.getvalue().strip() or "{}")
        return self._value


class RepeatedCalls(Generic[OfHost]):
    """The calls of one reply.  A piece is a leaked call, or what its owner sends of a native one;
    the methods that return pieces return those that leave now."""

    def __init__(self, evidence: Evidence, budget: Budget) -> None:
        """`budget`: what is kept, or held, beyond it is not compared: it equals no other call, and
        leaves as it comes."""
        self._evidence = evidence
        self._budget = budget
        self._calls: list[ComparedCall] = []
        self._held: list[ComparedCall] = []
        self._kinds = set[bool]()
        """Whether there are leaked calls, and native ones."""

    @property
    def full(self) -> bool:
        """Whether calls that begin now are not compared."""
        return len(self._calls) >= MAX_COMPARED

    @property
    def holds(self) -> bool:
        """Whether a call is held."""
        return bool(self._held)

    def begin(self, name: str, *, leaked: bool) -> ComparedCall:
        call: ComparedCall = ComparedCall(name, leaked, StringIO(newline=""))
        if len(self._calls) < MAX_COMPARED:
            self._kinds.add(leaked)
            if len(self._kinds) > 1 and any(self._before(call)):
                call.held = []
                self._held.append(call)
            self._calls.append(call)
        return call

    def leaked(self, call: Call, name: str = "") -> list[Call | OfHost]:
        """A leaked call; `name`: by which its tool is compared, if that is another."""
        compared = self.begin(name or call.name, leaked=True)
        return [*self.add(compared, call, call.arguments), *self.end(compared)]

    def rename(self, call: ComparedCall, name: str) -> list[Call | OfHost]:
        """More of the name has come."""
        call.name = name
        return self._decided()

    def add(
        self, call: ComparedCall, piece: Call | OfHost, arguments: str = ""
    ) -> list[Call | OfHost]:
        """A piece of a call, with these of its arguments."""
        if arguments:
            self.keep(call, arguments)
        if call.dropped:
            return []
        if call.held is None:
            return [piece]
        call.held.append(piece)
        self._budget.kept += len(str(piece))
        call.complete = call.complete and self._budget.kept <= MAX_REPLY
        return [] if call.complete else self._release(call)

    def keep(self, call: ComparedCall, arguments: str) -> None:
        """Arguments of a call that is not held, which have left."""
        call.empty = False
        self._budget.kept += len(arguments)
        if self._budget.kept <= MAX_REPLY:
            call.arguments.write(arguments)
        else:
            call.complete = False

    def end(self, call: ComparedCall) -> list[Call | OfHost]:
        """The arguments of a call are whole."""
        if call.ended:
            return []
        call.ended = True
        return self._decided()

    def close(self, *, cut: bool = False) -> list[Call | OfHost]:
        """No more comes.  `cut`: by a limit; what is held of a call without its end is dropped, as
        nobody knows what it would have repeated."""
        for call in self._calls:
            call.ended |= not cut
        released = self._decided()
        for call in [*self._held]:
            if call.ended:
                released += self._release(call)
            else:
                self._drop(call, "was cut")
        return released

    def _before(self, call: ComparedCall) -> Iterator[ComparedCall]:
        """The calls before this one that it may repeat."""
        for other in self._calls:
            if other is call:
                return
            may_be = other.name == call.name or not (other.name and call.name)
            if may_be and other.leaked != call.leaked and not other.paired:
                yield other

    def _decided(self) -> list[Call | OfHost]:
        """What need not be held any more."""
        released: list[Call | OfHost] = []
        for call in [*self._held]:
            if not call.ended and any(self._before(call)):
                continue  # as nearly all
            before = [*self._before(call)]
            if twin := next((other for other in before if other.equals(call)), None):
                call.paired = twin.paired = True
                self._drop(call, "came twice")
            elif all(other.ended for other in before):
                released += self._release(call)
        return released

    def _release(self, call: ComparedCall) -> list[Call | OfHost]:
        self._held.remove(call)
        held, call.held = call.held, None
        return held or []

    def _drop(self, call: ComparedCall, why: str) -> None:
        self._evidence.change("left out", f"a call of {call.name} that {why}")
        self._held.remove(call)
        call.held, call.dropped = None, True


def _normal_form(arguments: str) -> bytes:
    """One text for all that are equal as JSON values; what is no JSON stays as it is."""
    if arguments.count(",") <= MAX_COMMAS:
        try:
            return dumps(_in_order(loads(arguments)))
        except NotJson:
            pass
    return arguments.encode("utf-8", "surrogatepass")


def _in_order(value: Any) -> Any:
    """The value with its members by name, and its whole numbers without a fraction."""
    if isinstance(value, dict):
        return {name: _in_order(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_in_order(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
