"""The checker: whether a list of frames is a Responses stream that every client accepts.

It is written from the facts about the stream and the types of the `openai` package and
knows nothing of the code under test.  `check` follows the events one by one and fails
at the first that may not stand where it stands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from dragoman.responses.dialects import Dialect
from dragoman.wire.sse import Frame

Json = dict[str, Any]

_FIELD_NAMES = """
    id object created_at completed_at status incomplete_details model previous_response_id
    instructions output error tools tool_choice truncation parallel_tool_calls text top_p
    presence_penalty frequency_penalty top_logprobs temperature reasoning usage
    max_output_tokens max_tool_calls store background service_tier metadata
    safety_identifier prompt_cache_key
"""
FIELDS = set(_FIELD_NAMES.split())
NUMBERS = ("top_p", "presence_penalty", "frequency_penalty", "temperature", "top_logprobs")
CODES = {
    *("rate_limit_exceeded", "context_length_exceeded", "insufficient_quota"),
    *("invalid_prompt", "server_error", "flex_unavailable", "credit_balance_exhausted"),
    *("organization_spend_limit_exceeded", "project_spend_limit_exceeded"),
}
OFFICIAL_CODES = {"rate_limit_exceeded", "invalid_prompt", "server_error"}
ONLY_BEFORE = {"error": "response.failed", "response.required_action": "response.completed"}
TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
CALLS = {
    *("function_call", "tool_call", "custom_tool_call", "local_shell_call", "shell_call"),
    *("apply_patch_call", "tool_search_call"),
}
TEXTS = {
    # delta events: the item they stand in, the field of the whole text, the index field
    "response.output_text": ("message", "text", "content_index"),
    "response.refusal": ("message", "refusal", "content_index"),
    "response.reasoning_summary_text": ("reasoning", "text", "summary_index"),
    "response.reasoning": ("reasoning", "text", "content_index"),
    "response.function_call_arguments": ("function_call", "arguments", None),
    "response.custom_tool_call_input": ("custom_tool_call", "input", None),
}

try:
    from openai.types.responses import ResponseStreamEvent
except ImportError:  # it cannot be installed beside mitmproxy 11, which Python 3.11 needs
    _MODELS: dict[str, Any] = {}
else:
    _MODELS = {
        get_args(model.model_fields["type"].annotation)[0]: model
        for model in get_args(get_args(ResponseStreamEvent)[0])
    }


@dataclass
class Story:
    """What a client learns from a stream."""

    events: list[Json] = field(default_factory=list)
    items: list[Json] = field(default_factory=list)
    response: Json = field(default_factory=dict)
    deltas: dict[int, str] = field(default_factory=dict)
    """Every delta of an item, joined."""


def check(frames: list[Frame], dialect: Dialect, prior: Sequence[Json] = ()) -> Story:
    """Follow a whole stream; raises AssertionError where it is not what it must be.

    `prior` are the items of a response that goes on."""
    frames = list(frames)
    if dialect.done_marker:
        assert frames.pop().raw == b"data: [DONE]\n\n", "the stream ends with [DONE]"
    checker = _Checker(dialect, prior)
    for number, frame in enumerate(frames):
        checker.event(_parse(frame, number))
    assert checker.ended, "the stream has a terminal event"
    return checker.story


def check_prefix(frames: list[Frame], dialect: Dialect) -> Story:
    """Follow the beginning of a stream."""
    checker = _Checker(dialect)
    for number, frame in enumerate(frames):
        checker.event(_parse(frame, number))
    return checker.story


def _parse(frame: Frame, number: int) -> Json:
    """One frame is one event: an ``event`` line, one ``data`` line, a blank line, all LF."""
    head, data, *rest = frame.raw.split(b"\n")
    assert rest == [b"", b""] and b"\r" not in frame.raw, frame.raw
    assert head.startswith(b"event: ") and data.startswith(b"data: "), frame.raw
    event: Json = json.loads(data.removeprefix(b"data: "))
    assert event["type"] == head.removeprefix(b"event: ").decode()
    assert event["sequence_number"] == number, "numbered from 0 by 1"
    return event


class _Checker:
    def __init__(self, dialect: Dialect, prior: Sequence[Json] = ()) -> None:
        self.dialect = dialect
        self.prior = len(prior)
        self.story = Story(items=list(prior))
        self.ended = False
        self.item: Json | None = None
        self.part: Json | None = None
        self.texts: list[str] = []
        self.logprobs: list[Json] = []
        self.annotations: list[Json] = []
        self.text_done: str | None = None
        self.parts: list[Json] = []
        self.left = False
        self.whole: Json = {}
        """The first snapshot."""

    def event(self, event: Json) -> None:
        assert not self.ended, "nothing follows the terminal"
        kind = event["type"]
        count = len(self.story.events)
        assert (kind == "response.created") == (count == 0)
        if count == 1:
            assert kind == "response.in_progress"
        before = self.story.events[-1]["type"] if count else ""
        assert before not in ONLY_BEFORE or kind == ONLY_BEFORE[before]
        if "response" in event:
            self._snapshot(event["response"], kind)
        self._validate(event)
        self.story.events.append(event)
        name, _, last = kind.rpartition(".")
        if name in TEXTS:
            self._text(event, name, done=last == "done")
        else:
            getattr(self, "_on_" + kind.replace("response.", "").replace(".", "_"))(event)

    # Snapshots.

    def _snapshot(self, response: Json, kind: str) -> None:
        extra = {"required_action"} if self.dialect.required_action else set()
        assert response.keys() - extra == FIELDS, response.keys() ^ FIELDS
        assert all(isinstance(response[name], int | float) for name in NUMBERS)
        assert response["object"] == "response"
        assert response["reasoning"].keys() >= {"effort", "summary"}
        for tool in response["tools"]:
            if tool["type"] == "function":
                assert tool.keys() >= {"name", "description", "parameters", "strict"}
        if self.story.response:
            same = ("id", "created_at", "model", "tools", "metadata", "instructions")
            others = {name for name in same if response[name] != self.whole[name]}
            if kind == "response.in_progress" and others & {"tools", "instructions"}:
                # A heartbeat, if they are large.
                assert (response["tools"], response["instructions"]) == ([], None)
                others -= {"tools", "instructions"}
            assert not others
        else:
            self.whole = response
        self._leave(kind)
        assert response["output"] == self.story.items, "the output is the items that ended"
        assert (response["usage"] is None) == (not _ends(kind))
        assert (response["completed_at"] is not None) == (response["status"] == "completed")
        assert (response["incomplete_details"] is not None) == (kind == "response.incomplete")
        assert (response["error"] is not None) == (kind == "response.failed")
        self.story.response = response

    def _leave(self, kind: str) -> None:
        """What is open is left as it stands where it is cut: anything by a failure, a call
        by whatever ends or interrupts the turn.  It has no event that says it is done."""
        if self.item is None or kind == "response.completed":
            return
        item, is_call = dict(self.item), self.item["type"] in CALLS
        if not is_call and kind != "response.failed":
            return
        text = "".join(self.texts)
        assert self.text_done is None, "a text that is done belongs to an item that is"
        if is_call:
            field = "input" if item["type"] == "custom_tool_call" else "arguments"
            if "function" in item:
                item["function"] = item["function"] | {field: text}
            else:
                item[field] = text
        else:
            assert self.part is not None
            field = "refusal" if self.part["type"] == "refusal" else "text"
            part = self.part | {field: text}
            if self.part["type"] == "output_text":
                part |= {"annotations": self.annotations, "logprobs": self.logprobs}
            holder = "summary" if self.part["type"] == "summary_text" else "content"
            item[holder] = [*self.parts, part]
        self.story.items.append(item | {"status": "incomplete"})
        self.item, self.part, self.left = None, None, True

    def _validate(self, event: Json) -> None:
        """By the types of the openai package, except for what a dialect adds to them."""
        kind = event["type"]
        if kind == "ping":
            assert self.dialect.ping and event.keys() == {"type", "sequence_number"}
        elif kind == "response.required_action":
            assert self.dialect.required_action
        elif kind in ("response.reasoning.delta", "response.reasoning.done"):
            assert not self.dialect.reasoning_summary
        elif _MODELS:
            _MODELS[kind].model_validate(_official(event, self.dialect), strict=True)

    # The life of the response.

    def _on_created(self, event: Json) -> None:
        assert event["response"]["status"] == "in_progress"

    def _on_in_progress(self, event: Json) -> None:
        assert event["response"]["status"] == "in_progress"
        assert self.item is None, "a snapshot would hide the open item"
        assert len(self.story.events) == 2 or not self.dialect.ping, "once, or as a heartbeat"

    def _on_ping(self, _: Json) -> None:
        assert self.story.events[0]["type"] == "response.created"

    def _on_required_action(self, event: Json) -> None:
        assert event["response"]["status"] == "incomplete"
        action = event["required_action"]
        assert event["response"]["required_action"] == action
        waited = [call["id"] for call in action["submit_tool_outputs"]["tool_calls"]]
        new = self.story.items[self.prior :]
        assert waited == [item["call_id"] for item in new if item["type"] in CALLS]

    def _on_completed(self, event: Json) -> None:
        called = any(item["type"] in CALLS for item in self.story.items[self.prior :])
        waiting = self.dialect.required_action and called
        assert event["response"]["status"] == ("incomplete" if waiting else "completed")
        before = self.story.events[-2]["type"]
        assert (before == "response.required_action") == waiting
        assert not self.left, "nothing is cut in a turn that is whole"
        self._on_terminal(event)

    def _on_incomplete(self, event: Json) -> None:
        assert event["response"]["status"] == "incomplete"
        reason = event["response"]["incomplete_details"]["reason"]
        assert reason in ("max_output_tokens", "content_filter")
        self._on_terminal(event)

    def _on_error(self, event: Json) -> None:
        nested = event["error"]
        assert all(nested[name] == event[name] for name in ("code", "message", "param"))
        assert nested["type"] and nested["code"] in CODES and nested["message"]

    def _on_failed(self, event: Json) -> None:
        assert event["response"]["status"] == "failed"
        before = self.story.events[-2]
        assert before["type"] == "error"
        told = {name: before[name] for name in ("code", "message")}
        if self.dialect.every_error_code:
            assert event["response"]["error"] == told
        else:
            assert event["response"]["error"]["code"] in OFFICIAL_CODES
            assert event["response"]["error"]["message"] == told["message"]
        self._on_terminal(event)

    def _on_terminal(self, event: Json) -> None:
        assert self.item is None, "every item has ended"
        usage = event["response"]["usage"]
        for name in ("input_tokens", "output_tokens", "total_tokens"):
            assert type(usage[name]) is int and usage[name] >= 0
        assert type(usage["input_tokens_details"]["cached_tokens"]) is int
        assert type(usage["output_tokens_details"]["reasoning_tokens"]) is int
        self.ended = True

    # Items.

    def _on_output_item_added(self, event: Json) -> None:
        self._leave(event["type"])
        assert self.item is None, "items do not overlap"
        assert event["output_index"] == len(self.story.items), "contiguous output_index"
        item = event["item"]
        assert item["id"] and item["id"] not in {done["id"] for done in self.story.items}
        assert item["status"] == "in_progress"
        if item["type"] in CALLS:
            assert isinstance(item["call_id"], str) and item["call_id"]
            assert item["call_id"] not in {done.get("call_id") for done in self.story.items}
        if item["type"] == "reasoning":
            assert item["summary"] == []
        if item["type"] == "message":
            assert (item["role"], item["content"]) == ("assistant", [])
        self.item, self.parts, self.texts = item, [], []
        self.text_done, self.logprobs, self.annotations = None, [], []
        self.story.deltas[event["output_index"]] = ""

    def _on_output_item_done(self, event: Json) -> None:
        assert self.item is not None and self.part is None
        assert event["output_index"] == len(self.story.items)
        item, added = event["item"], self.item
        for name in ("id", "type", "call_id", "name", "namespace", "role"):
            assert item.get(name) == added.get(name), "an item keeps its identity"
        assert item["status"] in ("completed", "incomplete")
        if item["type"] in ("message", "reasoning"):
            held = item["content"] if item["type"] == "message" else _thoughts(item)
            assert held == self.parts and held
        elif item["type"] in ("function_call", "tool_call", "custom_tool_call"):
            function = item.get("function", item)
            text = function["input" if item["type"] == "custom_tool_call" else "arguments"]
            assert text == self.text_done
            assert text.strip() or item["type"] == "custom_tool_call"
        if item["type"] == "reasoning":
            assert isinstance(item["encrypted_content"], str)
        assert (item["type"] == "tool_call") <= self.dialect.tool_call_items
        assert (item["type"] == "function_call") <= (not self.dialect.tool_call_items)
        self.story.items.append(item)
        self.item = None

    # Parts and texts.

    def _on_content_part_added(self, event: Json) -> None:
        self._part_added(event, "content_index")

    def _on_reasoning_summary_part_added(self, event: Json) -> None:
        assert self.dialect.reasoning_summary
        self._part_added(event, "summary_index")

    def _part_added(self, event: Json, index: str) -> None:
        self._stands(event)
        assert self.item is not None and self.item["type"] in ("message", "reasoning")
        assert self.part is None, "parts do not overlap"
        assert event[index] == len(self.parts), "contiguous part index"
        self.part, self.texts, self.text_done = event["part"], [], None
        self.logprobs, self.annotations = [], []
        assert _text_of(self.part) == ""
        if self.part["type"] == "output_text":
            assert (self.part["annotations"], self.part["logprobs"]) == ([], [])

    def _on_content_part_done(self, event: Json) -> None:
        self._part_done(event, "content_index")

    def _on_reasoning_summary_part_done(self, event: Json) -> None:
        self._part_done(event, "summary_index")

    def _part_done(self, event: Json, index: str) -> None:
        self._stands(event)
        assert self.part is not None and self.text_done is not None
        assert event[index] == len(self.parts)
        assert event["part"]["type"] == self.part["type"]
        assert _text_of(event["part"]) == self.text_done
        if self.part["type"] == "output_text":
            assert event["part"]["annotations"] == self.annotations
            assert event["part"]["logprobs"] == self.logprobs
        self.parts.append(event["part"])
        self.part = None

    def _on_output_text_annotation_added(self, event: Json) -> None:
        self._stands(event)
        assert self.part is not None and self.part["type"] == "output_text"
        assert event["annotation_index"] == len(self.annotations)
        self.annotations.append(event["annotation"])

    def _text(self, event: Json, name: str, *, done: bool) -> None:
        self._stands(event)
        holder, whole, index = TEXTS[name]
        assert self.item is not None
        kind = "function_call" if self.item["type"] == "tool_call" else self.item["type"]
        assert kind == holder
        assert self.text_done is None, "a text ends once"
        if index is not None:
            assert self.part is not None and event[index] == len(self.parts)
        if done:
            assert event[whole] == "".join(self.texts), "the done text is the deltas"
            self.text_done = event[whole]
            if name == "response.output_text":
                assert event["logprobs"] == self.logprobs
        else:
            self.texts.append(event["delta"])
            self.logprobs += event.get("logprobs", [])
            self.story.deltas[event["output_index"]] += event["delta"]

    def _stands(self, event: Json) -> None:
        assert self.item is not None, "events of an item come while it is open"
        assert event["item_id"] == self.item["id"]
        assert event["output_index"] == len(self.story.items)


def _ends(kind: str) -> bool:
    return kind in TERMINALS or kind == "response.required_action"


def _thoughts(item: Json) -> list[Json]:
    thoughts: list[Json] = item["summary"] or item["content"]
    return thoughts


def _text_of(part: Json) -> Any:
    return part["refusal"] if part["type"] == "refusal" else part["text"]


def _official(value: Any, dialect: Dialect) -> Any:
    """The value without what a dialect, or Codex's error codes, add to the official types."""
    if isinstance(value, list):
        return [_official(element, dialect) for element in value]
    if not isinstance(value, dict):
        return value
    value = {name: _official(field, dialect) for name, field in value.items()}
    if value.get("type") == "tool_call" and dialect.tool_call_items:
        return value | value["function"] | {"type": "function_call"}
    if value.keys() == {"code", "message"} and dialect.every_error_code:
        return value | {"code": "server_error"}
    return value
