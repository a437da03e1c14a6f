"""The items of a host's response, as far as its events have given them.

Nearly every frame needs no repair, and leaves unread; it is kept until it has to be read, to know
what is open.  Nearly all of these are deltas of one text that differ in their text, number and
padding: many such are read at a time.  Hosts leave fields out, or count in ways of their own:

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

from ...repair.events import ScanEvent, Text
from ...repair.scanner import Scanner
from ...wire import responses
from ...wire.json_codec import Json, NotJson, dumps, loads, string
from ...wire.responses import DELTAS, DONES, is_event
from ...wire.sse import Frame, raw_frames
from ..responses.output_items import REASONING, REFUSAL, SUMMARY, TEXT, StreamedPart

_REASONING_TEXT = replace(REASONING, text=responses.REASONING_TEXT)
_PARTS = {part.text: part for part in (TEXT, REFUSAL, SUMMARY, REASONING, _REASONING_TEXT)}
"""The texts of an item that are repaired, by their events; a refusal is not."""

MAX_ITEMS = 2**14
"""An output index beyond this is not valid; so many calls take some 30 MB."""
MAX_UNREAD = 64 * 1024
"""Bytes that are kept unread."""


class PartKey(NamedTuple):
    """Where a part is."""

    output_index: int
    """The host's, of its item."""
    holder: str
    """The list that holds it."""
    part_index: int


@dataclass(slots=True)
class HostText:
    """A text that the host streams."""

    key: PartKey
    part: StreamedPart
    value: Json
    """The part as it was added."""
    buffer: StringIO = field(default_factory=lambda: StringIO(newline=""))

    @property
    def text(self) -> str:
        """What its deltas have brought."""
        return self.buffer.getvalue()


@dataclass(slots=True)
class ScannedText:
    """A text that is scanned.  Offsets count the characters that its scanner was fed."""

    host_text: HostText
    scanner: Scanner
    end: int = 0
    certain: int = 0
    """Up to where it is text for certain."""
    sent: int = 0
    """Up to where its frames have left."""
    pieces: list[ScanEvent] = field(default_factory=list)
    """What the scanner gave since frames of it wait."""

    def add(self, pieces: list[ScanEvent]) -> bool:
        """Add what the scanner gives; returns whether that is anything but the text it was fed."""
        self.pieces += pieces
        for piece in pieces:
            if not isinstance(piece, Text) or piece.kind is not None:
                return True
            self.certain = piece.start + len(piece.text)
        return self.end - self.certain != self.scanner.undecided

    @property
    def is_blank(self) -> bool:
        """Whether all that is undecided is white space."""
        size = self.scanner.undecided
        return size > 0 and self.host_text.text[-size:].isspace()

    @property
    def sent_text(self) -> str:
        """The text in the frames that have left."""
        text = self.host_text.text
        return text[: len(text) - (self.end - self.sent)]

    @property
    def unsent(self) -> list[ScanEvent]:
        """The pieces without the text that has left."""
        unsent: list[ScanEvent] = []
        for piece in self.pieces:
            if not isinstance(piece, Text):
                unsent.append(piece)
            elif rest := piece.text[max(0, self.sent - piece.start) :]:
                unsent.append(replace(piece, text=rest))
        return unsent


def event_of(frame: Frame) -> Json | None:
    """The event of a frame; None if the API has no such event."""
    try:
        event = loads(frame.data or b"null") if frame.whole else None
    except NotJson:
        return None
    return event if isinstance(event, dict) and is_event(event) else None


def id_of(item: Json) -> str:
    """The id by which events name an item; llama.cpp gives a call no other than its call's."""
    return string(item.get("id") or item.get("call_id"))


def call_or_type(item: Json) -> tuple[str, bytes] | str | None:
    """What is the same in an item that is listed under another id: the called tool with its
    arguments, or the type."""
    kind, arguments = item.get("type"), item.get("arguments")
    if kind != "function_call" or not isinstance(arguments, str):
        return kind if isinstance(kind, str) else None
    try:
        return str(item.get("name")), dumps(loads(arguments))
    except NotJson:
        return str(item.get("name")), arguments.encode("utf-8", "surrogatepass")


