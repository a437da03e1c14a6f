"""Follows a native Responses stream as strictly as clients do; hosts' own fields are theirs.

The rules are those of `grammar`, without what only the bridge promises: the fields of the
snapshots, and that a host's last snapshot has the ids of its stream (vLLM's has others).
"""

from __future__ import annotations

import json
from typing import Any

from dragoman.wire.sse import split

from .grammar import _MODELS, TEXTS

Json = dict[str, Any]
_TEXTS = {**TEXTS, "response.reasoning_text": ("reasoning", "text", "content_index")}


def check_native(stream: bytes) -> list[Json]:
    """The events; raises AssertionError where one may not stand where it stands."""
    events = [json.loads(frame.data or b"") for frame in split(stream) if not frame.is_done]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done: list[Json] = []
    item: Json | None = None
    texts: list[str] = []
    for event in events:
        kind = event["type"]
        model = _MODELS.get(kind)
        if model is not None and kind != "response.output_text.delta":
            model.model_validate(event)
        if kind == "response.output_item.added":
            assert item is None and event["output_index"] == len(done)
            assert event["item"]["id"] not in [each["id"] for each in done]
            item, texts = event["item"], []
        elif kind == "response.output_item.done":
            assert item is not None and event["output_index"] == len(done)
            ended = event["item"]
            assert [ended[name] for name in ("id", "type")] == [item["id"], item["type"]]
            assert _text(ended) == "".join(texts)
            done.append(ended)
            item = None
        elif "output_index" in event:
            assert item is not None and event["output_index"] == len(done)
            assert event["item_id"] == item["id"]
            name, _, last = kind.rpartition(".")
            if name in _TEXTS and last == "delta":
                texts.append(event["delta"])
            elif name in _TEXTS:
                assert event[_TEXTS[name][1]] == "".join(texts)
    last = events[-1]
    if last["type"] == "response.completed":
        assert item is None
        listed = [_shown(each) for each in last["response"]["output"]]
        assert listed == [_shown(each) for each in done]
    return events


def _text(item: Json) -> str:
    if item["type"] == "function_call":
        return str(item["arguments"])
    if item["type"] == "custom_tool_call":
        return str(item["input"])
    parts = [*(item.get("content") or []), *(item.get("summary") or [])]
    return "".join(part["text"] for part in parts)


def _shown(item: Json) -> Json:
    return {**item, "id": ""}
