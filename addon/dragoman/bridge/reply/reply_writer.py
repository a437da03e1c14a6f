"""What a bridged reply needs of the writer of its client's API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ...reply.event_queue import EventQueue
from ...reply.parts_in_order import PartsInOrder
from ...reply.words import Delta
from ...wire.errors import ErrorForm, ErrorObject
from ...wire.finish_reasons import TurnEnd
from ...wire.json_codec import Json
from ...wire.usage import Counts


class ReplyWriter(Protocol):
    """Writes one reply of the client's API as `events`: its start, then what is said in order, then
    its one end."""

    errors: ErrorForm
    """How its client reads an error in place of the reply."""
    started: bool
    ended: bool
    """Whether the start has been written, and the end."""

    @property
    def events(self) -> EventQueue:
        """What has been written and not sent yet."""

    @property
    def seeks_summary(self) -> bool:
        """Whether the reply is a text alone, that has not come so far."""

    @property
    def response(self) -> Json:
        """The reply so far; after its end, the body of one that is not streamed."""

    def open(self) -> None:
        """The upstream's headers have come."""

    def start(self) -> None:
        """The first time, the beginning of the reply."""

    def heartbeat(self) -> None:
        """An event without news; none after the end."""

    def say(self, delta: Delta) -> None:
        """The next delta, in order."""

    def fault(self, finish: TurnEnd, lack_value: Sequence[str], *, answered: bool) -> str:
        """Why a turn cannot end so; empty if it can.  `lack_value`: the names of calls that are
        still to come, and end before their arguments do.  `answered`: there is more than
        reasoning."""

    def settle(self, *, cut: bool) -> None:
        """Nothing more is said; `cut`: the turn was cut short."""

    def finish(self, finish: TurnEnd, counted: Counts | None, stopped_by: str) -> None:
        """The end of a turn, after `settle`.  `stopped_by`: the sequence at which it stopped, if
        the host says so."""

    def abandon(self) -> None:
        """The turn has failed, or breaks off: what is open stays so."""

    def report(self, error: ErrorObject, counted: Counts | None) -> None:
        """The end of a turn that failed, after `abandon`."""


def say(writer: ReplyWriter, order: PartsInOrder, deltas: Iterable[Delta]) -> None:
    """Write what is said, and what no longer waits in the `order`."""
    for delta in deltas:
        for each in order.take(delta):
            writer.say(each)
