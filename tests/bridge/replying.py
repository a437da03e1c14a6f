"""Chat streams written by hand, and a way to run one through a `ReplyConverter`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.bridge.responses_reply import responses_reply
from dragoman.chat.reader import ChatReader
from dragoman.chat.repair import ChatRepair
from dragoman.notes import Evidence
from dragoman.reply.stage import at_once
from dragoman.reply.turn_context import Tool, TurnContext
from dragoman.reply.unrepaired import Unrepaired
from dragoman.responses.dialects import OPENAI, Dialect
from dragoman.responses.envelope import open_sealed
from dragoman.responses.event_replay import replayed_events
from dragoman.responses.event_writer import Writer
from dragoman.wire.json_codec import dumps, loads
from dragoman.wire.sse import Frame, FrameSplitter

from .grammar import Story, check, check_prefix

CREATED_AT = 1_700_000_000
NOW = 1_700_000_042.5
DONE = b"data: [DONE]\n\n"

TOOLS: Mapping[str, Tool] = {
    "echo": Tool("function", "echo"),
    "weather": Tool("function", "weather"),
    "mcp__files__read": Tool("function", "read", "mcp__files"),
    "apply": Tool("custom", "apply"),
    "exec": Tool("custom", "exec"),
    "local_shell": Tool("local_shell", "local_shell"),
    "shell": Tool("shell", "shell"),
    "apply_patch": Tool("apply_patch", "apply_patch"),
    "tool_search": Tool("tool_search", "tool_search"),
}


def turn(request: Mapping[str, Any] | None = None, *, stream: bool = True) -> TurnContext:
    """A turn in which every kind of tool was declared."""
    body = {"model": "kimi-k2", "input": "Say hello."} | dict(request or {})
    return TurnContext(request=body, model="kimi-k2", stream=stream, tools=TOOLS)


def chunk(
    delta: Any = None, finish: Any = None, *, choice: Any = None, **fields: Any
) -> dict[str, Any]:
    """One ``chat.completion.chunk``."""
    only = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    only |= choice or {}
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "k"}
    return head | {"choices": [only]} | fields


def text(content: str) -> dict[str, Any]:
    return chunk({"content": content})


def call(
    index: Any = 0, arguments: Any = None, *, name: Any = None, call_id: Any = None
) -> dict[str, Any]:
    """One element of ``tool_calls``; what is None is absent."""
    function = {"name": name, "arguments": arguments}
    function = {key: value for key, value in function.items() if value is not None}
    element = {"index": index, "id": call_id, "function": function or None}
    return {key: value for key, value in element.items() if value is not None}


def calls(*elements: Any) -> dict[str, Any]:
    return chunk({"tool_calls": list(elements)})


USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def ended(finish: str = "stop", usage: Any = None) -> list[Any]:
    """How a well-behaved upstream ends."""
    last = chunk(usage=usage or USAGE)
    return [chunk(finish=finish), last | {"choices": []}]


def sse(values: Iterable[Any], *, done: bool = True) -> bytes:
    """The bytes of a chat stream."""
    frames = [b"data: " + json.dumps(value).encode() + b"\n\n" for value in values]
    return b"".join(frames) + (DONE if done else b"")


@dataclass
class Run:
    """What came out of one reply."""

    story: Story
    evidence: Evidence
    frames: list[Frame] = field(repr=False)

    @property
    def broken(self) -> bool:
        """Whether the stream breaks off: it has no terminal."""
        return self.response["status"] == "in_progress"

    @property
    def response(self) -> dict[str, Any]:
        return self.story.response

    @property
    def output(self) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = self.response["output"]
        return output

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.story.events]

    @property
    def noted(self) -> str:
        return "; ".join(self.evidence.lines())


def new_reply(
    evidence: Evidence, dialect: Dialect = OPENAI, turn_: TurnContext | None = None
) -> ReplyConverter:
    return responses_reply(
        turn_ or turn(),
        dialect,
        evidence,
        response_id="resp_1",
        created_at=CREATED_AT,
        clock=lambda: NOW,
    )


_READERS: WeakKeyDictionary[ReplyConverter, ChatReader] = WeakKeyDictionary()


def feed(reply: ReplyConverter, frame: Frame) -> list[Frame]:
    """One frame of the upstream's; returns its events."""
    reader = reply.reader = _READERS.setdefault(reply, ChatReader(reply.names))
    Unrepaired(reader, reply, None).feed(frame)
    return reply.drain()


