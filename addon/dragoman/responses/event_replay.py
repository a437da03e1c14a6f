"""The events of a response that has ended, written once more: each text in one delta.

A stream in which each text came in one delta, and no heartbeat, gets the same events with the same
sequence numbers; of any other the end has the number that it had, so that a client that continues
after an event gets at least the end, with the whole response.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..reply.turn_context import Tool, ToolKind
from ..wire.json_codec import Json
from ..wire.sse import Frame
from .dialects import DIALECTS
from .envelope import open_sealed
from .event_writer import ItemStatus, ProseKind, Writer
from .names import STREAMED_CALLS

_NUMBER = re.compile(rb'"sequence_number":(\d+)')
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


def after_number(frames: Iterable[Frame], number: int) -> list[Frame]:
    """Those after the event with this sequence number (-1: all); `[DONE]` has none."""
    found = ((frame, _NUMBER.search(frame.raw)) for frame in frames)
    return [frame for frame, own in found if own is None or int(own[1]) > number]


def replayed_events(
    response: Json, dialect: str, *, prior: int = 0, events: int = 0
) -> list[Frame]:
    """The whole stream of a response; `prior` are the items that it had before, `events` how many
    there were, if that is known."""
    output: Sequence[Json] = response["output"]
    opened = {**response, **_NOT_YET, "output": []}
    opened.pop("required_action", None)
    writer = Writer(opened, DIALECTS[dialect], clock=lambda: 0, prior=output[:prior])
    writer.start()
    frames = writer.events.drain()
    for item in output[prior:]:
        if item["type"] in ("message", "reasoning"):
            for part in item.get("content") or item["summary"]:
                _prose(writer, part)
        elif item["type"] == "compaction":
            writer.compaction(open_sealed(item["encrypted_content"]) or "")
        else:
            _call(writer, item)
        status: ItemStatus = "incomplete" if item.get("status") == "incomplete" else "completed"
        # What a failure has cut is left: it had no end.
        if item is not output[-1] or status != "incomplete" or response["status"] != "failed":
            writer.close_item(status)
    writer.end_again(response, events)
    return frames + writer.events.drain()


def _prose(writer: Writer, part: Json) -> None:
    kind = _PROSE[part["type"]]
    text = part["refusal" if kind == "refusal" else "text"]
    writer.prose(kind, text, part.get("logprobs", ()))
    for annotation in part.get("annotations", ()):
        writer.annotate(annotation)


def _call(writer: Writer, item: Json) -> None:
    holder = item.get("function", item)
    custom = item["type"] == "custom_tool_call"
    field = "input" if custom else "arguments"
    if item["type"] in STREAMED_CALLS:
        kind: ToolKind = "custom" if custom else "function"
        encrypted = "encrypted_function_args" in item
        writer.begin_call(
            Tool(kind, holder["name"], item.get("namespace"), encrypted), item["call_id"]
        )
        if holder[field]:
            writer.call_delta(holder[field])
    else:
        fields = {name: value for name, value in item.items() if name != "id"}
        writer.whole_call(fields, Tool("function", ""), item["call_id"], "")
