"""The events of a response that has ended, written once more.

The response has all texts; where they were cut into deltas is in what `Writer.writing_cuts`
writes.  Both give the same events with the same sequence numbers, so that a client can continue
after any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...wire.errors import UpstreamError
from ...wire.json_codec import Json, loads
from ...wire.slices import Slices
from ...wire.sse import Frame
from ..envelope import open_sealed
from ..turn_context import Tool, ToolKind
from .dialects import DIALECTS
from .event_writer import ProseKind, Writer
from .open_part import ANNOTATION, HEARTBEAT, LOGPROBS, deltas_of

_NOT_YET: Json = {
    "completed_at": None,
    "status": "in_progress",
    "incomplete_details": None,
    "error": None,
    "usage": None,
}
_PROSE: dict[str, ProseKind] = {
    "output_text": "text",
    "refusal": "refusal",
    "summary_text": "reasoning",
    "reasoning_text": "reasoning",
}
_AT_ONCE = 500
"""Deltas that are written in one step, of about a millisecond."""


def replaying_events(response: Json, cuts: bytes) -> Slices[list[Frame]]:
    """The whole stream of a response, in slices; `cuts` are the writer's."""
    how = loads(cuts)
    prior = response["output"][: how["prior"]]
    parts = _parts(response["output"][how["prior"] :])
    opened = {**response, **_NOT_YET, "output": []}
    opened.pop("required_action", None)
    ended_at = response["completed_at"] or 0
    writer = Writer(opened, DIALECTS[how["dialect"]], clock=lambda: ended_at, prior=prior)
    writer.start()
    frames = yield from writer.events.draining()
    item: Json = {}
    for cut in how["cuts"]:
        if cut == HEARTBEAT:
            _close(writer, item)
            writer.heartbeat()
            continue
        following, part = next(parts)
        if following is not item:
            _close(writer, item)
            item = following
        if part is not None:
            yield from _prose(writer, part, cut)
        elif item["type"] == "compaction":
            writer.compaction(open_sealed(item["encrypted_content"]) or "")
        elif isinstance(cut, dict):
            tool = Tool("function", cut["name"])
            fields = {name: value for name, value in item.items() if name != "id"}
            writer.whole_call(fields, tool, item["call_id"], cut["arguments"])
        else:
            yield from _call(writer, item, cut)
    _end(writer, response, how["error"], item)
    return frames + (yield from writer.events.draining())


def _parts(output: Sequence[Json]) -> Iterator[tuple[Json, Json | None]]:
    """Each part of each item; None for what a call holds."""
    for item in output:
        if item["type"] in ("message", "reasoning"):
            for part in item.get("content") or item["summary"]:
                yield item, part
        else:
            yield item, None


def _close(writer: Writer, item: Json) -> None:
    if item:
        writer.close_item("incomplete" if item.get("status") == "incomplete" else "completed")


def _prose(writer: Writer, part: Json, cuts: Sequence[int | str]) -> Slices[None]:
    kind = _PROSE[part["type"]]
    annotations = iter(part.get("annotations", ()))
    logprobs, known = part.get("logprobs", []), 0
    deltas = deltas_of(part["refusal" if kind == "refusal" else "text"], cuts)
    for number, (piece, following) in enumerate(pairwise([*deltas, ""])):
        if isinstance(piece, str):
            more = LOGPROBS - following if isinstance(following, int) else 0
            writer.prose(kind, piece, logprobs[known : known + max(0, more)])
            known += max(0, more)
        elif piece == ANNOTATION:
            writer.annotate(next(annotations))
        elif piece == HEARTBEAT:
            writer.heartbeat()
        if number % _AT_ONCE == 0:
            yield


def _call(writer: Writer, item: Json, cuts: Sequence[int | str]) -> Slices[None]:
    holder = item.get("function", item)
    custom = item["type"] == "custom_tool_call"
    kind: ToolKind = "custom" if custom else "function"
    encrypted = "encrypted_function_args" in item
    tool = Tool(kind, holder["name"], item.get("namespace"), encrypted)
    writer.begin_call(tool, item["call_id"])
    for number, piece in enumerate(deltas_of(holder["input" if custom else "arguments"], cuts)):
        if isinstance(piece, str):
            writer.call_delta(piece)
        else:
            writer.heartbeat()
        if number % _AT_ONCE == 0:
            yield


def _end(writer: Writer, response: Json, error: Json | None, item: Json) -> None:
    usage = response["usage"]
    if error is None or not error["open"]:
        _close(writer, item)
    if error is not None:
        fields = (error[name] for name in ("message", "type", "code", "param"))
        writer.fail(UpstreamError(*fields), usage)
    elif response["status"] == "cancelled":
        writer.cancel(usage)
    elif response["incomplete_details"]:
        writer.incomplete(response["incomplete_details"]["reason"], usage)
    else:
        writer.complete(usage)
