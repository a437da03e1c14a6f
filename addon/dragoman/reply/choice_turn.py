"""What one choice of a reply has thought and called, kept until its turn has ended: so much as the
memory of reasoning, and the check of the host's own calls, need."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from io import StringIO

from ..wire.chat_calls import CallDelta
from ..wire.reply_bounds import MAX_REPLY, Budget
from .words import Part, Status

_CALL = 1024
"""What a call counts beside its arguments."""


@dataclass(slots=True)
class _Call:
    """A call, as far as it has come."""

    kind: str
    """``function``, or another kind."""
    name: str = ""
    id: str = ""
    arguments: StringIO = field(default_factory=partial(StringIO, newline=""))


@dataclass(slots=True)
class ChoiceTurn:
    """What one choice has thought and called."""

    thoughts: list[str] = field(default_factory=list)
    """Only where they are kept."""
    calls: dict[Part, _Call] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    """Of what is kept of all choices of its reply."""
    whole: bool = True
    """Whether all is kept; if not, nothing counts."""
    finish: str = ""
    """Its finish reason, or what a `Status` is as one."""
    status: Status | None = None
    """Of a response, where its host said that last."""
    ended: bool = False
    taken: bool = False

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts) if self.whole else ""

    @property
    def call_deltas(self) -> list[CallDelta]:
        """Each call as one delta."""
        calls = (call for part, call in self.calls.items() if part.kind == "call")
        return [CallDelta(None, call.id, call.name, call.arguments.getvalue()) for call in calls]

    @property
    def due(self) -> bool:
        """Whether it has ended in calls, with thoughts that are kept, and has not been taken."""
        return bool(self.ended and self.calls and self.thoughts and not self.taken)

    def end(self, finish: str, status: Status | None) -> None:
        """A finish reason, or a status, if there is one."""
        said = finish if status is None else status.finish
        if said:
            self.finish, self.status = said, status

    def think(self, text: str) -> None:
        self.budget.kept += len(text)
        if self.budget.kept > MAX_REPLY:
            self.whole = False
        elif self.whole:
            self.thoughts.append(text)

    def begin(self, part: Part, name: str, call_id: str = "") -> None:
        """A call begins, or more of its name or its id has come."""
        if part not in self.calls:
            self.budget.kept += _CALL
            self.calls[part] = _Call(part.type or "function")
        call = self.calls[part]
        call.name, call.id = name or call.name, call_id or call.id

    def add(self, part: Part, text: str) -> None:
        """Arguments of a call."""
        self.budget.kept += len(text)
        if self.budget.kept > MAX_REPLY:
            self.whole = False
        elif self.whole and (call := self.calls.get(part)) is not None:
            call.arguments.write(text)
