"""What a host's Responses events say, item by item.

A text comes in deltas, or only with its end, with its part's, its item's, or with the whole
response: what no event before has brought is a `TextDelta` then, once.  So a reply that is not
streamed is read as its terminal event.  Hosts leave fields out, or count in ways of their own:

- llama.cpp sends neither output indexes nor content indexes: an item is known by its id;
- vLLM counted the content index up with each delta of one text, until early 2026;
- some send no events of parts, or no item at all.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, NamedTuple

from ...wire import responses
from ...wire.json_codec import Json, NotJson, array, dumps, loads, string
from ...wire.responses import DELTAS, DONES, TERMINALS, is_event
from ...wire.sse import Frame
from ..responses.output_items import REASONING, REFUSAL, SUMMARY, TEXT, StreamedPart

_REASONING_TEXT = replace(REASONING, text=responses.REASONING_TEXT)
_BY_EVENTS = {part.text: part for part in (TEXT, REFUSAL, SUMMARY, REASONING, _REASONING_TEXT)}
"""The texts that are read, by their events; a refusal is not scanned."""
_BY_PLACE = {
    ("message", "content"): TEXT,
    ("reasoning", "content"): _REASONING_TEXT,
    ("reasoning", "summary"): SUMMARY,
}
"""The texts of a whole item: whatever the types of their parts, which hosts choose freely (SGLang's
router, LocalAI), but for a refusal."""
_WHOLE = ("response.completed", "response.incomplete")
"""The terminal events after which clients run calls."""
HOLDERS = ("summary", "content")
"""The lists of an item that hold texts."""
TEXT_ITEMS = ("message", "reasoning")
ANNOTATION = "response.output_text.annotation.added"

MAX_ITEMS = 2**14
"""An output index beyond this is not valid; so many calls take some 30 MB."""


class PartKey(NamedTuple):
    """Where a part is."""

    output_index: int
    """The host's, of its item."""
    holder: str
    """The list that holds it."""
    part_index: int


@dataclass(slots=True, eq=False)
class HostText:
    """A text of the host's."""

    key: PartKey
    part: StreamedPart
    value: Json
    """The part as it was added."""
    buffer: StringIO = field(default_factory=lambda: StringIO(newline=""))

    @property
    def text(self) -> str:
        """What has come of it."""
        return self.buffer.getvalue()


# What an event says.  An `index` is the host's output index of an item.


@dataclass(slots=True)
class ItemAdded:
    """An item begins, and with it ends any other's text."""

    index: int
    item: Json


@dataclass(slots=True)
class TextDelta:
    """More of a text."""

    text: HostText
    delta: str
    logprobs: Sequence[Json] = ()


@dataclass(slots=True)
class TextDone:
    """A text of this item is whole, or all of them that came."""

    index: int
    key: PartKey | None = None


@dataclass(slots=True)
class ItemDone:
    """An item is whole."""

    index: int
    item: Json


@dataclass(slots=True)
class OtherEvent:
    """Of an item, of none, or of the end of the response."""

    index: int | None
    event: Json


Said = ItemAdded | TextDelta | TextDone | ItemDone | OtherEvent


def event_of(frame: Frame) -> Json | None:
    """The event of a frame; None if the API has no such event."""
    try:
        event = frame.value if frame.whole else None
    except NotJson:
        return None
    return event if isinstance(event, dict) and is_event(event) else None


def _id_of(item: Json) -> str:
    """The id by which events name an item; llama.cpp gives a call no other than its call's."""
    return string(item.get("id") or item.get("call_id"))


def _call_or_type(item: Json) -> tuple[str, bytes] | str | None:
    """What is the same in an item that is listed under another id: the called tool with its
    arguments, or the type."""
    kind, arguments = item.get("type"), item.get("arguments")
    if kind != "function_call" or not isinstance(arguments, str):
        return kind if isinstance(kind, str) else None
    try:
        return str(item.get("name")), dumps(loads(arguments))
    except NotJson:
        return str(item.get("name")), arguments.encode("utf-8", "surrogatepass")


