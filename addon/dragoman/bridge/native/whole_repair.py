"""Repairs a native Responses reply that is not streamed, by way of the events of a stream."""

from __future__ import annotations

from collections.abc import Iterator

from ...notes import Evidence
from ...repair.chat_message import AT_ONCE
from ...repair.formats import at_markers
from ...repair.pending import Policy
from ...repair.pipeline import RepairPipeline
from ...wire import responses
from ...wire.json_codec import Json, NotJson, dumps
from ...wire.json_slices import reading, writing
from ...wire.responses import TextEvents
from ...wire.slices import Slices
from ...wire.sse import encode, is_event_stream
from .request_tools import RequestTools
from .stream_repair import ResponsesStreamRepair

_TEXTS = {
    ("message", "content", "output_text"): responses.OUTPUT_TEXT,
    ("message", "content", "refusal"): responses.REFUSAL,
    ("reasoning", "content", "reasoning_text"): responses.REASONING_TEXT,
    ("reasoning", "summary", "summary_text"): responses.SUMMARY_TEXT,
}
"""The types of parts that hold a text, and the events by which it would be streamed."""


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
        if not isinstance(item, dict):
            continue
        at: Json = {"output_index": place}
        parts = list(_parts(item))
        empty: Json = {holder: [] for holder, _, _ in parts}
        yield {"type": "response.output_item.added", **at, "item": item | empty}
        for holder, index, part in parts:
            where = at | {"summary_index" if holder == "summary" else "content_index": index}
            kind = str(item.get("type")), holder, str(part.get("type"))
            yield from _part(part, _TEXTS.get(kind), where)
        yield {"type": "response.output_item.done", **at, "item": item}


def _parts(item: Json) -> Iterator[tuple[str, int, Json]]:
    for holder in ("summary", "content") if item.get("type") in ("message", "reasoning") else ():
        parts = item.get(holder)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict):
                yield holder, index, part


def _part(part: Json, events: TextEvents | None, where: Json) -> Iterator[Json]:
    text = part.get(events.field) if events is not None else None
    added = {"type": "response.content_part.added", **where}
    if events is None or not isinstance(text, str):
        yield {**added, "part": part}
        return
    yield {**added, "part": part | {events.field: ""}}
    for piece in at_markers(text, AT_ONCE):
        yield {"type": events.delta, **where, "delta": piece}
    yield {"type": events.done, **where}
