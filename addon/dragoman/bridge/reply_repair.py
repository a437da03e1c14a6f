"""Repair of a reply of any API: the type of its request's tools says which."""

from __future__ import annotations

import re

from ..chat.repair import ChatRepair
from ..messages.repair import MessagesRepair
from ..messages.request_tools import MessagesTools
from ..notes import Evidence
from ..repair.declared_tools import DeclaredTools
from ..repair.policy import Policy
from ..repair.stage import RepairStage
from ..reply.pipeline import RepairPipeline
from ..responses.repair import ResponsesRepair
from ..wire.sse import is_event_stream
from .request_tools import RequestTools

_BEGIN = 4096
"""Bytes of a reply that show its API."""
_MESSAGE = re.compile(rb'"type"\s*+:\s*+"message"')
_RESPONSE = re.compile(rb'"type"\s*+:\s*+"response\.|"object"\s*+:\s*+"response"')
Tools = DeclaredTools | RequestTools | MessagesTools
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
        return RequestTools.of_request(request)
    if api == "messages":
        return MessagesTools.of_request(request, received)
    return DeclaredTools.of_request(request)


def declared(tools: Tools) -> DeclaredTools:
    """The tools as repair knows them."""
    return tools if isinstance(tools, DeclaredTools) else tools.declared


def stage_for(tools: Tools, policy: Policy, evidence: Evidence, now: int) -> RepairStage:
    """The stage that repairs a streamed reply."""
    if isinstance(tools, RequestTools):
        return ResponsesRepair(tools, policy, evidence, now)
    if isinstance(tools, MessagesTools):
        return MessagesRepair(tools, policy, evidence, now)
    return ChatRepair(tools, policy, evidence, now)


def repair_whole(body: bytes, tools: Tools, policy: Policy, evidence: Evidence, now: int) -> bytes:
    """A reply that was received whole, repaired: JSON, or from an upstream that streams
    whatever it is asked for, an event stream."""
    repair = stage_for(tools, policy, evidence, now)
    if is_event_stream(body):
        return RepairPipeline(repair, evidence).whole(body)
    return repair.document(body)
