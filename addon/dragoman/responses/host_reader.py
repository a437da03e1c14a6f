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
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, NamedTuple

from ..wire.json_codec import Json, NotJson, array, dumps, loads, string
from ..wire.reply_bounds import MAX_OUTPUT
from . import names as responses
from .names import DELTAS, DONES, TERMINALS
from .output_items import REASONING, REFUSAL, SUMMARY, TEXT, StreamedPart

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


class Place(NamedTuple):
    """Where a part is in its item."""

    holder: str
    """The list that holds it."""
    at: int


class Where(NamedTuple):
    """Which text of a response, and by which events it is streamed."""

    item: int
    """The output index of its item."""
    place: Place
    part: StreamedPart


@dataclass(slots=True, eq=False)
class HostText:
    """A text of the host's."""

    index: int
    """Of its item."""
    place: Place
    part: StreamedPart
    value: Json
    """The part as it was added."""
    buffer: StringIO = field(default_factory=lambda: StringIO(newline=""))

    @property
    def text(self) -> str:
        """What has come of it; of a message nothing is kept."""
        return self.buffer.getvalue()


@dataclass(slots=True, eq=False)
class HostItem:
    """An item of the host's, as far as it has come."""

    value: Json
    """As in the latest event that held it."""
    done: bool = False
    texts: dict[Place, HostText] = field(default_factory=dict)
    """Its parts."""
    latest: dict[str, HostText] = field(default_factory=dict)
    """The open part of each list."""

    @property
    def open_text(self) -> HostText | None:
        return next(iter(self.latest.values()), None)

    def end(self) -> None:
        """Its texts are not needed any more."""
        self.done, self.texts, self.latest = True, {}, {}


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
    """The text of this item that came last is whole."""

    index: int


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
        self.items: dict[int, HostItem] = {}
        """By the host's output index."""
        self.next_index = 0
        """The output index after all of these."""
        self._ids: dict[str, int] = {}
        self._last: HostText | None = None
        """The text that came last, if its item is not done."""

    # Which item, which text

    def index_of(self, event: Json) -> int | None:
        """The output index of the item that an event is about; a new item has the next."""
        item, kind, index = event.get("item"), event["type"], event.get("output_index")
        if index is not None:
            return index if type(index) is int and 0 <= index < MAX_OUTPUT else None
        if isinstance(item, dict):
            item_id = _id_of(item)
        elif "item_id" in event or "part" in event or kind in DELTAS or kind in DONES:
            item_id = string(event.get("item_id"))
        else:
            return None
        if item_id in self._ids:
            return self._ids[item_id]
        latest = self.items.get(self.next_index - 1)
        if not item_id and kind != "response.output_item.added" and latest and not latest.done:
            return self.next_index - 1  # some hosts send neither
        return self.next_index if self.next_index < MAX_OUTPUT else None

    def _where(self, event: Json) -> Where | None:
        """The text that an event continues or ends; None for any other event."""
        events = DELTAS.get(event["type"]) or DONES.get(event["type"])
        part = _BY_EVENTS.get(events) if events else None
        if part is None or (index := self.index_of(event)) is None:
            return None
        at = event.get(f"{part.holder}_index", 0)
        if type(at) is not int:
            return None
        place, item = Place(part.holder, at), self.items.get(index)
        if item is not None and place not in item.texts and part.holder in item.latest:
            place = item.latest[part.holder].place
        return Where(index, place, part)

    def _matching(self, entries: Sequence[Any]) -> list[int | None]:
        """The output index of each entry of a snapshot's output; None: it was not streamed.

        Some hosts list items under other ids than they streamed them (vLLM), or not all of them
        (SGLang's router), so one is known by its `_call_or_type` as well: at its own place, or
        else at the first."""
        found = [
            self._ids.get(_id_of(entry)) if isinstance(entry, dict) else None for entry in entries
        ]
        matched = set(found)
        left = {
            at: _call_or_type(self.items[at].value)
            for at in sorted(self.items)
            if at not in matched
        }
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

    def continued(self, event: Json) -> HostText | None:
        """The text that came last, if all that an event says is a delta of it, as nearly all do;
        None, and nothing is taken in, for any other."""
        text, delta = self._last, event.get("delta")
        if text is None or event.get("type") != text.part.text.delta or not isinstance(delta, str):
            return None
        if event.get("output_index") != text.index or event.get(text.part.index) != text.place.at:
            return None
        text.buffer.write(delta)
        return text

    def read(self, event: Json) -> Iterator[Said]:
        """What an event says.  Each is taken in when the next is asked for, so that `items` are
        what was said before it; but a delta is in its text at once."""
        kind, index, value = event["type"], self.index_of(event), event.get("item")
        where = self._where(event)
        if kind in TERMINALS:
            yield from self._terminal(event)
        elif index is None:
            if self.response is None and isinstance(response := event.get("response"), dict):
                self.response = response
            yield OtherEvent(None, event)
        elif isinstance(value, dict):
            done = kind == "response.output_item.done"
            yield from self._item_done(index, value) if done else self._add(index, value)
        elif isinstance(event.get("part"), dict):
            yield from self._part(index, event)
        elif where is not None and kind in DONES:
            name = DONES[kind].field
            yield from self._rest(where, {name: event.get(name)}, event)
            yield from self._text_done(index, where.place.holder)
        elif where is not None and isinstance(delta := event.get("delta"), str):
            yield from self._more(where, delta, {}, event)
        else:
            yield OtherEvent(index, event)
            item = self.items.get(index) if kind == ANNOTATION else None
            if item is not None and (text := item.open_text) is not None:
                text.value.setdefault("annotations", []).append(event.get("annotation"))

    def _add(self, index: int, value: Json) -> Iterator[Said]:
        yield ItemAdded(index, value)
        self._keep(index, value)

    def _keep(self, index: int, value: Json) -> HostItem:
        item = self.items.setdefault(index, HostItem(value))
        item.value = value
        self.next_index = max(self.next_index, index + 1)
        if item_id := _id_of(value):
            self._ids[item_id] = index
        return item

    def _more(self, where: Where, delta: str, value: Json, event: Json) -> Iterator[Said]:
        """More of a text; see `_begin`."""
        self._last = text = yield from self._begin(where, value, event)
        text.buffer.write(delta)
        yield TextDelta(text, delta, array(event.get("logprobs")))

    def _begin(
        self, where: Where, value: Json, event: Json, added: str = ""
    ) -> Generator[Said, None, HostText]:
        """A text, which may be new, as may its item.  `value`: what is known of its part, `added`:
        the event that adds it."""
        index, place, part = where
        if index not in self.items:
            new: Json = {"id": event.get("item_id"), "type": part.item, "status": "in_progress"}
            more: Json = {"summary": []} if part.item == "reasoning" else {"role": "assistant"}
            yield from self._add(index, new | more | {place.holder: []})
        item = self.items[index]
        text = item.texts.get(place)
        if text is None:
            # SGLang adds the part of a reasoning text as one of a message.
            empty: Json = {"type": part.type, part.text.field: ""}
            text = HostText(index, place, part, part.empty() | value | empty)
            item.texts[place] = item.latest[place.holder] = text
        else:
            added = text.part.added
        if part is not TEXT:  # which is known by its identity; its events are the same everywhere
            done = added.removesuffix("added") + "done" if added else ""
            text.part = replace(part, added=added, done=done)
        return text

    def _part(self, index: int, event: Json) -> Iterator[Said]:
        """A part begins, or ends."""
        kind, value = event["type"], event["part"]
        holder = "summary" if "_summary_" in kind else "content"
        thought = value.get("type") in ("reasoning_text", "summary_text")
        item: Json = {"type": "reasoning" if thought else "message"}
        part = _part_in(self.items[index].value if index in self.items else item, holder, value)
        at = event.get(f"{holder}_index", 0)
        where = None
        if part is not None and type(at) is int:
            where = Where(index, Place(holder, at), part)
        if where is not None and kind.endswith(".done"):
            yield from self._rest(where, value, event)
        yield from self._text_done(index, holder)
        if where is not None and kind.endswith(".added"):
            yield from self._begin(where, value, event, kind)

    def _text_done(self, index: int, holder: str) -> Iterator[Said]:
        yield TextDone(index)
        if index in self.items:
            self.items[index].latest.pop(holder, None)

    # Text without deltas

    def _rest(self, where: Where, value: Json, event: Json) -> Iterator[Said]:
        """What the end of a text has that its deltas did not have."""
        whole, item = value.get(where.part.text.field), self.items.get(where.item)
        text = item.texts.get(where.place) if item else None
        streamed = text.text if text else ""
        if not (isinstance(whole, str) and whole.startswith(streamed)) or (item and item.done):
            return
        # A host that counts in its own way ends the text that came last under another index.
        last = next(reversed(item.texts.values()), None) if item else None
        if whole not in ("", streamed, last.text if last else ""):
            yield from self._more(where, whole[len(streamed) :], value, event)

    def _item_done(self, index: int, value: Json) -> Iterator[Said]:
        is_text = value.get("type") in TEXT_ITEMS
        if index not in self.items:
            empty: Json = {name: [] for name in HOLDERS if is_text and name in value}
            yield from self._add(index, value | empty | {"status": "in_progress"})
        for holder in HOLDERS if is_text else ():
            streamed = sorted(at for at in self.items[index].texts if at.holder == holder)
            for at, of_part in enumerate(array(value.get(holder))):
                place = streamed[at] if at < len(streamed) else Place(holder, at)
                part = _part_in(value, holder, of_part) if isinstance(of_part, dict) else None
                if part is not None:
                    yield from self._rest(Where(index, place, part), of_part, {})
                    yield TextDone(index)
        yield ItemDone(index, value)
        self._keep(index, value).end()
        self._last = None

    def _terminal(self, event: Json) -> Iterator[Said]:
        """The whole response: its items, as far as they are not done."""
        response = event.get("response")
        if isinstance(response, dict):
            self.response = self.response or response
            entries = array(response.get("output")) if event["type"] in _WHOLE else []
            for entry, known in zip(entries, self._matching(entries), strict=True):
                index = self.next_index if known is None else known
                done = index in self.items and self.items[index].done
                if not isinstance(entry, dict) or done or index >= MAX_OUTPUT:
                    continue
                is_cut = entry.get("status") == "incomplete"
                if is_cut and entry.get("type") not in TEXT_ITEMS:  # clients run what is done
                    if known is None:
                        yield from self._add(index, entry)
                else:
                    yield from self._item_done(index, entry)
        yield OtherEvent(None, event)


def _part_in(item: Json, holder: str, value: Json) -> StreamedPart | None:
    """What a part of a whole item is."""
    if value.get("type") == "refusal":
        return REFUSAL
    return _BY_PLACE.get((string(item.get("type")), holder))
