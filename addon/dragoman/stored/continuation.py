"""Gives a request that continues kept responses the whole conversation.

Later stages know nothing of stored responses: the earlier items are converted before the
request's own, so a continued conversation becomes the same messages as one that the client sends
whole, and a provider's prefix cache holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..bridge.request.validation import (
    RequestObject,
    label,
    missing,
    wrong_type,
)
from ..responses.names import CALL_OUTPUTS, refers
from ..wire.errors import Refused
from ..wire.json_codec import Json, array
from .stored_response import StoredResponse

_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_(in_)?([0-9]{1,9})")
"""An item's id names its response, and its place in the output or (``in_``) in the input."""


@dataclass(frozen=True, slots=True)
class Continuation:
    items: list[Json] = field(default_factory=list)
    """The conversation before the request's own input."""
    ancestors: tuple[str, ...] = ()
    """The ids of its responses."""
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which ``item_reference`` items of the request refer, by id."""


def previous_id(body: Json) -> str | None:
    """The response that `body` continues; raises `Refused`."""
    return RequestObject(body).string("previous_response_id") or None


def referred_ids(body: Json) -> list[str]:
    """The ids of the items to which `body` refers."""
    return [item["id"] for item in array(body.get("input")) if refers(item)]


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
        f"Response with id '{label(response_id)}' is still in progress: wait for its end.",
        status=409,
        param="previous_response_id" if previous else "response_id",
        code="response_in_progress",
    )


def too_long(max_bytes: int) -> Refused:
    """The refusal of a conversation that is larger than what is put together."""
    return Refused(
        f"The conversation that this continues is too large: more than {max_bytes:,} bytes.",
        status=413,
        param="previous_response_id",
        code="request_too_large",
    )


def found_items(
    item_ids: Iterable[str], responses: Mapping[str, StoredResponse]
) -> dict[str, Json]:
    """The items with these ids, of `responses` by their ids. One that is missing is not among them:
    the reference to it stays, and the conversion refuses it."""
    inputs: dict[str, list[Json]] = {}
    found: dict[str, Json] = {}
    for item_id in item_ids:
        named = _ITEM_ID.fullmatch(item_id)
        response_id = f"resp_{named[1]}" if named else ""
        if not named or response_id not in responses:
            continue
        kept = responses[response_id]
        if named[2] and response_id not in inputs:
            inputs[response_id] = kept.input_items()
        items = inputs[response_id] if named[2] else kept.response["output"]
        if int(named[3]) < len(items):
            found[item_id] = items[int(named[3])]
    return found


# Outputs of tools that are submitted to a response


def open_calls(kept: StoredResponse) -> dict[str, Json]:
    """The calls of a response that wait for their outputs, by their ids."""
    items = kept.output_items()
    answered = {i.get("call_id") for i in items if i.get("type") in CALL_OUTPUTS.values()}
    calls = {item["call_id"]: item for item in items if item.get("type") in CALL_OUTPUTS}
    return {call_id: call for call_id, call in calls.items() if call_id not in answered}


def submitted(body: object, kept: StoredResponse) -> list[Json]:
    """The items that answer the open calls of `kept`, in the order of the calls, from the
    body of a ``submit_tool_outputs`` request; raises `Refused`."""
    if not isinstance(body, dict):
        raise wrong_type(body, "an object", "body")
    waiting = open_calls(kept)
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
    return items


def resuming(kept: StoredResponse, outputs: Sequence[Json]) -> Json:
    """The request that continues a response after its calls, with their outputs."""
    return {
        **kept.request,
        "input": [*kept.turn_items(), *outputs],
        "previous_response_id": None,
    }
