"""Makes a request that continues kept responses one with the whole conversation.

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
    previous_not_found,
    wrong_type,
)
from ..wire.errors import Refused
from ..wire.json_codec import Json, array
from ..wire.responses import CALL_OUTPUTS, refers
from ..wire.slices import Slices
from .stored_response import StoredResponse, input_items

_ITEM_ID = re.compile(r"[a-z]+_([0-9a-f]{32})_(in_)?([0-9]{1,9})")
"""An item's id names its response, and its place in the output or (``in_``) in the input."""
References = list[tuple[str, str, bool, int]]
"""Each item's id, that of its response, whether it is of its input, and its place there."""


@dataclass(frozen=True, slots=True)
class Continuation:
    items: list[Json] = field(default_factory=list)
    """The conversation before the request's own input."""
    before: tuple[str, ...] = ()
    references: Mapping[str, Json] = field(default_factory=dict)
    """The items to which ``item_reference`` items of the request refer, by id."""
    parts: tuple[str, ...] = ()
    """See `StoredResponse.packed`."""


def previous_id(body: Json) -> str | None:
    """The response that `body` continues; raises `Refused`."""
    return RequestObject(body).string("previous_response_id") or None


def referring(body: Json) -> Slices[References]:
    """The items of kept responses to which `body` refers."""
    found: References = []
    for item in array(body.get("input")):
        if refers(item) and (named := _ITEM_ID.fullmatch(item["id"])):
            found.append((item["id"], f"resp_{named[1]}", bool(named[2]), int(named[3])))
        yield
    return found


def response_ids_of(item_ids: Iterable[str]) -> set[str]:
    return {f"resp_{found[1]}" for found in map(_ITEM_ID.fullmatch, item_ids) if found}


def not_found(response_id: str, *, previous: bool) -> Refused:
    """OpenAI's words for a response that is not there, or somebody else's: one to continue
    (`previous`), or one that is requested itself."""
    if previous:
        return previous_not_found(response_id)
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
    references: References,
    chain: Sequence[StoredResponse],
    others: Mapping[str, StoredResponse],
    said: Sequence[Json] = (),
) -> Slices[Continuation]:
    """What a request continues.

    `chain` is the previous response after all those before it, or after those whose items
    `said` has; `others` are the responses to whose items it refers, by id.  Items that are
    not there stay references, which the conversion refuses.
    """
    inputs: dict[str, list[Json]] = {}
    found: dict[str, Json] = {}
    for item_id, response_id, in_input, index in references:
        kept = others.get(response_id)
        if kept is None:
            continue
        if in_input and response_id not in inputs:
            inputs[response_id] = yield from kept.listing_input()
        items = inputs[response_id] if in_input else kept.response["output"]
        if index < len(items):
            found[item_id] = items[index]
    conversation = list(said)
    for kept in chain:
        conversation += yield from kept.listing()
    before = (*chain[-1].before, chain[-1].response["id"]) if chain else ()
    of_all = [digest for kept in (*chain[-1:], *others.values()) for digest in kept.inherited]
    return Continuation(conversation, before, found, tuple(dict.fromkeys(of_all)))


def with_references(body: Json, references: Mapping[str, Json]) -> Slices[Json]:
    """`body` with the items in the place of the references to them."""
    if not references:
        return body
    return {**body, "input": (yield from input_items(body["input"], references))}


# Outputs of tools that are submitted to a response


def open_calls(kept: StoredResponse) -> Slices[dict[str, Json]]:
    """The calls of a response that wait for their outputs, by their ids."""
    calls: dict[str, Json] = {}
    answered = set()
    for item in (yield from kept.outcome()):
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
    request = RequestObject(body)
    waiting = yield from open_calls(kept)
    if not waiting:
        raise Refused("This response waits for no tool outputs.", param="tool_outputs")
    outputs: dict[str, Any] = {}
    for path, value in request.array("tool_outputs"):
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
    answers = []
    for call_id, call in waiting.items():
        answers.append(_answer(call, outputs[call_id]))
        yield
    return answers


def _answer(call: Json, output: Any) -> Json:
    """Some outputs have fields of their own; those come as an object."""
    fields = output if isinstance(output, dict) else {"output": "" if output is None else output}
    return {**fields, "type": CALL_OUTPUTS[call["type"]], "call_id": call["call_id"]}


def resuming(kept: StoredResponse, outputs: Sequence[Json]) -> Slices[Json]:
    """The request that continues a response after its calls, with their outputs."""
    items = yield from kept.listing()
    ask = yield from kept.asking()
    return {**ask, "input": [*items, *outputs], "previous_response_id": None}
