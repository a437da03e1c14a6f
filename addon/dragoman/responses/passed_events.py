"""What a client has of a response that passes as its host wrote it: for the first change, which
ends what is open, and for heartbeats.

The events after a heartbeat have the numbers that follow; nothing else in them is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ..reply.words import CallBegin, Cited, Delta, Other, Part, PartBegin, PartEnd, Text
from ..wire.json_codec import Json, dumps
from ..wire.sse import Frame, encode_chunk, encode_event
from .heartbeats import snapshot_again, without_news
from .host_reader import HostText
from .names import DONES


def number_in(event: Any) -> int | None:
    number = event.get("sequence_number") if isinstance(event, dict) else None
    return number if type(number) is int else None


def numbered(frame: Frame, event: Json, number: int) -> Frame:
    """The frame of an event with this number in place of its own."""
    return encode_chunk({**event, "sequence_number": number}, frame.other_lines)


@dataclass(slots=True, eq=False)
class SentText:
    annotations: list[Json] = field(default_factory=list)
    buffer: StringIO = field(default_factory=lambda: StringIO(newline=""))


@dataclass(slots=True, eq=False)
class SentItem:
    """An item that the client has, as far as it has it."""

    value: Json
    done: bool = False
    texts: dict[HostText, SentText] = field(default_factory=dict)
    open: HostText | None = None
    """The text of these that has not ended."""

    def up_to_now(self) -> Json:
        lists: dict[str, list[Json]] = {}
        if self.value.get("type") == "reasoning" and not self.done:
            lists["summary"] = []
        for text, sent in sorted(self.texts.items(), key=lambda each: each[0].place):
            value = text.value | {text.part.text.field: sent.buffer.getvalue()}
            lists.setdefault(text.place.holder, []).append(value)
        return {**self.value, **lists}


class PassedEvents:
    def __init__(self) -> None:
        self.heartbeats = 0
        """How many were sent."""
        self.items: dict[int, SentItem] = {}
        """By the host's output indexes."""
        self._response: Json | None = None
        """The latest snapshot."""
        self._delta: Json | None = None
        """The latest delta, if nothing has ended since."""
        self._number: int | None = None
        """The latest event's own; None if none had one."""

    def more(self, text: HostText, delta: str) -> bool:
        """More of a text leaves; returns whether that is known."""
        item = self.items.get(text.index)
        sent = item.texts.get(text) if item is not None else None
        if sent is not None:
            sent.buffer.write(delta)
        return sent is not None

    def follow(self, delta: Delta) -> None:
        """A word leaves."""
        match delta:
            case Text(part=part, text=text):
                host = part.place
                item = self.items.setdefault(host.index, SentItem({}))
                item.texts.setdefault(host, SentText()).buffer.write(text)
                item.open = host
            case PartBegin(part=part, raw=raw) | CallBegin(part=part, raw=raw):
                self.items[part.place] = SentItem(raw)
            case PartEnd(part=part, raw=raw):
                self.items[part.place] = SentItem(raw, done=True)
            case Other(part=Part() as part, ends_text=True) if part.place in self.items:
                self.items[part.place].open = None
            case Cited(annotations=annotations, part=Part() as part) if part.place in self.items:
                item = self.items[part.place]
                if item.open is not None:
                    item.texts[item.open].annotations += annotations
            case _:
                pass

    def sent(self, frame: Frame, event: Any) -> Frame:
        """The frame of an event, or of any other value, as it leaves: as it came, but for its
        number if heartbeats came before it."""
        if not isinstance(event, dict):
            return frame
        if isinstance(event.get("delta"), str):
            self._delta = event
        elif isinstance(response := event.get("response"), dict):
            self._response = response
        elif "item" in event or "part" in event or event.get("type") in DONES:
            self._delta = None
        if type(number := event.get("sequence_number")) is not int:
            return frame
        self._number = number
        return numbered(frame, event, number + self.heartbeats) if self.heartbeats else frame

    def heartbeat(self) -> Frame | None:
        """None before the first snapshot."""
        if self._response is None:
            return None
        if self._delta is not None:
            return self._next(without_news(self._delta))
        output = [self.items[index].up_to_now() for index in sorted(self.items)]
        response = {**self._response, "output": output}
        response = snapshot_again(response, len(dumps(response)))
        return self._next({"type": "response.in_progress", "response": response})

    def _next(self, event: Json) -> Frame:
        """A heartbeat has the number after the latest event's."""
        self.heartbeats += 1
        if self._number is not None:
            number = self._number + self.heartbeats
            event = {**event, "sequence_number": number}
        return encode_event(event)
