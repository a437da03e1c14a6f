"""Which API a reply is of: by what it is read, by what repaired, and the facts of any.

The type of its request's tools says which stage repairs it.
"""

from __future__ import annotations

import re

from ..chat.reader import ChatReader
from ..chat.repair import ChatRepair
from ..messages import names as messages
from ..messages.reader import MessagesReader
from ..messages.repair import MessagesRepair
from ..messages.tools import MessagesTools
from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..repair.repair_options import RepairOptions
from ..repair.stage import RepairStage
from ..reply.facts import ReplyReader, TurnReader, read_body
from ..reply.repair_pipeline import RepairPipeline
from ..reply.words import Reader
from ..responses import names as responses
from ..responses.reader import ResponsesReader
from ..responses.repair import ResponsesRepair
from ..wire.json_codec import Json
from ..wire.sse import is_event_stream
from .responses_tools import ResponsesTools

_BEGIN = 4096
"""Bytes of a reply that show its API."""
_MESSAGE = re.compile(rb'"type"\s*+:\s*+"message"')
_RESPONSE = re.compile(rb'"type"\s*+:\s*+"response\.|"object"\s*+:\s*+"response"')
Tools = DeclaredTools | ResponsesTools | MessagesTools
"""Those of a chat request, of a Responses request, or of a Messages request."""


def api_of(request: object, reply: bytes) -> str:
    """The API of a recorded reply, as it itself shows, or for Responses the request."""
    begin = reply[:_BEGIN]
    asked = isinstance(request, dict) and "input" in request and "messages" not in request
    if asked or _RESPONSE.search(begin):
        return "responses"
    return "messages" if b"message_start" in begin or _MESSAGE.search(begin) else "chat"


def tools_of(request: object, api: str, received: object = None) -> Tools:
    """`api`: `responses`, `messages`, or any other. `received`: the client's request, if another
    was sent."""
    if api == "responses":
        return ResponsesTools.of_request(request)
    if api == "messages":
        return MessagesTools.of_request(request, received)
    return DeclaredTools.of_request(request)


def declared(tools: Tools) -> DeclaredTools:
    """The tools as repair knows them."""
    return tools if isinstance(tools, DeclaredTools) else tools.declared


def stage_for(tools: Tools, options: RepairOptions, evidence: Evidence, now: int) -> RepairStage:
    """The stage that repairs a streamed reply."""
    if isinstance(tools, ResponsesTools):
        return ResponsesRepair(tools, options, evidence, now)
    if isinstance(tools, MessagesTools):
        return MessagesRepair(tools, options, evidence, now)
    return ChatRepair(tools, options, evidence, now)


def repair_whole(
    body: bytes, tools: Tools, options: RepairOptions, evidence: Evidence, now: int
) -> bytes:
    """A reply that was received whole, repaired: JSON, or from an upstream that streams
    whatever it is asked for, an event stream."""
    repair = stage_for(tools, options, evidence, now)
    if is_event_stream(body):
        return RepairPipeline(repair, evidence).whole(body)
    return repair.document(body)


API_OF: dict[type[Reader], str] = {
    ChatReader: "chat",
    ResponsesReader: "Responses",
    MessagesReader: "Messages",
}


def reader_for(value: Json) -> Reader | None:
    """A reader for a reply that begins with an object; None if that does not show its API: some
    hosts send a ping or an error first."""
    if messages.is_event(value) or messages.is_message(value):
        return MessagesReader()
    if "choices" in value:
        return ChatReader()
    if value.get("type") in ("ping", "error"):
        return None
    is_response = responses.is_event(value) or responses.is_response(value)
    return ResponsesReader() if is_response else None


def turn_reader(*, keeps: bool = False) -> TurnReader:
    return TurnReader(reader_for, keeps=keeps)


def read_reply(body: bytes, *, keeps: bool = False) -> ReplyReader:
    """The facts of a body, perhaps unfinished, or without its middle."""
    return read_body(body, reader_for, keeps=keeps)
