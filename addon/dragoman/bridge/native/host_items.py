"""The items of a host's response, as its own events have given them so far.

Nearly every stream needs no repair; of such a one this is read only so often that its bytes
need not be kept.  Hosts leave fields out, or count in ways of their own:

- llama.cpp sends neither output indexes nor content indexes: an item is known by its id;
- vLLM counted the content index up with each delta of one text, until early 2026;
- some send no events of parts, or no item at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any

from ...wire import responses
from ...wire.json_codec import Json, string
from ...wire.responses import DELTAS, DONES, TextEvents
from ..responses.event_writer import ProseKind
from ..responses.output_items import REASONING, REFUSAL, SUMMARY, TEXT, StreamedPart

_PARTS: dict[TextEvents, tuple[ProseKind, StreamedPart]] = {
    responses.OUTPUT_TEXT: ("text", TEXT),
    responses.REFUSAL: ("refusal", REFUSAL),
    responses.SUMMARY_TEXT: ("reasoning", SUMMARY),
    responses.REASONING: ("reasoning", REASONING),
    responses.REASONING_TEXT: ("reasoning", replace(REASONING, text=responses.REASONING_TEXT)),
}
"""What is text of an item; all but a refusal is repaired."""

MAX_ITEMS = 2**16
"""An output index beyond this is not valid."""
Key = tuple[int, str, int]
"""A part: the output index of its item, the list that holds it, and its index there."""


@dataclass(slots=True)
class HostText:
    key: Key
    kind: ProseKind
    part: StreamedPart
    value: Json
    """The part as it was added."""
    text: StringIO = field(default_factory=lambda: StringIO(newline=""))


def id_of(item: Json) -> str:
    """The id by which events name an item; llama.cpp gives a call no other than its call's."""
    return string(item.get("id") or item.get("call_id"))


