"""The output of a host's last snapshot, with the items that took the place of others."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from ...wire.json_codec import Json, NotJson, array, dumps, loads, objects
from .host_items import id_of


def places_of(entries: Sequence[Any], streamed: Mapping[int, Json]) -> list[int | None]:
    """Which of the `streamed` items, by their indexes, each of `entries` is; None: none of them.

    Some hosts list items under other ids than they streamed them (vLLM), or not all of them
    (SGLang's router), so one is known by its type, and a call by what it calls, as well: at its
    own place, or else at the first."""
    ids = {id_of(item): place for place, item in streamed.items() if id_of(item)}
    found = [ids.get(id_of(entry)) if isinstance(entry, dict) else None for entry in entries]
    taken = set(found)
    left = {place: _kind(streamed[place]) for place in sorted(streamed) if place not in taken}
    unnamed = [at for at, e in enumerate(entries) if isinstance(e, dict) and found[at] is None]
    unknown = {at: _kind(entries[at]) for at in unnamed}
    for at, kind in unknown.items():
        if at in left and left[at] == kind:
            found[at] = at
            del left[at]
    alike = defaultdict[object, deque[int]](deque)
    for place, kind in left.items():
        alike[kind].append(place)
    for at, kind in unknown.items():
        if found[at] is None and alike[kind]:
            found[at] = alike[kind].popleft()
    return found


def merged_output(
    output: object,
    streamed: Mapping[int, Json],
    places: Mapping[int, int],
    repaired: Mapping[int, Sequence[tuple[int, Json]]],
) -> list[Any]:
    """`output` is the host's; `streamed` are its items as they were streamed, by their indexes,
    `places` the client's indexes of them, and `repaired` is what took the place of some, each with
    its index.  All are in the order of these.

    Hosts may have found the call in the whole text that they had streamed as text: it is not
    listed twice.  Others list nothing, and that stays so."""
    entries = array(output)
    made = [_kind(item) for items in repaired.values() for _, item in items]
    merged: list[tuple[int, Any]] = []
    index = -1
    for entry, place in zip(entries, places_of(entries, streamed), strict=True):
        if place is None:
            if not (isinstance(entry, dict) and _is_call(entry) and _kind(entry) in made):
                merged.append((index, entry))
        elif place not in repaired:
            index = places.get(place, place)
            merged.append((index, entry))
        elif repaired[place]:
            index = repaired[place][0][0]
    if entries:
        merged += [each for items in repaired.values() for each in items]
    return [item for _, item in sorted(merged, key=lambda each: each[0])]


def text_of(output: list[Any]) -> str:
    """The text of all messages."""
    messages = (item for item in objects(output) if item.get("type") == "message")
    parts = (part for item in messages for part in objects(item.get("content")))
    return "".join(part.get("text") or "" for part in parts)


def _is_call(item: Json) -> bool:
    return item.get("type") == "function_call" and isinstance(item.get("arguments"), str)


def _kind(item: Json) -> object:
    """By what an item is known that has another id: what is called with what, or its type."""
    kind = item.get("type")
    if not _is_call(item):
        return kind if isinstance(kind, str) else None
    try:
        return str(item.get("name")), dumps(loads(item["arguments"]))
    except NotJson:
        return str(item.get("name")), item["arguments"]