class HostItems:
    """The items of one response, by the host's output indexes."""

    def __init__(self) -> None:
        self.response: Json | None = None
        """The first snapshot."""
        self.number = 0
        """The number of the event after the latest that was read."""
        self.items: dict[int, Json] = {}
        """Each as in the latest event that held it."""
        self.next_index = 0
        """The output index after all of these."""
        self.done: set[int] = set()
        self._ids: dict[str, int] = {}
        self.texts: dict[PartKey, HostText] = {}
        """The texts of items that are not done."""
        self.parts: dict[PartKey, tuple[str, Json]] = {}
        """The events that added parts of these items, and the parts."""
        self._latest: dict[tuple[int, str], PartKey] = {}
        """The open part of each list."""
        self._unread: list[bytes] = []
        self._unread_size = 0

    # Questions

    def index_of(self, event: Json) -> int | None:
        """The output index of the item that an event is about; a new item has the next."""
        item, kind, index = event.get("item"), event["type"], event.get("output_index")
        if index is not None:
            return index if type(index) is int and 0 <= index < MAX_ITEMS else None
        if isinstance(item, dict):
            item_id = id_of(item)
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
        part = _PARTS.get(events) if events else None
        key = self._key(event, part.holder) if part is not None else None
        if part is None or key is None:
            return None
        if key not in self.parts and key not in self.texts:
            key = self._latest.get(key[:2], key)
        return key, part

    def part_of(self, event: Json) -> PartKey | None:
        """The part that an event adds, ends or annotates."""
        return self._key(event, "summary" if "_summary_" in event["type"] else "content")

    def _key(self, event: Json, holder: str) -> PartKey | None:
        output_index, index = self.index_of(event), event.get(f"{holder}_index", 0)
        if output_index is None or type(index) is not int:
            return None
        return PartKey(output_index, holder, index)

    def matching(self, entries: Sequence[Any]) -> list[int | None]:
        """The output index of each entry of a snapshot's output; None: it was not streamed.

        Some hosts list items under other ids than they streamed them (vLLM), or not all of them
        (SGLang's router), so one is known by its `call_or_type` as well: at its own place, or
        else at the first."""
        found = [
            self._ids.get(id_of(entry)) if isinstance(entry, dict) else None for entry in entries
        ]
        matched = set(found)
        left = {at: call_or_type(self.items[at]) for at in sorted(self.items) if at not in matched}
        unknown = {
            at: call_or_type(entry)
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

    def keep(self, raw: bytes) -> bool:
        """Keep one or more whole frames unread.  Returns whether they have to be read now."""
        self._unread.append(raw)
        self._unread_size += len(raw)
        return self._unread_size > MAX_UNREAD

    def read_kept(self) -> Iterator[tuple[HostText, str]]:
        """Read the kept frames: the texts that they continue, and the deltas."""
        unread = b"".join(self._unread)
        self._unread, self._unread_size = [], 0
        for raw in raw_frames(unread):
            event = event_of(Frame(raw))
            text = self.read(event) if event is not None else None
            if text is not None:
                yield text, _delta_of(event)

    def read(self, event: Json) -> HostText | None:
        """Read an event; returns the text that it continues, if it does."""
        number, kind = event.get("sequence_number"), event["type"]
        if type(number) is int:
            self.number = number + 1
        if kind in DELTAS:
            return self._delta(event)
        index, item, part = self.index_of(event), event.get("item"), event.get("part")
        if index is not None and isinstance(item, dict):
            self._add(index, item)
            if kind == "response.output_item.done":
                self.done.add(index)
                self._forget(index)
        elif isinstance(part, dict) and (key := self.part_of(event)) is not None:
            if kind.endswith(".added"):
                self.parts[key] = kind, part
                self._latest[key[:2]] = key
            else:
                self._latest.pop(key[:2], None)
        elif kind in DONES:
            if (found := self.text_of(event)) is not None:
                self._latest.pop(found[0][:2], None)
        elif kind == "response.output_text.annotation.added":
            key = self.part_of(event)
            if key is not None and key in self.texts:
                annotations = self.texts[key].value.setdefault("annotations", [])
                annotations.append(event.get("annotation"))
        elif self.response is None and isinstance(snapshot := event.get("response"), dict):
            self.response = snapshot
        return None

    def _add(self, index: int, item: Json) -> None:
        self.items[index] = item
        self.next_index = max(self.next_index, index + 1)
        if item_id := id_of(item):
            self._ids[item_id] = index

    def _forget(self, index: int) -> None:
        """The texts of an item that is done are not needed any more."""
        for key in [key for key in {*self.texts, *self.parts} if key.output_index == index]:
            self.texts.pop(key, None)
            self.parts.pop(key, None)
            self._latest.pop(key[:2], None)

    def _delta(self, event: Json) -> HostText | None:
        found, delta = self.text_of(event), event.get("delta")
        if found is None or not isinstance(delta, str):
            return None
        key, part = found
        if key not in self.texts:
            self.texts[key] = self._begin(key, part, event)
        text = self.texts[key]
        text.buffer.write(delta)
        return text

    def _begin(self, key: PartKey, part: StreamedPart, event: Json) -> HostText:
        added, value = self.parts.get(key, ("", {}))
        done = added.removesuffix("added") + "done" if added else ""
        if key.output_index not in self.items:
            item: Json = {"type": part.item, "status": "in_progress"}
            item |= {"content": [], "role": "assistant"}
            self._add(key.output_index, {"id": event.get("item_id"), **item})
        self._latest[key[:2]] = key
        # TEXT is known by its identity, and its events are the same everywhere.
        streamed = part if part is TEXT else replace(part, added=added, done=done)
        # SGLang adds the part of a reasoning text as one of a message.
        return HostText(key, streamed, part.empty() | value | {"type": part.type})

    # An item that the writer continues

    def item_up_to(self, text: HostText) -> tuple[Json, list[Json]]:
        """The item of a text so far, with that part as its last; and the parts after it."""
        index, own, _ = text.key
        item = {"id": f"item_{index}", **self.items[index]}
        if text.part.item == "reasoning":
            item.setdefault("summary", [])
        keys = sorted(key for key in {*self.texts, *self.parts} if key.output_index == index)
        for holder in {key.holder for key in keys}:
            item[holder] = [self._part(key) for key in keys if key.holder == holder]
        end = sum(key.holder == own and key <= text.key for key in keys)
        item[own], later = item[own][:end], item[own][end:]
        return item, later

    def _part(self, key: PartKey) -> Json:
        text = self.texts.get(key)
        if text is None:
            return self.parts[key][1]
        return text.value | {text.part.text.field: text.text}


def _delta_of(event: Any) -> str:
    return string(event.get("delta")) if isinstance(event, dict) else ""
