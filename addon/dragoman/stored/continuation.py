"""Gives a request that continues kept responses the whole conversation.

Later stages know nothing of stored responses: the earlier items are converted before the
request's own, so a continued conversation becomes the same messages as one that the client sends
whole, and a provider's prefix cache holds.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..bridge.request.validation import (
    RequestObject,
    label,
    missing,
    wrong_type,
)
from ..wire.errors import Refused
from ..wire.json_codec import Json, array
from ..wire.json_slices import reading, writing
from ..wire.responses import CALL_OUTPUTS, refers
from ..wire.slices import Slices, emptied
from .stored_response import StoredResponse, resolved_items

_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_(in_)?([0-9]{1,9})")
"""An item's id names its response, and its place in the output or (``in_``) in the input."""
MAX_BYTES = 32 * 1024 * 1024
"""Of all turns that are kept ready."""
ENTRY = 500
"""About what Python takes for each beside its text."""


@dataclass(frozen=True, slots=True)
class Continuation:
    items: list[Json] = field(default_factory=list)
    """The conversation before the request's own input."""
    ancestors: tuple[str, ...] = ()
    """The ids of its responses."""
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which ``item_reference`` items of the request refer, by id."""
    parts: tuple[str, ...] = ()
    """See `StoredResponse.packed`."""


def previous_id(body: Json) -> str | None:
    """The response that `body` continues; raises `Refused`."""
    return RequestObject(body).string("previous_response_id") or None


def referring(body: Json) -> Slices[list[str]]:
    """The ids of the items to which `body` refers."""
    found: list[str] = []
    for item in array(body.get("input")):
        if refers(item):
            found.append(item["id"])
        yield
    return found


def response_ids_of(item_ids: Iterable[str]) -> set[str]:
    return {f"resp_{found[1]}" for found in map(_ITEM_ID.fullmatch, item_ids) if found}


def not_found(response_id: str) -> Refused:
    """OpenAI's words for a response that is requested itself, and not there, or somebody else's
    (`previous_not_found`: one to continue)."""
    name = label(response_id)
    return Refused(f"Response with id '{name}' not found.", status=404, param="response_id")


def in_progress(response_id: str, *, previous: bool = False) -> Refused:
    """The refusal of what must wait for the end of a response."""
    return Refused(
        f"Response with id '{label(response_id)}' is still in progress: wait for its end, or "
        "cancel it.",
        status=409,
        param="previous_response_id" if previous else "response_id",
        code="response_in_progress",
    )


def continuing(
    previous: StoredResponse | None,
    items: list[Json],
    item_ids: Iterable[str],
    others: Mapping[str, StoredResponse],
) -> Slices[Continuation]:
    """What a request continues.

    `items` are those of the conversation that ends with the `previous` response; `others` are the
    responses, by id, to whose items `item_ids` the request refers.  A reference to a missing item
    stays, and the conversion refuses it.
    """
    inputs: dict[str, list[Json]] = {}
    found: dict[str, Json] = {}
    for item_id in item_ids:
        named = _ITEM_ID.fullmatch(item_id)
        response_id = f"resp_{named[1]}" if named else ""
        if not named or response_id not in others:
            continue
        if named[2] and response_id not in inputs:
            inputs[response_id] = yield from others[response_id].input_items()
        named_items = inputs[response_id] if named[2] else others[response_id].response["output"]
        if int(named[3]) < len(named_items):
            found[item_id] = named_items[int(named[3])]
    ancestors = (*previous.ancestors, previous.response["id"]) if previous else ()
    needed = [previous, *others.values()] if previous else others.values()
    parts = dict.fromkeys(digest for kept in needed for digest in kept.inherited)
    return Continuation(items, ancestors, found, tuple(parts))


def with_references(body: Json, references: Mapping[str, Json]) -> Slices[Json]:
    """`body` with the items in the place of the references to them."""
    if not references:
        return body
    return {**body, "input": (yield from resolved_items(body["input"], references))}


# Outputs of tools that are submitted to a response


def open_calls(kept: StoredResponse) -> Slices[dict[str, Json]]:
    """The calls of a response that wait for their outputs, by their ids."""
    calls: dict[str, Json] = {}
    answered = set()
    for item in (yield from kept.output_items()):
        if item.get("type") in CALL_OUTPUTS.values():
            answered.add(item.get("call_id"))
        elif item.get("type") in CALL_OUTPUTS:
            calls[item["call_id"]] = item
        yield
    return {call_id: call for call_id, call in calls.items() if call_id not in answered}


def submitted(body: object, kept: StoredResponse) -> Slices[list[Json]]:
    """The items that answer the open calls of `kept`, in the order of the calls, from the
    body of a ``submit_tool_outputs`` request; raises `Refused`."""
    if not isinstance(body, dict):
        raise wrong_type(body, "an object", "body")
    waiting = yield from open_calls(kept)
    if not waiting:
        raise Refused("This response waits for no tool outputs.", param="tool_outputs")
    outputs: dict[str, Any] = {}
    for path, value in RequestObject(body).array("tool_outputs"):
        output = RequestObject.of(value, path)
        call_id = output.string("tool_call_id") or output.string("call_id")
        if call_id is None:
            raise missing(output.at("tool_call_id"))
        if call_id not in waiting:
            raise Refused(
                f"'{path}': no call with id '{call_id[:100]}' waits for its output.",
                param=output.at("tool_call_id"),
            )
        outputs[call_id] = output.get("output")
        yield
    lacking = [call_id for call_id in waiting if call_id not in outputs]
    if lacking:
        raise Refused(
            f"The outputs of these calls are missing: {', '.join(lacking)[:200]}.",
            param="tool_outputs",
            code="missing_required_parameter",
        )
    items = []
    for call_id, call in waiting.items():
        answer = "" if outputs[call_id] is None else outputs[call_id]
        # An output with more fields than one comes as an object.
        fields = answer if isinstance(answer, dict) else {"output": answer}
        items.append({**fields, "type": CALL_OUTPUTS[call["type"]], "call_id": call_id})
        yield
    return items


def resuming(kept: StoredResponse, outputs: Sequence[Json]) -> Slices[Json]:
    """The request that continues a response after its calls, with their outputs."""
    items = yield from kept.turn_items()
    body = yield from kept.request_body()
    return {**body, "input": [*items, *outputs], "previous_response_id": None}


# The responses that were continued last, in memory, so that the store need not be read again


class ReadyTurns:
    """What responses add to their conversations, as JSON: the parsed values would be a million
    objects, and each full garbage collection would look at all of them while all flows wait."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._texts: OrderedDict[tuple[bytes, str], bytes] = OrderedDict()
        """By who asks and the response's id, least recently used first."""

    def find(self, asker: bytes, response_id: str) -> bytes | None:
        key = asker, response_id
        if key in self._texts:
            self._texts.move_to_end(key)
        return self._texts.get(key)

    def add(self, asker: bytes, response_id: str, text: bytes) -> None:
        self.drop(asker, response_id)
        self._texts[asker, response_id] = text
        self._size += len(text) + ENTRY
        while self._size > self._max_bytes:
            self.drop(*next(iter(self._texts)))

    def drop(self, asker: bytes, response_id: str) -> None:
        """It was replaced or deleted."""
        text = self._texts.pop((asker, response_id), None)
        if text is not None:
            self._size -= len(text) + ENTRY

    def clear(self) -> None:
        self._texts.clear()
        self._size = 0


def writing_turn(kept: StoredResponse) -> Slices[bytes]:
    """A turn that was read only to be kept ready."""
    items = yield from kept.turn_items()
    text = yield from writing(items)
    yield from emptied(items)
    return text


def reading_turns(texts: Iterable[bytes]) -> Slices[list[Json]]:
    """All items of these turns."""
    items: list[Json] = []
    for text in texts:
        items += yield from reading(text)
        yield
    return items
