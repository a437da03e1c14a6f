"""Repair of a reply of either API: the tools of its request say of which."""

from __future__ import annotations

from ...notes import Evidence
from ...repair import chat_message
from ...repair.chat_stream import ChatStreamRepair
from ...repair.declared_tools import DeclaredTools
from ...repair.pending import Policy
from ...repair.pipeline import StreamRepair
from ...wire.slices import Slices
from . import whole_repair
from .request_tools import RequestTools
from .stream_repair import ResponsesStreamRepair

Tools = DeclaredTools | RequestTools
"""Those of a chat request, or of a Responses request."""


def is_responses_request(request: object) -> bool:
    """Whether the body of a request is one of the Responses API, as far as it shows."""
    return isinstance(request, dict) and "input" in request and "messages" not in request


def reading_tools(request: object, *, native: bool) -> Slices[Tools]:
    """`native`: whether the request is one of the Responses API."""
    if native:
        return (yield from RequestTools.reading(request))
    return (yield from DeclaredTools.reading(request))


def declared(tools: Tools) -> DeclaredTools:
    """As repair asks for them."""
    return tools.declared if isinstance(tools, RequestTools) else tools


def stage_for(tools: Tools, policy: Policy, evidence: Evidence, now: int) -> StreamRepair:
    """The stage that repairs a streamed reply."""
    if isinstance(tools, RequestTools):
        return ResponsesStreamRepair(tools, policy, evidence, now)
    return ChatStreamRepair(tools, policy, evidence, now)


def repairing_whole(
    body: bytes, tools: Tools, policy: Policy, evidence: Evidence, now: int
) -> Slices[bytes]:
    """A reply that was received whole, repaired: a document or an event stream."""
    if isinstance(tools, RequestTools):
        return whole_repair.repairing_whole(body, tools, policy, evidence, now)
    return chat_message.repairing_whole(body, tools, policy, evidence, now)