class HostItems:
    """The items of one response, by the host's output indexes."""

    def __init__(self) -> None:
        self.response: Json | None = None
        """The first snapshot."""
        self.number = 0
        """The number of the event after the latest that was read."""
        self.items: dict[int, Json] = {}
        """Each as in the latest event that held it."""
        self.ended: set[int] = set()
        """Those that are done."""
        self._ids: dict[str, int] = {}
        self._texts: dict[Key, HostText] = {}
        """Those of items that are not done."""
        self._parts: dict[Key, tuple[str, Json]] = {}
        """The events that added them, and the parts."""
        self._latest: dict[tuple[int, str], Key] = {}
        """The part of each list that is open."""

    # What is asked

    def place_of(self, event: Json) -> int | None:
        """The output index of the item that an event is about: of a new one, the next."""
        item, kind, place = event.get("item"), event["type"], event.get("output_index")
        if place is not None:
            return place if type(place) is int and 0 <= place < MAX_ITEMS else None
        if isinstance(item, dict):
            own = id_of(item)
        elif "item_id" in event or "part" in event or kind in DELTAS or kind in DONES:
            own = id_of({"id": event.get("item_id")})
        else:
            return None
        if own in self._ids:
            return self._ids[own]
        latest = max(self.items, default=-1)
        continues = not own and kind != "response.output_item.added"
        if continues and latest not in {-1, *self.ended}:
            return latest
        return latest + 1 if latest + 1 < MAX_ITEMS else None

    def key_of(self, event: Json) -> tuple[Key, ProseKind, StreamedPart] | None:
        """The text that an event continues or ends; None for any other event."""
        events = DELTAS.get(event["type"]) or DONES.get(event["type"])
        known = _PARTS.get(events) if events else None
        place = self.place_of(event) if known is not None else None
        if known is None or place is None:
            return None
        holder, index = known[1].holder, event.get(known[1].index, 0)
        if type(index) is not int:
            return None
        key = place, holder, index
        if key not in self._parts and key not in self._texts:
            key = self._latest.get((place, holder), key)
        return key, *known

    def part_of(self, event: Json) -> Key | None:
        """The part that an event adds or ends; None for any other event."""
        place, part = self.place_of(event), event.get("part")
        if place is None or not isinstance(part, dict):
            return None
        holder = "summary" if "_summary_" in event["type"] else "content"
        index = event.get(f"{holder}_index", 0)
        return (place, holder, index) if type(index) is int else None

    def has_part(self, key: Key) -> bool:
        """Whether an event has added it."""
        return key in self._parts

    def text(self, key: Key) -> str:
        """What the deltas of a text have brought."""
        text = self._texts.get(key)
        return text.text.getvalue() if text is not None else ""

    def texts(self, place: int, holder: str) -> list[str]:
        """The texts of a list that were streamed."""
        return [self.text(key) for key in self._texts if key[:2] == (place, holder)]

    # What comes

    def read(self, event: Json) -> HostText | None:
        """Take in an event.  Returns the text that it continues, if it does."""
        number, kind = event.get("sequence_number"), event["type"]
        if type(number) is int:
            self.number = number + 1
        if kind in DELTAS:
            return self._delta(event)
        place, item = self.place_of(event), event.get("item")
        if place is not None and isinstance(item, dict):
            self._name(place, item)
            if kind == "response.output_item.done":
                self.ended.add(place)
                self._forget(place)
        elif (key := self.part_of(event)) is not None:
            if kind.endswith(".added"):
                self._parts[key] = kind, event["part"]
                self._latest[key[:2]] = key
            else:
                self._latest.pop(key[:2], None)
        elif kind in DONES:
            found = self.key_of(event)
            self._latest.pop(found[0][:2] if found else (-1, ""), None)
        elif kind == "response.output_text.annotation.added" and (text := self._of(event)):
            text.value.setdefault("annotations", []).append(event.get("annotation"))
        elif self.response is None and isinstance(snapshot := event.get("response"), dict):
            self.response = snapshot
        return None

    def _name(self, place: int, item: Json) -> None:
        self.items[place] = item
        if own := id_of(item):
            self._ids[own] = place

    def _forget(self, place: int) -> None:
        """The texts of an item are not asked for any more."""
        for key in [key for key in {*self._texts, *self._parts} if key[0] == place]:
            self._texts.pop(key, None)
            self._parts.pop(key, None)
            self._latest.pop(key[:2], None)

    def _of(self, event: Json) -> HostText | None:
        place, index = self.place_of(event), event.get("content_index", 0)
        if place is None or type(index) is not int:
            return None
        return self._texts.get((place, "content", index))

    def _delta(self, event: Json) -> HostText | None:
        found, delta = self.key_of(event), event.get("delta")
        if found is None or not isinstance(delta, str):
            return None
        key, kind, part = found
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = self._begun(key, kind, part, event)
        known.text.write(delta)
        return known

    def _begun(self, key: Key, kind: ProseKind, part: StreamedPart, event: Json) -> HostText:
        added, value = self._parts.get(key, ("", {}))
        done = added.removesuffix("added") + "done" if added else ""
        if key[0] not in self.items:
            own: dict[str, Any] = {"content": [], "role": "assistant"}
            item = {"type": part.item, "status": "in_progress"}
            self._name(key[0], {"id": event.get("item_id"), **item, **own})
        self._latest[key[:2]] = key
        # TEXT is known by its identity, and its events are the same everywhere.
        streamed = part if part is TEXT else replace(part, added=added, done=done)
        # SGLang adds the part of a reasoning text as one of a message.
        return HostText(key, kind, streamed, part.empty() | value | {"type": part.type})

    # An item that is adopted

    def item_up_to(self, text: HostText) -> tuple[Json, list[Json]]:
        """The item of a text so far, with that part as its last; and the parts after it."""
        place, own, _ = text.key
        item = {"id": f"item_{place}", **self.items[place]}
        if text.part.item == "reasoning":
            item.setdefault("summary", [])
        keys = sorted(key for key in {*self._texts, *self._parts} if key[0] == place)
        for holder in {key[1] for key in keys}:
            item[holder] = [self._part(key) for key in keys if key[1] == holder]
        after = sum(key[:2] == (place, own) and key > text.key for key in keys)
        item[own], later = item[own][: len(item[own]) - after], item[own][len(item[own]) - after :]
        return item, later

    def _part(self, key: Key) -> Json:
        text = self._texts.get(key)
        if text is None:
            return self._parts[key][1]
        return text.value | {text.part.text.field: text.text.getvalue()}
