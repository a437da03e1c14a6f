"""The output of a host's last snapshot, with the items that took the place of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...wire.json_codec import Json, NotJson, loads


def merged_output(
    output: object, streamed: Mapping[int, Json], repaired: Mapping[int, Sequence[Json]]
) -> list[Any]:
    """`output` is the host's; `streamed` are its items as they were streamed, by their indexes,
    and `repaired` is what took the place of some.

    Some hosts list items under other ids than they streamed them (vLLM), so one is known by its
    place and type as well.  They may also have found the call in the whole text that they had
    streamed as text: it is not listed twice.  Others list nothing, and that stays so."""
    entries = output if isinstance(output, list) else []
    places = {_id(item): place for place, item in streamed.items() if _id(item)}
    made = [call for items in repaired.values() for item in items if (call := _called(item))]
    left = dict(repaired)
    merged: list[Any] = []
    for position, entry in enumerate(entries):
        item: Json = entry if isinstance(entry, dict) else {}
        place = places.get(_id(item))
        if place is None and streamed.get(position, {}).get("type") == item.get("type"):
            place = position
        if place is not None and place in repaired:
            merged += left.pop(place, ())
        elif place is not None or _called(item) not in made:
            merged.append(entry)
    if entries:
        merged += [item for items in left.values() for item in items]
    return merged


def text_of(output: Sequence[Any]) -> str:
    """The text of all messages."""
    parts = [
        part
        for item in output
        if isinstance(item, dict) and item.get("type") == "message"
        for part in item.get("content") or ()
    ]
    return "".join(part.get("text") or "" for part in parts if isinstance(part, dict))


def _id(item: Json) -> str:
    value = item.get("id")
    return value if isinstance(value, str) else ""


def _called(item: Json) -> tuple[str, str, Any] | None:
    """What a function is called with; None for an item of another kind."""
    arguments = item.get("arguments")
    if item.get("type") != "function_call" or not isinstance(arguments, str):
        return None
    try:
        return "", str(item.get("name")), loads(arguments)
    except NotJson:
        return None
