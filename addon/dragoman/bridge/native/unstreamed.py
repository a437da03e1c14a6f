"""Text that a host sends without deltas, as the events by which it would be streamed.

Some hosts send the whole text of a part only with its end, an item only when it is done, or
all of them only with the terminal event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from ...repair.events import LeftAsText, ScanEvent, Text
from ...repair.scanner import Scanner
from ...wire import responses
from ...wire.json_codec import Json, array
from ...wire.responses import DELTAS, DONES, TextEvents
from .host_items import HostItems, PartKey

_TEXTS = {
    ("message", "content"): responses.OUTPUT_TEXT,
    ("reasoning", "content"): responses.REASONING_TEXT,
    ("reasoning", "summary"): responses.SUMMARY_TEXT,
}
"""The events by which the texts of an item are streamed: whatever their types, which hosts choose
freely (SGLang's router, LocalAI), but for a refusal."""
_WHOLE = ("response.completed", "response.incomplete")
"""The terminal events after which clients run calls."""
_PART_EVENTS = {"content": "response.content_part", "summary": "response.reasoning_summary_part"}


def unstreamed(event: Json, host: HostItems) -> Iterator[Json]:
    """The texts of `event` that no delta has brought, as events that would have come before it."""
    kind, index = event["type"], host.index_of(event)
    item, part, response = event.get("item"), event.get("part"), event.get("response")
    if kind in _WHOLE and isinstance(response, dict):
        yield from _of_terminal(response, host)
    elif index is None or index in host.done:
        pass
    elif kind in DONES:
        if (found := host.text_of(event)) is not None:
            part = {"type": found[1].type, DONES[kind].field: event.get(DONES[kind].field)}
            yield from _rest(event, host, found[0], part, DONES[kind])
    elif kind == "response.output_item.done" and isinstance(item, dict):
        yield from _item_events(index, item, host)
    elif kind.endswith("_part.done") and isinstance(part, dict) and (key := host.part_of(event)):
        thought = part.get("type") in ("reasoning_text", "summary_text")
        item = host.items.get(index, {"type": "reasoning" if thought else "message"})
        events = _events_of(item, key.holder, part)
        if events is not None:
            yield from _rest(event, host, key, part, events)


def leaks(events: Iterable[Json], new_scanner: Callable[[], Scanner]) -> bool:
    """Whether repair would change anything in the texts of these events."""
    scanner: Scanner | None = None
    for event in [*events, {"type": ""}]:
        pieces: list[ScanEvent] = []
        if event["type"] in DELTAS:
            scanner = scanner or new_scanner()
            pieces = scanner.feed(event["delta"])
        elif scanner is not None:
            pieces, scanner = scanner.close(), None
        if any(not isinstance(piece, Text | LeftAsText) for piece in pieces):
            return True
    return False


def events_of(response: Json) -> Iterator[Json]:
    """The events by which this response would be streamed."""
    yield {"type": "response.created", "response": response | {"output": []}}
    for index, item in enumerate(response["output"]):
        if isinstance(item, dict):
            yield from _item_events(index, item, HostItems())
            yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _item_events(output_index: int, item: Json, host: HostItems) -> Iterator[Json]:
    """All of an item but its end, as far as it was not streamed."""
    where: Json = {"output_index": output_index, "item_id": item.get("id")}
    parts = list(_parts(item))
    if output_index not in host.items:
        empty: Json = {holder: [] for holder, _, _ in parts} | {"status": "in_progress"}
        added = "response.output_item.added"
        yield {"type": added, "output_index": output_index, "item": item | empty}
    streamed = Counter(key.holder for key in host.texts if key.output_index == output_index)
    for holder, index, part in parts:
        if index < streamed[holder]:
            continue
        of_part = where | {f"{holder}_index": index}
        events = _events_of(item, holder, part)
        text = part.get(events.field) if events is not None else None
        if PartKey(output_index, holder, index) not in host.parts:
            empty = {events.field: ""} if events is not None and isinstance(text, str) else {}
            yield {"type": f"{_PART_EVENTS[holder]}.added", **of_part, "part": part | empty}
        if events is not None and isinstance(text, str):
            yield {"type": events.delta, **of_part, "delta": text}
            yield {"type": events.done, **of_part, events.field: text}
            yield {"type": f"{_PART_EVENTS[holder]}.done", **of_part, "part": part}


def _of_terminal(response: Json, host: HostItems) -> Iterator[Json]:
    entries = array(response.get("output"))
    new = host.next_index
    for entry, known in zip(entries, host.matching(entries), strict=True):
        if not (isinstance(entry, dict) and any(_parts(entry))):
            continue
        index = new if known is None else known
        new = max(new, index + 1)
        if index not in host.done and all(key.output_index != index for key in host.texts):
            yield from _item_events(index, entry, host)
            done = "response.output_item.done"
            yield {"type": done, "output_index": index, "item": entry}


def _rest(
    event: Json, host: HostItems, key: PartKey, part: Json, events: TextEvents
) -> Iterator[Json]:
    """The end of a text that was streamed only in part, or not at all."""
    output_index, holder, index = key
    text, streamed = part.get(events.field), host.texts[key].text if key in host.texts else ""
    if not isinstance(text, str) or not text.startswith(streamed):
        return
    if text in ("", *(each.text for each in host.texts.values() if each.key[:2] == key[:2])):
        return
    item_id = event.get("item_id")
    if output_index not in host.items:
        item: Json = {"id": item_id or f"item_{output_index}", "status": "in_progress"}
        if events.kind == "reasoning":
            item |= {"type": "reasoning", "summary": [], holder: []}
        else:
            item |= {"type": "message", "role": "assistant", "content": []}
        added = "response.output_item.added"
        yield {"type": added, "output_index": output_index, "item": item}
    where = {"output_index": output_index, "item_id": item_id, f"{holder}_index": index}
    if not streamed and key not in host.parts:
        added = f"{_PART_EVENTS[holder]}.added"
        yield {"type": added, **where, "part": part | {events.field: ""}}
    yield {"type": events.delta, **where, "delta": text[len(streamed) :]}


def _events_of(item: Json, holder: str, part: Json) -> TextEvents | None:
    if part.get("type") == "refusal":
        return responses.REFUSAL
    return _TEXTS.get((str(item.get("type")), holder))


def _parts(item: Json) -> Iterator[tuple[str, int, Json]]:
    for holder in ("summary", "content") if item.get("type") in ("message", "reasoning") else ():
        for index, part in enumerate(array(item.get(holder))):
            if isinstance(part, dict):
                yield holder, index, part
