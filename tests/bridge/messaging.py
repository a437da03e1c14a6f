"""Chat streams, run through the reply of a bridged Messages request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.bridge.messages_reply import messages_reply
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.chat.repair import ChatRepair
from dragoman.messages.errors import MessagesErrors
from dragoman.notes import Evidence
from dragoman.repair.declared_tools import DeclaredTools
from dragoman.repair.repair_options import RepairOptions
from dragoman.reply.stage import at_once
from dragoman.reply.turn_context import Tool, TurnContext
from dragoman.wire.sse import Frame, joined

from .messages_streams import Read, read
from .replying import sse

NAMES = ("echo", "weather", "mcp__files__read", "apply", "tool_search", "shell")
ESTIMATE = 55


@dataclass
class Run:
    """What came out of one reply."""

    body: bytes
    reply: ReplyConverter
    evidence: Evidence
    broken: bool
    """Whether the client's stream breaks off."""
    read: Read = field(init=False)

    def __post_init__(self) -> None:
        self.read = read(self.body, broken=self.broken or bool(self.reply.turn_end.error))

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.body.split(b"\n")
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]

    @property
    def noted(self) -> str:
        return "; ".join(self.evidence.lines())


def turn(tools: Iterable[str] = NAMES, **fields: Any) -> TurnContext:
    named = {name: Tool("function", name) for name in tools}
    asked = {"request": {}, "model": "claude-sonnet-5", "stream": True, "thinks": True}
    return TurnContext(tools=named, estimate=ESTIMATE, **{**asked, **fields})


def new_message(evidence: Evidence, turn_: TurnContext | None = None) -> ReplyConverter:
    errors = MessagesErrors("req_1")
    return messages_reply(turn_ or turn(), evidence, message_id="msg_abc", errors=errors)


def repair_for(request: Any, evidence: Evidence) -> ChatRepair:
    return ChatRepair(DeclaredTools.of_request(request), RepairOptions().bridged, evidence, 7)


def run(values: Iterable[Any], *, done: bool = True, turn_: TurnContext | None = None) -> Run:
    """A chat stream, read by a strict client."""
    return run_bytes([sse(values, done=done)], turn_=turn_)


def run_bytes(
    pieces: Sequence[bytes], *, turn_: TurnContext | None = None, asked: Any = None
) -> Run:
    """The bytes of a chat stream as they are cut; `asked`: the chat request, for repair."""
    evidence = Evidence()
    reply = new_message(evidence, turn_)
    repair = repair_for(asked, evidence) if asked is not None else None
    pipeline = BridgePipeline(reply, repair)
    frames: list[Frame] = pipeline.reply.open()
    for piece in pieces:
        frames += pipeline.feed(piece)
        while pipeline.waits:
            frames += pipeline.feed(b"")
    if not reply.writer.ended:
        frames += pipeline.close()
    return Run(joined(frames), reply, evidence, bool(pipeline.broken))


def run_body(body: Any, *, turn_: TurnContext | None = None) -> ReplyConverter:
    """A reply that came whole; ``reply.response`` is the message."""
    reply = new_message(Evidence(), turn_)
    reply.writer.events.wanted = False
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    at_once(BridgePipeline(reply, None).convert(data))
    return reply
