"""Repair of a reply of either API: the type of its request's tools says which."""

from __future__ import annotations

from ...notes import Evidence
from ...repair.chat_stream import ChatStreamRepair
from ...repair.declared_tools import DeclaredTools
from ...repair.pipeline import RepairPipeline, StreamRepair
from ...repair.policy import Policy
from ...wire.sse import is_event_stream
from .request_tools import RequestTools
from .stream_repair import ResponsesStreamRepair

Tools = DeclaredTools | RequestTools
"""Those of a chat request, or of a Responses request."""


def tools_of(request: object, *, native: bool | None = None) -> Tools:
    """`native`: whether the request is one of the Responses API; None: as its body shows."""
    if native is None:
        native = isinstance(request, dict) and "input" in request and "messages" not in request
    return RequestTools.of_request(request) if native else DeclaredTools.of_request(request)


def declared(tools: Tools) -> DeclaredTools:
    """The tools as repair knows them."""
    return tools.declared if isinstance(tools, RequestTools) else tools


def stage_for(tools: Tools, policy: Policy, evidence: Evidence, now: int) -> StreamRepair:
    """The stage that repairs a streamed reply."""
    if isinstance(tools, RequestTools):
        return ResponsesStreamRepair(tools, policy, evidence, now)
    return ChatStreamRepair(tools, policy, evidence, now)


def repair_whole(body: bytes, tools: Tools, policy: Policy, evidence: Evidence, now: int) -> bytes:
    """A reply that was received whole, repaired: JSON, or from an upstream that streams
    whatever it is asked for, an event stream."""
    repair = stage_for(tools, policy, evidence, now)
    if is_event_stream(body):
        return RepairPipeline(repair, evidence).whole(body)
    return repair.document(body)
