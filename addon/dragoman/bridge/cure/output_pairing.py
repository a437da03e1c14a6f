"""A segment of a conversation: what the assistant sent, and all until it sends again.

A chat upstream wants each segment in one order: the assistant's message, the output of each of
its calls in the order of the calls, then all else.  A client may send it in another, with outputs
missing, doubled or without their call.  A call whose output is missing when its segment ends gets
a stand-in; an output without a call is sent as a message of the user's.

The invariant: a segment's messages depend on it and on what came before it alone.  A client asks
for the next reply where a segment ends, and the reply begins the next; so the messages of one
turn begin with those of the turn before, and a provider's prefix cache holds.  For the same
reason a stand-in stays for good, and an output that comes later is the user's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Output = TypeVar("Output")
NO_OUTPUT = "No output of this call was recorded."
"""The text of a stand-in."""


def lost_call(name: str) -> str:
    """The line before an output that has lost its call."""
    return f"[Output of {f'an earlier call of {name}' if name else 'an earlier tool call'}:]"


@dataclass(slots=True)
class Call(Generic[Output]):
    name: str
    client_id: str
    sent_id: str = ""
    output: Output | None = None


@dataclass(slots=True)
class Segment(Generic[Output]):
    names: dict[str, str] = field(default_factory=dict)
    """The function of the first call with an id, by the client's ids."""
    others: list[Any] = field(default_factory=list)
    """The messages to be sent after the outputs."""
    interrupted: bool = False
    """Whether anyone else has sent a message since the assistant."""
    _waiting: dict[str, deque[Call[Output]]] = field(default_factory=dict)

    def expect(self, call: Call[Output], call_id: str) -> None:
        """The call may be answered by this id; several calls with one id, in their order."""
        self.names.setdefault(call_id, call.name)
        self._waiting.setdefault(call_id, deque()).append(call)

    def answer(self, call_id: str, output: Output) -> bool:
        """Assign an output to the first call of this id that has none; False if there is none."""
        waiting = self._waiting.get(call_id)
        while waiting:
            call = waiting.popleft()
            if call.output is None:  # else it was answered by its other id
                call.output = output
                self.interrupted = True
                return True
        return False

    def add(self, message: Any) -> None:
        self.others.append(message)
        self.interrupted = True