class HostReader:
    """Reads the events of one response."""

    def __init__(self) -> None:
        self.response: Json | None = None
        """The first snapshot."""
        self.items: dict[int, Json] = {}
        """Each as in the latest event that held it, by the host's output index."""
        self.next_index = 0
        """The output index after all of these."""
        self.done: set[int] = set()
        self._ids: dict[str, int] = {}
        self._texts: dict[PartKey, HostText] = {}
        """The texts of items that are not done."""
        self._parts: dict[PartKey, tuple[str, Json]] = {}
        """The events that added parts of these items, and the parts."""
        self._latest: dict[tuple[int, str], PartKey] = {}
        """The open part of each list."""

    # Which item, which text

    def index_of(self, event: Json) -> int | None:
        """The output index of the item that an event is about; a new item has the next."""
        item, kind, index = event.get("item"), event["type"], event.get("output_index")
        if index is not None:
            return index if type(index) is int and 0 <= index < MAX_ITEMS else None
        if isinstance(item, dict):
            item_id = _id_of(item)
        elif "item_id" in event or "part" in event or kind in DELTAS or kind in DONES:
            item_id = string(event.get("item_id"))
        else:
            return None
        if item_id in self._ids:
            return self._ids[item_id]
        latest = self.next_index - 1
        if not item_id and kind != "response.output_item.added" and latest not in {-1, *self.done}:
            return latest  # some hosts send neither
        return self.next_index if self.next_index < MAX_ITEMS else None

    def text_of(self, event: Json) -> tuple[PartKey, StreamedPart] | None:
        """The text that an event continues or ends; None for any other event."""
        events = DELTAS.get(event["type"]) or DONES.get(event["type"])
        part = _BY_EVENTS.get(events) if events else None
        key = self._key(event, part.holder) if part is not None else None
        if part is None or key is None:
            return None
        if key not in self._parts and key not in self._texts:
            key = self._latest.get(key[:2], key)
        return key, part

    def _key(self, event: Json, holder: str = "") -> PartKey | None:
        """Where the part is that an event is about."""
        holder = holder or ("summary" if "_summary_" in event["type"] else "content")
        output_index, index = self.index_of(event), event.get(f"{holder}_index", 0)
        if output_index is None or type(index) is not int:
            return None
        return PartKey(output_index, holder, index)

    def _matching(self, entries: Sequence[Any]) -> list[int | None]:
        """The output index of each entry of a snapshot's output; None: it was not streamed.

        Some hosts list items under other ids than they streamed them (vLLM), or not all of them
        (SGLang's router), so one is known by its `_call_or_type` as well: at its own place, or
        else at the first."""
        found = [
            self._ids.get(_id_of(entry)) if isinstance(entry, dict) else None for entry in entries
        ]
        matched = set(found)
        left = {at: _call_or_type(self.items[at]) for at in sorted(self.items) if at not in matched}
        unknown = {
            at: _call_or_type(entry)
            for at, entry in enumerate(entries)
            if isinstance(entry, dict) and found[at] is None
        }
        for at, kind in unknown.items():
            if at in left and left[at] == kind:
                found[at] = at
                del left[at]
        alike = defaultdict[object, deque[int]](deque)
        for index, kind in left.items():
            alike[kind].append(index)
        for at, kind in unknown.items():
            if found[at] is None and alike[kind]:
                found[at] = alike[kind].popleft()
        return found

    # Events

    def continued(self, event: Json) -> TextDelta | None:
        """All that a delta says of a text that has begun, as nearly all events do; None, and
        nothing is taken in, for any other."""
        found, delta = self.text_of(event), event.get("delta")
        text = self._texts.get(found[0]) if found else None
        if text is None or not isinstance(delta, str):
            return None
        text.buffer.write(delta)
        return TextDelta(text, delta, array(event.get("logprobs")))

    def read(self, event: Json) -> Iterator[Said]:
        """What an event says.  An item is one of `items`, or done, after that has been taken in."""
        kind, item, part = event["type"], event.get("item"), event.get("part")
        if kind in DELTAS:
            yield from self._delta(event)
        elif kind in TERMINALS:
            yield from self._terminal(event)
        elif (index := self.index_of(event)) is None:
            if self.response is None and isinstance(response := event.get("response"), dict):
                self.response = response
            yield OtherEvent(None, event)
        elif kind == "response.output_item.done" and isinstance(item, dict):
            yield from self._item_done(index, item)
        elif isinstance(item, dict):
            yield from self._add(index, item)
        elif isinstance(part, dict) and (key := self._key(event)) is not None:
            if kind.endswith(".done"):
                yield from self._part_done(key, part, event)
            yield TextDone(index)
            self._latest.pop(key[:2], None)
            if kind.endswith(".added"):
                self._parts[key] = kind, part
                self._latest[key[:2]] = key
        elif kind in DONES and (found := self.text_of(event)) is not None:
            field_name = DONES[kind].field
            yield from self._rest(*found, {field_name: event.get(field_name)}, event)
            yield TextDone(index, found[0])
            self._latest.pop(found[0][:2], None)
        else:
            yield OtherEvent(index, event)
            key = self._key(event) if kind == ANNOTATION else None
            if key is not None and key in self._texts:
                annotations = self._texts[key].value.setdefault("annotations", [])
                annotations.append(event.get("annotation"))

    def _add(self, index: int, item: Json) -> Iterator[Said]:
        yield ItemAdded(index, item)
        self._keep(index, item)

    def _keep(self, index: int, item: Json) -> None:
        self.items[index] = item
        self.next_index = max(self.next_index, index + 1)
        if item_id := _id_of(item):
            self._ids[item_id] = index

    def _delta(self, event: Json) -> Iterator[Said]:
        found, delta = self.text_of(event), event.get("delta")
        if found is None or not isinstance(delta, str):
            yield OtherEvent(self.index_of(event), event)
        else:
            yield from self._more(*found, delta, event, logprobs=array(event.get("logprobs")))

    def _more(
        self,
        key: PartKey,
        part: StreamedPart,
        delta: str,
        event: Json,
        *,
        value: Json | None = None,
        logprobs: Sequence[Json] = (),
    ) -> Iterator[Said]:
        """More of a text; its item may be new."""
        index = key.output_index
        if index not in self.items:
            item: Json = {"id": event.get("item_id"), "type": part.item, "status": "in_progress"}
            more: Json = {"summary": []} if part.item == "reasoning" else {"role": "assistant"}
            yield from self._add(index, item | more | {part.holder: []})
        text = self._texts.get(key)
        if text is None:
            added, of_part = self._parts.get(key, ("", value or {}))
            done = added.removesuffix("added") + "done" if added else ""
            # TEXT is known by its identity, and its events are the same everywhere.
            part = part if part is TEXT else replace(part, added=added, done=done)
            # SGLang adds the part of a reasoning text as one of a message.
            of_part = part.empty() | of_part | {"type": part.type, part.text.field: ""}
            text = self._texts[key] = HostText(key, part, of_part)
            self._latest[key[:2]] = key
        text.buffer.write(delta)
        yield TextDelta(text, delta, logprobs)

    # Text without deltas

    def _part_done(self, key: PartKey, value: Json, event: Json) -> Iterator[Said]:
        thought = value.get("type") in ("reasoning_text", "summary_text")
        item = self.items.get(key.output_index, {"type": "reasoning" if thought else "message"})
        if (part := _part_in(item, key.holder, value)) is not None:
            yield from self._rest(key, part, value, event)

    def _rest(self, key: PartKey, part: StreamedPart, value: Json, event: Json) -> Iterator[Said]:
        """What the end of a text has that its deltas did not have."""
        whole, index = value.get(part.text.field), key.output_index
        streamed = self._texts[key].text if key in self._texts else ""
        if index in self.done or not isinstance(whole, str) or not whole.startswith(streamed):
            return
        of_item = (text.text for at, text in self._texts.items() if at.output_index == index)
        if whole and whole not in of_item:
            yield from self._more(key, part, whole[len(streamed) :], event, value=value)

    def _item_done(self, index: int, item: Json) -> Iterator[Said]:
        is_text = item.get("type") in TEXT_ITEMS
        if index not in self.items:
            empty: Json = {name: [] for name in HOLDERS if is_text and name in item}
            yield from self._add(index, item | empty | {"status": "in_progress"})
        for holder in HOLDERS if is_text else ():
            streamed = sorted(key for key in self._texts if key[:2] == (index, holder))
            for at, value in enumerate(array(item.get(holder))):
                key = streamed[at] if at < len(streamed) else PartKey(index, holder, at)
                if isinstance(value, dict) and (part := _part_in(item, holder, value)) is not None:
                    yield from self._rest(key, part, value, {})
                    yield TextDone(index)
        yield ItemDone(index, item)
        self._keep(index, item)
        self.done.add(index)
        for key in [key for key in {*self._texts, *self._parts} if key.output_index == index]:
            self._texts.pop(key, None)
            self._parts.pop(key, None)
            self._latest.pop(key[:2], None)

    def _terminal(self, event: Json) -> Iterator[Said]:
        """The whole response: its items, as far as they are not done."""
        response = event.get("response")
        if isinstance(response, dict):
            self.response = self.response or response
            entries = array(response.get("output")) if event["type"] in _WHOLE else []
            for entry, known in zip(entries, self._matching(entries), strict=True):
                index = self.next_index if known is None else known
                if not isinstance(entry, dict) or index in self.done or index >= MAX_ITEMS:
                    continue
                is_cut = entry.get("status") == "incomplete"
                if is_cut and entry.get("type") not in TEXT_ITEMS:  # clients run what is done
                    if known is None:
                        yield from self._add(index, entry)
                else:
                    yield from self._item_done(index, entry)
        yield OtherEvent(None, event)

    # What has come so far

    def open_text(self, index: int) -> HostText | None:
        """The open text of an item that is not done."""
        keys = [key for key in self._latest.values() if key.output_index == index]
        return next((self._texts[key] for key in keys if key in self._texts), None)

    def item_up_to(self, index: int, last: HostText | None) -> Json:
        """An item so far, with `last` as the last part of its list."""
        item = {"id": f"item_{index}", **self.items[index]}
        if item.get("type") == "reasoning":
            item.setdefault("summary", [])
        keys = sorted(key for key in {*self._texts, *self._parts} if key.output_index == index)
        for holder in {key.holder for key in keys}:
            item[holder] = [
                self._part(key)
                for key in keys
                if key.holder == holder
                and not (last and last.key[:2] == key[:2] and last.key < key)
            ]
        return item

    def _part(self, key: PartKey) -> Json:
        text = self._texts.get(key)
        if text is None:
            return self._parts[key][1]
        return text.value | {text.part.text.field: text.text}


def _part_in(item: Json, holder: str, value: Json) -> StreamedPart | None:
    """What a part of a whole item is."""
    if value.get("type") == "refusal":
        return REFUSAL
    return _BY_PLACE.get((string(item.get("type")), holder))
