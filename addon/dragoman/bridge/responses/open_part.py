"""The part of an item whose text is streamed now.

Nearly all events are deltas.  So the bytes around them are prepared when the part is opened, and
a delta costs little more than its own length.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from io import StringIO

from ...wire.json_codec import Json, dumps, quoted
from ...wire.json_slices import LONG_STRING, writing
from ...wire.slices import Slices
from ...wire.sse import Frame
from .event_queue import EventQueue
from .output_items import TEXT, StreamedPart

MANY = 100
"""Log probabilities of one delta that are written at once."""
_AT_ONCE = 10_000
ANNOTATION, HEARTBEAT, LOGPROBS = -1, -2, -2
"""What comes between the deltas of a text, as numbers: an annotation; a ping; `LOGPROBS` less n: n
log probabilities of the delta before."""


class DeltaCuts:
    """Where a text was cut into deltas, and what came between them: the lengths of the deltas, and
    the numbers above."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("h")

    def add(self, number: int) -> None:
        try:
            self._numbers.append(number)
        except OverflowError:  # two bytes are enough for all but a text that comes whole
            self._numbers = array("i", [*self._numbers, number])

    def writing(self, text: str) -> Slices[bytes]:
        """JSON, to be kept with the whole text; the deltas themselves if it has lone surrogates:
        JSON joins two that meet, and the lengths would be wrong."""
        numbers = self._numbers
        try:
            for begin in range(0, len(text), LONG_STRING):
                text[begin : begin + LONG_STRING].encode()
                yield
        except UnicodeEncodeError:
            return (yield from writing([*deltas_of(text, numbers)]))
        written = []
        for begin in range(0, len(numbers), _AT_ONCE):
            written.append(dumps(numbers[begin : begin + _AT_ONCE].tolist())[1:-1])
            yield
        return b"[" + b",".join(written) + b"]"


def deltas_of(text: str, cuts: Sequence[int | str]) -> Iterator[int | str]:
    """The deltas of a text, and as numbers what came between them."""
    at = 0
    for cut in cuts:
        if isinstance(cut, int) and cut >= 0:
            yield text[at : at + cut]
            at += cut
        else:
            yield cut


class OpenPart:
    """The open part of the open `item`, or the one text of a call."""

    def __init__(self, item: Json, part: StreamedPart, where: Json, events: EventQueue) -> None:
        """`where`: the fields of its events that say which part it is."""
        self.item = item
        self.part = part
        self.where = where
        self.text = StringIO(newline="")
        """The text so far; a list of deltas would take ten times as much memory."""
        self.cuts = DeltaCuts()
        self.logprobs: list[Json] = []
        self.annotations: list[Json] = []
        self._events = events
        event = part.text.delta
        self._before = f'event: {event}\ndata: {{"type":"{event}","sequence_number":'.encode()
        self._between = b"," + dumps(where)[1:-1] + b',"delta":'
        self._after = b',"logprobs":[]}\n\n' if part is TEXT else b"}\n\n"

    def append(self, delta: str, after: bytes = b"") -> None:
        """Write a delta of at most `LONG_STRING` characters; `after`: the end of its event, if that
        is not the usual one."""
        self.text.write(delta)
        self.cuts.add(len(delta))
        events = self._events
        around = self._before, events.number, self._between, quoted(delta), after or self._after
        events.number += 1
        events.frames.append(Frame(b"%b%d%b%b%b" % around))

    def append_any(self, delta: str, logprobs: Sequence[Json]) -> None:
        """Write a delta of any length, with the log probabilities of its tokens."""
        if len(delta) <= LONG_STRING and len(logprobs) <= MANY:
            self.append(delta, b',"logprobs":' + dumps(logprobs) + b"}\n\n" if logprobs else b"")
        else:
            self.text.write(delta)
            self.cuts.add(len(delta))
            fields: Json = {"logprobs": [*logprobs]} if self.part is TEXT else {}
            self._events.add_final(self.part.text.delta, **self.where, delta=delta, **fields)
        if logprobs:
            self.logprobs += logprobs
            self.cuts.add(LOGPROBS - len(logprobs))

    def fill(self) -> str:
        """Put the text into the item; returns it."""
        part, text = self.part, self.text.getvalue()
        if part.holder:
            whole = self.item[part.holder][-1] | {part.text.field: text}
            if part is TEXT:
                whole |= {"annotations": self.annotations, "logprobs": self.logprobs}
            self.item[part.holder][-1] = whole
        else:
            self.item.get("function", self.item)[part.text.field] = text
        return text
