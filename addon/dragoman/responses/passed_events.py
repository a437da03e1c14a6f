"""What a client has of a response that passes as its host wrote it: for heartbeats within it.

Clients take a comment for silence (Codex counts events), so a heartbeat is an official event
without news: the latest delta once more, empty, or a snapshot with the items so far.  The events
after it have the numbers that follow; nothing else in them is changed.
"""

from __future__ import annotations

from ..wire.json_codec import Json, array, dumps
from ..wire.sse import Frame, encode_chunk, encode_event
from .event_writer import LARGE, WITHOUT_REQUEST
from .names import DONES


def without_news(delta: Json) -> Json:
    """The event of a delta once more, empty."""
    return {**delta, "delta": "", **({"logprobs": []} if "logprobs" in delta else {})}


class PassedEvents:
    def __init__(self) -> None:
        self.heartbeats = 0
        """How many were sent."""
        self._response: Json | None = None
        """The latest snapshot."""
        self._output: dict[int, Json] = {}
        """Its items so far, by their output index."""
        self._delta: Json | None = None
        """The latest delta, if nothing has ended since."""
        self._number: int | None = None
        """The latest event's own; None if it had none."""

    def add(self, event: Json, index: int | None) -> None:
        """An event leaves, about the item with this output index."""
        number, response = event.get("sequence_number"), event.get("response")
        self._number = number if type(number) is int else None
        if isinstance(event.get("delta"), str):
            self._delta = event
        elif isinstance(response, dict):
            self._response = response
        elif index is not None and isinstance(item := event.get("item"), dict):
            self._output[index], self._delta = item, None
        elif index is not None and isinstance(part := event.get("part"), dict):
            self._add_part(index, part, event)
        elif event["type"] in DONES:
            self._delta = None

    def _add_part(self, index: int, part: Json, event: Json) -> None:
        holder = "summary" if "summary_index" in event else "content"
        item, at = self._output.get(index), event.get(f"{holder}_index")
        self._delta = None
        if item is not None and type(at) is int:
            self._output[index] = {**item, holder: [*array(item.get(holder))[:at], part]}

    def renumbered(self, frame: Frame, event: Json) -> Frame:
        """The frame of an event that follows the heartbeats."""
        number = event.get("sequence_number")
        if not self.heartbeats or type(number) is not int:
            return frame
        value = {**event, "sequence_number": number + self.heartbeats}
        sent = encode_chunk(value, frame.other_lines)
        sent.only = frame.only
        return sent

    def heartbeat(self) -> Frame | None:
        """None before the first snapshot."""
        if self._response is None:
            return None
        if self._delta is not None:
            return self._next(without_news(self._delta))
        output = [self._output[index] for index in sorted(self._output)]
        response = {**self._response, "output": output}
        if len(dumps(response)) > LARGE:
            response |= WITHOUT_REQUEST
        return self._next({"type": "response.in_progress", "response": response})

    def _next(self, event: Json) -> Frame:
        """A heartbeat has the number after the latest event's."""
        self.heartbeats += 1
        if self._number is not None:
            number = self._number + self.heartbeats
            event = {**event, "sequence_number": number}
        return encode_event(event["type"], event)
