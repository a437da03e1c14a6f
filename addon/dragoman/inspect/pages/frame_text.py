"""A frame in one line: a summary, then its text."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...wire import chat_delta
from ...wire.chat_calls import elements, read_delta
from ...wire.json_codec import Json, string
from ...wire.responses import DELTAS
from .page import clean, one_line

MAX_LINE = 8_000
SAYS = 34
"""Characters of the summary: with number and time, it fits half of a window."""


def short(value: object) -> str:
    """A chunk or an event, in the width of its column."""
    says = one_line(", ".join(_says(value)) if isinstance(value, dict) else "", SAYS)
    return f"{says:<{SAYS}}"


def _says(value: Json) -> Iterator[str]:
    if (kind := string(value.get("type"))) and not value.get("delta"):
        yield kind.removeprefix("response.")
    choices = chat_delta.choices(value)
    for choice in choices:
        calls = map(read_delta, elements(choice.delta))
        yield from (f"call {call.name}" for call in calls if call and call.name)
    if text := carried(value):
        yield json.dumps(text[:SAYS], ensure_ascii=False)
    for choice in choices:
        if finish := string(choice.fields.get("finish_reason")):
            yield f"finish {finish}"
    if isinstance(value.get("usage"), dict):
        yield "usage"


def carried(value: object) -> str:
    """The text of a chunk or an event: words, or arguments of calls."""
    if not isinstance(value, dict):
        return ""
    if string(value.get("type")) in DELTAS:
        return string(value.get("delta"))
    return "".join(_carried_by_delta(choice.delta) for choice in chat_delta.choices(value))


def _carried_by_delta(delta: Json) -> str:
    words = "".join(text for _, text in chat_delta.texts(delta))
    calls = map(read_delta, elements(delta))
    return words + "".join(call.arguments for call in calls if call)


def line_text(line: bytes, limit: int = MAX_LINE) -> str:
    text = line[: 4 * limit].decode("utf-8", "replace")
    left_out = len(line) - 4 * limit if len(line) > 4 * limit else len(text) - limit
    more = f" … and {left_out:,} more" if left_out > 0 else ""
    return clean(text[:limit]).replace("\n", "\\n") + more
