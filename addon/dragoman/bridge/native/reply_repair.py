"""Repair of a reply of either API: the type of its request's tools says which."""

from __future__ import annotations

from collections.abc import Iterator

from ...notes import Evidence
from ...repair import chat_message
from ...repair.chat_stream import ChatStreamRepair
from ...repair.declared_tools import DeclaredTools
from ...repair.pending import Policy
from ...repair.pipeline import RepairPipeline, StreamRepair
from ...wire.json_codec import Json, NotJson, dumps
from ...wire.json_slices import reading, writing
from ...wire.slices import Slices
from ...wire.sse import encode, is_event_stream
from .host_items import HostItems
from .request_tools import RequestTools
from .stream_repair import ResponsesStreamRepair
from .unstreamed import item_events

Tools = DeclaredTools | RequestTools
"""Those of a chat request, or of a Responses request."""


def reading_tools(request: object, *, native: bool | None = None) -> Slices[Tools]:
    """`native`: whether the request is one of the Responses API; None: as its body shows."""
    if native is None:
        native = isinstance(request, dict) and "input" in request and "messages" not in request
    return RequestTools.reading(request) if native else DeclaredTools.reading(request)


def declared(tools: Tools) -> DeclaredTools:
    """The tools as repair knows them."""
    return tools.declared if isinstance(tools, RequestTools) else tools


def stage_for(tools: Tools, policy: Policy, evidence: Evidence, now: int) -> StreamRepair:
    """The stage that repairs a streamed reply."""
    if isinstance(tools, RequestTools):
        return ResponsesStreamRepair(tools, policy, evidence, now)
    return ChatStreamRepair(tools, policy, evidence, now)


def repairing_whole(
    body: bytes, tools: Tools, policy: Policy, evidence: Evidence, now: int
) -> Slices[bytes]:
    """A reply that was received whole, repaired: JSON, or from an upstream that streams
    whatever it is asked for, an event stream."""
    if isinstance(tools, DeclaredTools):
        return (yield from chat_message.repairing_whole(body, tools, policy, evidence, now))
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
    """The events by which this response would be streamed."""
    yield {"type": "response.created", "response": response | {"output": []}}
    for index, item in enumerate(response["output"]):
        if isinstance(item, dict):
            yield from item_events(index, item, HostItems())
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
