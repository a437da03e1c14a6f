"""The bodies of answers about a kept response."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..bridge.request.validation import label
from ..responses.event_replay import after_number, replayed_events
from ..responses.names import item_id
from ..wire.errors import Refused
from ..wire.json_codec import Json, array
from ..wire.sse import joined
from .stored_response import StoredResponse

MAX_LIMIT = 100
DEFAULT_LIMIT = 20
_PARTS: dict[str, Json] = {"output_text": {"annotations": []}, "input_image": {"detail": "auto"}}
"""Fields of the API's parts that a client need not send."""


def deleted(response_id: str) -> Json:
    """The answer to DELETE."""
    return {"id": response_id, "object": "response", "deleted": True}


def events_after(kept: StoredResponse, number: int) -> bytes:
    """The stream again, each text in one delta, after the event with this sequence number (-1: all
    of it). Raises `Refused` if it was not streamed."""
    streamed = kept.streamed
    if streamed is None:
        raise Refused("This response was not streamed.")
    frames = replayed_events(
        kept.response, streamed.dialect, prior=streamed.prior, events=streamed.events
    )
    return joined(after_number(frames, number))


def input_items(chain: Sequence[StoredResponse], query: Mapping[str, str]) -> Json:
    """A page of the input of the last response of `chain`: everything before it, and its own input.
    Raises `Refused` for an invalid query."""
    listed: list[Json] = []
    for kept in chain:
        listed += _listed(kept, "in", kept.input_items())
        if kept is not chain[-1]:
            listed += _listed(kept, "out", kept.output_items())
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise Refused("'order' must be 'asc' or 'desc'.", param="order")
    if order == "desc":
        listed.reverse()
    after = query.get("after")
    if after is not None:
        # The last of them: a client may have given several items one id.
        place = next((n for n in reversed(range(len(listed))) if listed[n]["id"] == after), None)
        if place is None:
            raise Refused(f"No item with id '{label(after)}' is here.", param="after", status=404)
        listed = listed[place + 1 :]
    page = listed[: _limit(query)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": len(page) < len(listed),
    }


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", str(DEFAULT_LIMIT))
    limit = int(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise Refused(f"'limit' must be a number from 1 to {MAX_LIMIT}.", param="limit")
    return limit


def _listed(kept: StoredResponse, part: str, items: Sequence[Json]) -> list[Json]:
    """The items in the form of the API: with an id, a type and a status, and content in parts.
    `continuation` finds an item by the id that it gets here."""
    own = str(kept.response["id"]).removeprefix("resp_")
    found = []
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        listed = {"id": None, **item, "type": kind, "status": item.get("status") or "completed"}
        if not isinstance(listed["id"], str):
            listed["id"] = item_id(kind, f"{own}_{part}_{index}")
        if kind == "message":
            listed["content"] = _parts(item)
        found.append(listed)
    return found


def _parts(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        kind = "output_text" if message.get("role") == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    return [_PARTS.get(part["type"], {}) | part for part in array(content)]
