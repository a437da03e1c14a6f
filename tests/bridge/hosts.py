"""Streams as hosts that speak the Responses API themselves write them, each in its own way.

`deltas` are texts by kind: ``("reasoning", ["Let me", " see."])``, ``("text", [...])``; or a call,
``("call", [name, *arguments])``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Said = Sequence[tuple[str, list[str]]]

USAGE: Json = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 123,
}
_NULLS = """error incomplete_details instructions max_output_tokens max_tool_calls
    previous_response_id prompt_cache_key safety_identifier completed_at"""


@dataclass
class Host:
    """One way of writing."""

    name: str
    ids: Callable[[str, int, bool], str]
    """The id of an item of a type, at a place; and whether it is listed in the last snapshot."""
    thoughts: tuple[str, str, str]
    """The events of reasoning: of its part, of its text; and the list that holds it."""
    of_deltas: Json = field(default_factory=dict)
    """What deltas of text have besides."""
    of_response: Json = field(default_factory=dict)
    sorted: bool = False
    """Whether fields stand in the order of their names."""
    spaces: bool = True
    """Whether the JSON has blanks."""
    done: bool = False
    """Whether ``[DONE]`` follows."""

    def events(self, said: Said, *, model: str = "kimi-k2.7", end: str = "completed") -> list[Json]:
        """All events of a response."""
        nulls: Json = dict.fromkeys(_NULLS.split())
        response: Json = {
            **nulls,
            **{"id": "resp_68f1", "object": "response", "created_at": 1_700_000_000},
            **{"model": model, "output": [], "tools": [], "tool_choice": "auto", "usage": None},
            **{"parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "metadata": {}},
            **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "top_logprobs": 0},
            **{"text": {"format": {"type": "text"}}, "truncation": "disabled", "store": True},
            **{"reasoning": {"effort": None, "summary": None}, "background": False},
            **{"service_tier": "default", "status": "in_progress", **self.of_response},
        }
        events: list[Json] = [
            {"type": "response.created", "response": response},
            {"type": "response.in_progress", "response": response},
        ]
        listed = []
        for place, (kind, deltas) in enumerate(said):
            events += self._item(place, kind, deltas)
            item = events[-1]["item"]
            listed.append(item | {"id": self.ids(item["type"], place, True)})
        status = {"status": end, "output": listed, "usage": USAGE}
        if end == "completed":
            status["completed_at"] = 1_700_000_009
        else:
            status["incomplete_details"] = {"reason": "max_output_tokens"}
        events.append({"type": f"response.{end}", "response": {**response, **status}})
        return [{**event, "sequence_number": n} for n, event in enumerate(events)]

    def stream(self, said: Said, *, model: str = "kimi-k2.7", end: str = "completed") -> bytes:
        """The same as bytes."""
        events = self.events(said, model=model, end=end)
        frames = [f"event: {event['type']}\ndata: {self._json(event)}\n\n" for event in events]
        return "".join([*frames, "data: [DONE]\n\n" if self.done else ""]).encode()

    def _json(self, value: Json) -> str:
        separators = (", ", ": ") if self.spaces else (",", ":")
        return json.dumps(value, ensure_ascii=False, sort_keys=self.sorted, separators=separators)

    def _item(self, place: int, kind: str, deltas: list[str]) -> list[Json]:
        if kind == "call":
            return self._call(place, *deltas)
        text = "".join(deltas)
        if kind == "reasoning":
            part_event, text_event, holder = self.thoughts
            part: Json = {"type": "summary_text" if holder == "summary" else "reasoning_text"}
            index, item = f"{holder}_index", {"type": "reasoning", "summary": [], "status": ""}
        else:
            part_event, text_event = "response.content_part", "response.output_text"
            part = {"type": "output_text", "annotations": [], "logprobs": []}
            holder, index = "content", "content_index"
            item = {"type": "message", "role": "assistant", "content": [], "status": ""}
        item["id"] = self.ids(item["type"], place, False)
        more = self.of_deltas if kind == "text" else {}
        at: Json = {"output_index": place, "item_id": item["id"], index: 0}
        whole = part | {"text": text}
        first = {"output_index": place, "item": item | {"status": "in_progress"}}
        last = {"output_index": place, "item": item | {holder: [whole], "status": "completed"}}
        ends = {"logprobs": []} if kind == "text" else {}
        parts = [
            {"type": f"{part_event}.added", **at, "part": part | {"text": ""}},
            *({"type": f"{text_event}.delta", **at, "delta": each, **more} for each in deltas),
            {"type": f"{text_event}.done", **at, "text": text, **ends},
            {"type": f"{part_event}.done", **at, "part": whole},
        ]
        if not part_event:
            parts = [part for part in parts if not part["type"].startswith(".")]
        return [
            {"type": "response.output_item.added", **first},
            *parts,
            {"type": "response.output_item.done", **last},
        ]

    def _call(self, place: int, name: str, *pieces: str) -> list[Json]:
        arguments = "".join(pieces)
        own = self.ids("function_call", place, False)
        item = {"type": "function_call", "id": own, "call_id": f"call_{place}", "name": name}
        at = {"output_index": place, "item_id": own}
        event = "response.function_call_arguments"
        added = item | {"arguments": "", "status": "in_progress"}
        done = item | {"arguments": arguments, "status": "completed"}
        return [
            {"type": "response.output_item.added", "output_index": place, "item": added},
            *({"type": f"{event}.delta", **at, "delta": piece} for piece in pieces),
            {"type": f"{event}.done", **at, "arguments": arguments, "name": name},
            {"type": "response.output_item.done", "output_index": place, "item": done},
        ]


def _official(kind: str, place: int, _listed: bool) -> str:
    return f"{ {'message': 'msg', 'reasoning': 'rs'}.get(kind, 'fc') }_68f1{place:04x}"


OPENAI = Host(
    "openai",
    _official,
    ("response.reasoning_summary_part", "response.reasoning_summary_text", "summary"),
    of_deltas={"logprobs": [], "obfuscation": "aGFsbG8x"},
    spaces=False,
)
VLLM = Host(
    "vllm",
    # The last snapshot is made of the whole text anew, with other ids.
    lambda kind, place, listed: f"{'msg_' if listed else ''}{kind}{place}{'f' * listed}",
    ("response.reasoning_part", "response.reasoning_text", "content"),
    of_deltas={"logprobs": []},
    of_response={"kv_transfer_params": None, "input_messages": None},
    sorted=True,
    spaces=False,
)
SGLANG = Host(
    "sglang",
    lambda kind, place, _: f"{kind[:3]}_{place}a7",
    ("", "response.reasoning_text", "content"),
    of_deltas={"logprobs": None},
    done=True,
)
BRIDGE = Host(
    "dragoman",
    lambda kind, place, _: _official(kind, place, False).replace("68f1", "68f1_"),
    ("response.content_part", "response.reasoning", "content"),
    of_deltas={"logprobs": []},
    spaces=False,
    done=True,
)
HOSTS = (OPENAI, VLLM, SGLANG, BRIDGE)
