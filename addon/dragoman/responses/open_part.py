"""The part of an item whose text is streamed now.

Nearly all events are deltas.  So the bytes around them are prepared when the part is opened, and
a delta costs little more than its own length.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from ..wire.json_codec import Json, dumps, quoted
from ..wire.sse import Frame
from .event_queue import NumberedEvents
from .output_items import TEXT, StreamedPart


class OpenPart:
    """The open part of the open `item`, or the one text of a call."""

    def __init__(self, item: Json, part: StreamedPart, where: Json, events: NumberedEvents) -> None:
        """`where`: the fields of its events that say which part it is."""
        self.item = item
        self.part = part
        self.where = where
        self.text = StringIO(newline="")
        """The text so far; a list of deltas would take ten times as much memory."""
        self.logprobs: list[Json] = []
        self.annotations: list[Json] = []
        self._events = events
        event = part.text.delta
        self._before = f'event: {event}\ndata: {{"type":"{event}","sequence_number":'.encode()
        self._between = b"," + dumps(where)[1:-1] + b',"delta":'
        self._after = b',"logprobs":[]}\n\n' if part is TEXT else b"}\n\n"

    def append(self, delta: str, logprobs: Sequence[Json] = ()) -> None:
        """Write a delta, with the log probabilities of its tokens."""
        self.text.write(delta)
        events, after = self._events, self._after
        if logprobs:
            self.logprobs += logprobs
            after = b',"logprobs":' + dumps(logprobs) + b"}\n\n"
        if events.wanted:
            around = self._before, events.number, self._between, quoted(delta), after
            events.frames.append(Frame(b"%b%d%b%b%b" % around))
        events.number += 1

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
