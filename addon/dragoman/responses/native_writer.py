"""The writer of a response that its host has begun: what the client has of it, and what follows.

An item of the host's that is no text (a call, a search) is copied: its events pass with all their
fields, at the writer's output index.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from ..wire.json_codec import Json, dumps, objects, string
from .dialects import OPENAI
from .event_writer import ItemStatus, Writer
from .heartbeats import without_news
from .host_reader import HOLDERS, HostText
from .open_part import OpenPart
from .output_items import StreamedPart
from .passed_events import SentText

_OWN = frozenset({"id", "type", "status"})
"""Fields of an item that the writer has set."""


class NativeWriter(Writer):
    """Continues `response`; `number` is that of its next event."""

    seals = False  # the host takes only its own form of sealed reasoning
    own_ids = "_repaired"

    def __init__(self, response: Json, number: int, now: int, called: Container[str]) -> None:
        """`called` has the call ids of the conversation before."""
        super().__init__({**response, "output": []}, OPENAI, clock=lambda: now, called=called)
        self.events.number = number
        self.started = True
        self._opening_size = len(dumps(response))
        self._copied_delta: Json | None = None
        """The latest event of an item that is copied, if that was a delta."""

    @property
    def output(self) -> list[Json]:
        """The items that have ended; an index that the host left out has none."""
        return [item for item in self._output if item]

    # What the client has

    def add_sent(self, item: Json) -> int:
        """The next item is this, whole; returns its output index."""
        self._call_ids.add_sent(item)
        self._output.append(item)
        return len(self._output) - 1

    def resume(self, item: Json, text: HostText, sent: SentText) -> None:
        """The next item is open, in this text, of which so much was sent."""
        part, index = text.part, len(self._output)
        where = {"item_id": item["id"], "output_index": index, part.index: text.place.at}
        opened = self.open_part = OpenPart(item, part, where, self.events)
        opened.annotations += sent.annotations
        opened.text.write(sent.buffer.getvalue())

    def end_sent(self, item: Json) -> None:
        """The next item is open, in no text: it ends."""
        self._item_done(item, "completed")

    # Texts

    def begin_text(
        self, part: StreamedPart, item: Json | None, annotations: Sequence[Json]
    ) -> None:
        """A text begins: in this item of the host's, which begins with it, or else in the open
        item if that is of its kind."""
        if item is not None:
            self.close_item()
            empty: Json = {"summary": []} if part.item == "reasoning" else {}
            item = item | empty | {part.holder: [], "status": "in_progress"}
            if not (item.get("id") and isinstance(item["id"], str)):
                del item["id"]
        self._enter(part, item).annotations += annotations

    def more_text(self, delta: str, logprobs: Sequence[Json]) -> None:
        assert self.open_part is not None
        self.open_part.append(delta, logprobs)

    def close_as(self, done: Json, *, changed: bool) -> None:
        """Close the open item as its host has.  Unless it was changed, it has the fields of the
        host's: its lists of parts, too, if these have the text that was written."""
        status: ItemStatus = "incomplete" if done.get("status") == "incomplete" else "completed"
        opened = self.open_part
        if changed or opened is None:
            self.close_item(status)
            return
        self._close_part(opened)
        self.open_part, item = None, opened.item
        for name, value in done.items():
            same = name in HOLDERS and _texts(value) == _texts(item.get(name))
            if same or name not in (*_OWN, *HOLDERS):
                item[name] = value
        self._item_done(item, status)

    # Items and events of the host's

    def other_call_id(self, item: Json) -> str | None:
        """The id of a host's call whose own one a call before it has; None if it keeps its own."""
        wanted = string(item.get("call_id"))
        if not self._call_ids.is_sent(wanted):
            return None
        return self._call_ids.new(wanted, len(self._output))

    def copy_item(self, item: Json) -> int:
        """An item begins; returns its output index."""
        self.close_item()
        index = self.add_sent(item)
        self.events.add("response.output_item.added", output_index=index, item=item)
        return index

    def end_copy(self, index: int, item: Json) -> None:
        self._output[index] = item
        self._copied_delta = None
        self.events.add("response.output_item.done", output_index=index, item=item)

    def copy_event(self, event: Json, **more: object) -> None:
        """Any other event, with more fields."""
        fields = {name: event[name] for name in event if name not in ("type", "sequence_number")}
        self.events.add(event["type"], **fields | more)
        is_delta = isinstance(event.get("delta"), str)
        self._copied_delta = {**event, **more} if is_delta else None

    def heartbeat(self) -> None:
        if self.open_part is None and self._copied_delta is not None:
            self.copy_event(without_news(self._copied_delta))
        else:
            super().heartbeat()

    def end_as(self, event: Json, response: Json | None) -> None:
        """The terminal event; what is open is left unless it was closed."""
        self._leave_item()
        if response is not None:
            output = self.output
            self._response = response = {**response, "output": output}
            if isinstance(response.get("output_text"), str):  # other servers
                messages = [item for item in output if item.get("type") == "message"]
                parts = [part for item in messages for part in objects(item.get("content"))]
                response["output_text"] = "".join(string(part.get("text")) for part in parts)
            event = {**event, "response": self._response}
        self.copy_event(event)
        self.ended = True


def _texts(parts: object) -> list[object]:
    return [part.get("text", part.get("refusal")) for part in objects(parts)]