def run(
    values: Iterable[Any],
    dialect: Dialect = OPENAI,
    *,
    turn_: TurnContext | None = None,
    done: bool = True,
) -> Run:
    """A chat stream, through the reply and the grammar checker."""
    return run_bytes([sse(values, done=done)], dialect, turn_=turn_)


def run_bytes(
    pieces: Iterable[bytes], dialect: Dialect = OPENAI, *, turn_: TurnContext | None = None
) -> Run:
    """The bytes of a chat stream as they are cut."""
    evidence = Evidence()
    reply = new_reply(evidence, dialect, turn_)
    frames = reply.open()
    splitter = FrameSplitter()
    for piece in pieces:
        for frame in splitter.feed(piece):
            frames += feed(reply, frame)
    for frame in splitter.close():
        frames += feed(reply, frame)
    frames += reply.close()
    return Run(checked(frames, reply, dialect), evidence, frames)


def checked(frames: list[Frame], reply: ReplyConverter, dialect: Dialect) -> Story:
    """Follow a stream to its end, or to where it breaks off."""
    if not reply.writer.ended:
        return check_prefix(frames, dialect)
    story = check(frames, dialect)
    assert story.response == reply.response
    assert_told_again(frames, reply)
    return story


def assert_told_again(frames: list[Frame], reply: ReplyConverter | Writer) -> None:
    """From what is kept the same events are told, each text in one delta, without heartbeats; the
    end has its number."""
    writer = reply.writer if isinstance(reply, ReplyConverter) else reply
    dialect, events = writer._dialect, writer.events.number
    again = replayed_events(loads(dumps(reply.response)), dialect.name, events=events)
    numbers = [loads(frame.data or b"")["sequence_number"] for frame in again if not frame.is_done]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] + 1 == events
    assert _told(again) == _told(frames)


def _told(frames: list[Frame]) -> list[Any]:
    """The events without their numbers, and without heartbeats and errors; the deltas of a text are
    one, before its annotations."""
    told: list[Any] = []
    for frame in frames:
        event = {} if frame.is_done else loads(frame.data or b"")
        event.pop("sequence_number", None)
        kind = event.get("type")
        before = [each for each in told if "annotation" not in each]
        if event.get("delta") == "" or kind in ("ping", "error", "response.failed"):
            continue
        if kind == "response.in_progress" and len(told) > 1:
            continue
        if "delta" in event and before[-1]["type"] == kind:
            before[-1]["delta"] += event["delta"]
            before[-1].get("logprobs", []).extend(event.get("logprobs", ()))
        else:
            told.append(event)
    return told


def feed_body(reply: ReplyConverter, body: bytes, repair: ChatRepair | None = None) -> list[Frame]:
    """Drive `reply` to its end with a whole body; ``reply.response`` is the result."""
    return at_once(BridgePipeline(reply, repair).convert(body))


def run_body(body: Any, dialect: Dialect = OPENAI, *, turn_: TurnContext | None = None) -> Run:
    """A reply that came as one body: a JSON value, or bytes."""
    evidence = Evidence()
    reply = new_reply(evidence, dialect, turn_)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    frames = feed_body(reply, data)
    return Run(checked(frames, reply, dialect), evidence, frames)


def texts(run_: Run) -> list[str]:
    """The text of every message."""
    return [
        "".join(part.get("text", part.get("refusal")) for part in item["content"])
        for item in run_.output
        if item["type"] == "message"
    ]


def thoughts(run_: Run) -> list[str]:
    """The text of every reasoning item, as its envelope carries it."""
    return [
        open_sealed(item["encrypted_content"]) or ""
        for item in run_.output
        if item["type"] == "reasoning"
    ]


def one_call(name: str, arguments: str, finish: str = "tool_calls") -> Run:
    return run([calls(call(0, arguments, name=name, call_id="c1")), *ended(finish)])
