"""A recorded reply of any of the three APIs, repaired, as a stream of another one:
`repaired bytes -> reader of its API -> one turn -> in order -> writer of the other`."""

from __future__ import annotations

from typing import Any

from ..messages.errors import MessagesErrors
from ..notes import Evidence
from ..repair.repair_options import RepairOptions
from ..reply.stage import at_once
from ..reply.turn_context import Tool, TurnContext
from ..responses.dialects import OPENAI
from ..responses.response_object import snapshot
from ..wire.sse import joined
from .chat_reply import ChatReply
from .messages_reply import MessagesReply
from .reader_writer_pairs import READERS, Api, api_of, read_reply, repair_whole, tools_of
from .reply.bridge_pipeline import BridgePipeline
from .reply.converter import ReplyConverter
from .reply.reply_writer import ReplyWriter
from .responses_reply import ResponsesReply


def convert_recorded(
    body: bytes, request: Any, to: Api | None, evidence: Evidence, now: int
) -> bytes:
    """The reply to a `request` (``{}``: not known) for a client of the API `to`; of one of the same
    API, or None, the repaired reply.  `now` (seconds) is the time of the reply."""
    api = api_of(request, body)
    repaired = repair_whole(body, tools_of(request, api), RepairOptions(), evidence, now)
    if to in (None, api):
        return repaired
    read = read_reply(repaired)
    tools = {name: Tool("function", name) for name, _ in read.calls}
    turn = TurnContext({}, read.facts.model, True, tools)
    writer = writer_for(to, turn, evidence, now)
    reader = READERS[api]()
    reply = ReplyConverter(writer, tools.keys(), evidence, mixes=reader.one_channel)
    return joined(at_once(BridgePipeline(reply, None, reader=reader).convert(repaired)))


def writer_for(to: Api | None, turn: TurnContext, evidence: Evidence, now: int) -> ReplyWriter:
    if to == "chat":
        return ChatReply(turn, f"chatcmpl-{now}", now)
    if to == "messages":
        return MessagesReply(turn, evidence, f"msg_{now}", MessagesErrors(""))
    response = snapshot(turn, f"resp_{now}", now)
    return ResponsesReply(response, turn, OPENAI, evidence, clock=lambda: now, prior=())
