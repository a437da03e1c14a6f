"""What a host's own events have said so far of the items of its response.

Nearly every stream needs no repair; of such a one this is read only so often that its bytes
need not be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

from ...wire import responses
from ...wire.json_codec import Json
from ...wire.responses import DELTAS, DONES, TextEvents
from ..responses.event_writer import Prose
from ..responses.output_items import REASONING, REFUSAL, SUMMARY, TEXT, StreamedPart

_PARTS: dict[TextEvents, tuple[Prose, StreamedPart]] = {
    responses.OUTPUT_TEXT: ("text", TEXT),
    responses.REFUSAL: ("refusal", REFUSAL),
    responses.SUMMARY_TEXT: ("reasoning", SUMMARY),
    responses.REASONING: ("reasoning", REASONING),
    responses.REASONING_TEXT: ("reasoning", replace(REASONING, text=responses.REASONING_TEXT)),
}
"""What is text of an item; all but a refusal is repaired."""

MAX_ITEMS = 2**31
"""An output index beyond this is none."""
Key = tuple[int, str, int]
"""A part: the output index of its item, the list that holds it, and its index there."""


@dataclass(slots=True)
class HostText:
    """A text that a host streams."""

    key: Key
    kind: Prose
    part: StreamedPart
    value: Json
    """The part as it was added."""
    text: StringIO = field(default_factory=lambda: StringIO(newline=""))


def place_of(event: Json) -> int | None:
    """The output index of the item that an event is about."""
    place = event.get("output_index")
    return place if type(place) is int and 0 <= place < MAX_ITEMS else None


def key_of(event: Json) -> tuple[Key, Prose, StreamedPart] | None:
    """The text that an event continues or ends; None for any other event."""
    kind = event.get("type")
    events = DELTAS.get(kind) or DONES.get(kind) if isinstance(kind, str) else None
    known = _PARTS.get(events) if events else None
    place = place_of(event)
    if known is None or place is None:
        return None
    part = known[1]
    index = event.get(part.index, 0)
    return ((place, part.holder, index), *known) if type(index) is int else None


class HostItems:
    """The items of one response, by the host's output indexes."""

    def __init__(self) -> None:
        self.response: Json | None = None
        """The first snapshot."""
        self.number = 0
        """The number of the event after the latest that was read."""
        self.items: dict[int, Json] = {}
        """Each as the latest event said that held it."""
        self._texts: dict[Key, HostText] = {}
        """Those of items that are not done."""
        self._parts: dict[Key, tuple[str, Json]] = {}
        """The events that added them, and the parts."""

    def is_last(self, text: HostText) -> bool:
        """Whether this is the last text of the last item."""
        place, holder, index = text.key
        later = (each for each in self._texts if each[:2] == (place, holder) and each[2] > index)
        return len(self.items) == place + 1 == max(self.items) + 1 and not any(later)

    def read(self, event: Json) -> HostText | None:
        """Take in an event.  Returns the text that it continues, if it does."""
        number, kind = event.get("sequence_number"), event.get("type")
        if type(number) is int:
            self.number = number + 1
        if kind in DELTAS:
            return self._delta(event)
        place, item = place_of(event), event.get("item")
        if place is not None and isinstance(item, dict):
            self.items[place] = item
            if kind == "response.output_item.done":
                self.forget(place)
        elif place is not None and isinstance(part := event.get("part"), dict):
            holder = "summary" if "summary_index" in event else "content"
            index = event.get("summary_index", event.get("content_index", 0))
            if isinstance(kind, str) and kind.endswith(".added") and type(index) is int:
                self._parts[place, holder, index] = kind, part
        elif kind == "response.output_text.annotation.added" and (found := self._of(event)):
            found.value.setdefault("annotations", []).append(event.get("annotation"))
        elif self.response is None and isinstance(snapshot := event.get("response"), dict):
            self.response = snapshot
        return None

    def forget(self, place: int) -> None:
        """The texts of an item are not asked for any more."""
        for key in [key for key in self._texts if key[0] == place]:
            del self._texts[key]
        for key in [key for key in self._parts if key[0] == place]:
            del self._parts[key]

    def item_up_to(self, text: HostText) -> Json:
        """The item of a text as it stands, that part being its last."""
        place = text.key[0]
        item = {"id": f"item_{place}", **self.items[place]}
        if text.part.item == "reasoning":
            item.setdefault("summary", [])
        keys = sorted(key for key in {*self._texts, *self._parts} if key[0] == place)
        for holder in {key[1] for key in keys}:
            item[holder] = [
                self._part(key)
                for key in keys
                if key[1] == holder and (key <= text.key or holder != text.key[1])
            ]
        return item

    def _part(self, key: Key) -> Json:
        text = self._texts.get(key)
        if text is None:
            return self._parts[key][1]
        return text.value | {text.part.text.field: text.text.getvalue()}

    def _of(self, event: Json) -> HostText | None:
        place, index = place_of(event), event.get("content_index", 0)
        if place is None or type(index) is not int:
            return None
        return self._texts.get((place, "content", index))

    def _delta(self, event: Json) -> HostText | None:
        found, delta = key_of(event), event.get("delta")
        if found is None or not isinstance(delta, str):
            return None
        key, kind, part = found
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = self._begun(key, kind, part, event)
        known.text.write(delta)
        return known

    def _begun(self, key: Key, kind: Prose, part: StreamedPart, event: Json) -> HostText:
        added, value = self._parts.get(key, ("", {}))
        done = added.removesuffix("added") + "done" if added else ""
        if key[0] not in self.items:
            own: dict[str, Any] = {"content": [], "role": "assistant"}
            item = {"type": part.item, "status": "in_progress"}
            self.items[key[0]] = {"id": event.get("item_id"), **item, **own}
        # TEXT is known by its identity, and its events are the same everywhere.
        streamed = part if part is TEXT else replace(part, added=added, done=done)
        return HostText(key, kind, streamed, part.empty() | value)
