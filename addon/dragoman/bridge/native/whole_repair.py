"""Repairs a native Responses reply that is not streamed, by way of the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator

from ...notes import Evidence
from ...repair.pending import Policy
from ...repair.pipeline import RepairPipeline
from ...wire.json_codec import Json, NotJson, dumps
from ...wire.json_slices import reading, writing
from ...wire.slices import Slices
from ...wire.sse import encode, is_event_stream
from .host_items import HostItems
from .request_tools import RequestTools
from .stream_repair import ResponsesStreamRepair
from .unstreamed import item_events


def repairing_whole(
    body: bytes, tools: RequestTools, policy: Policy, evidence: Evidence, now: int
) -> Slices[bytes]:
    """A reply that was received whole, repaired: JSON, or from an upstream that streams
    whatever it is asked for, an event stream."""
    repair = ResponsesStreamRepair(tools, policy, evidence, now)
    if is_event_stream(body):
        return (yield from RepairPipeline(repair, evidence).reading(body))
    if not (yield from policy.formats.widest.holding_marker(body)):
        return body
    try:
        response = yield from reading(body)
    except NotJson:
        return body
    if not isinstance(response, dict) or not isinstance(response.get("output"), list):
        return body
    for event in _events(response):
        repair.feed(encode(dumps(event)))
        yield
    repaired = repair.rewritten(response)
    return body if repaired is response else (yield from writing(repaired))


def _events(response: Json) -> Iterator[Json]:
    yield {"type": "response.created", "response": response | {"output": []}}
    for place, item in enumerate(response["output"]):
        if isinstance(item, dict):
            yield from item_events(place, item, HostItems())
            yield {"type": "response.output_item.done", "output_index": place, "item": item}
