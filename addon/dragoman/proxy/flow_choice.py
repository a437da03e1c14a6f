"""Which flows are Dragoman's, and what is done with each: cured, repaired, bridged, refused, or
answered from the store.

Whether a flow is bridged is asked four times:

* `converts`: it is, as far as is known when its request begins (`_bridges`: for any address);
* `_may_convert`: it may be, once its host or the store has been asked;
* `why_bridged`: its request is whole, and they are asked;
* `converts_reply`: its reply comes, or fails, and it has been bridged, or is repaired.
"""

from __future__ import annotations

import logging
import re

from mitmproxy import http

from . import error_responses, options
from .chat_only_hosts import Hosts, is_chosen
from .flows.bridge_flow import BridgeFlow
from .flows.cure_flow import CureFlow
from .flows.repair_flow import RepairFlow
from .observe.monitor import FlowMonitor, name_of
from .routes import (
    ResponsesRoute,
    beside,
    gives_response,
    is_chat,
    is_upgrade,
    responses_route,
    unserved,
)

logger = logging.getLogger(__name__)

_OUR_ID = re.compile("resp_[0-9a-f]{32}")
_MISSING = (404, 405)


class FlowChoice:
    """An `Interpreter` of `http_stream`."""

    def __init__(
        self,
        monitor: FlowMonitor,
        repair: RepairFlow,
        bridge: BridgeFlow,
        cure: CureFlow,
        hosts: Hosts,
    ) -> None:
        self.settings = options.Settings()
        self._monitor = monitor
        self._repair = repair
        self._bridge = bridge
        self._cure = cure
        self._hosts = hosts

    # Repair

    def repairs(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to this request, unless bridged, is to be repaired."""
        test = self.settings.repair
        if test is None:
            return is_chat(flow.request) or gives_response(flow.request)
        # The names of tools are put back whatever a filter says of the reply.
        return self._cure.tool_names(flow) is not None or test(flow)

    def is_repairable(self, flow: http.HTTPFlow) -> bool:
        return bool(flow.response and flow.response.status_code == 200 and self.repairs(flow))

    def converts_reply(self, flow: http.HTTPFlow) -> bool:
        """Whether the reply to this flow, once it comes, is to be converted or repaired."""
        gives = is_chat(flow.request) or gives_response(flow.request)
        return flow in self._bridge or (gives and self.repairs(flow))

    # Bridge

    def converts(self, flow: http.HTTPFlow) -> bool:
        """Whether this request is to be bridged, as far as is known."""
        address = responses_route(flow.request)
        return (
            address is not None
            and address.generates
            and self._bridges(flow, address)
            and self.is_served(address)
        )

    def refuses(self, flow: http.HTTPFlow) -> bool:
        """Whether this request is for a part of the Responses API that a bridged host has not."""
        address = beside(flow.request)
        return address is not None and self._bridges(flow, address)

    def is_served(self, address: ResponsesRoute) -> bool:
        """Whether a bridged host's address is served here."""
        return not address.response_id or self._bridge.store.opened

    def refuses_upgrade(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether a host has no WebSocket of the Responses API and says so with a status that
        clients do not understand at once."""
        missing = response.status_code in _MISSING and self.settings.bridge is None
        return missing and is_upgrade(flow.request)

    async def why_bridged(self, flow: http.HTTPFlow, address: ResponsesRoute | None) -> str:
        """Why this request is bridged, in words; empty if it is not."""
        request = flow.request
        if self.settings.bridge is not None:
            chosen = self._bridges(flow, address or beside(request))
            return "dragoman_bridge says so" if chosen else ""
        if address is not None or is_upgrade(request):
            try:
                await self._hosts.find_out(flow, address)
            except Exception:
                logger.exception("%s: nothing could be found out of its host", name_of(flow))
        why = self._hosts.why_bridged(request, address or beside(request))
        if why or address is None or not self._may_be_kept(address):
            return why
        kept = await self._bridge.endpoints.has(request, address.response_id)
        return "its response is kept here" if kept else ""

    def _bridges(self, flow: http.HTTPFlow, address: ResponsesRoute | None) -> bool:
        """Whether the upstream of this request is to be bridged, as far as is known."""
        test = self.settings.bridge
        if test is None:
            return bool(self._hosts.why_bridged(flow.request, address))
        return test(flow) and (
            # Many sites have an address of this name, for something else.
            unserved(flow.request) != "conversations"
            or bool(self._hosts.why_bridged(flow.request, address))
            or is_chosen(flow, test)
        )

    def _may_be_kept(self, address: ResponsesRoute) -> bool:
        """Whether this id may be one of ours."""
        return self._bridge.store.opened and _OUR_ID.fullmatch(address.response_id) is not None

    # Bodies that are read whole

    def reads_request_whole(self, flow: http.HTTPFlow) -> bool:
        """Whether a request must be read whole before it is sent."""
        ours = self.converts(flow) or self.refuses(flow) or self._may_convert(flow)
        return ours or self.repairs(flow) or self._cure.wants(flow, self.settings)

    def reads_reply_whole(self, flow: http.HTTPFlow) -> bool:
        """Whether a reply, whose headers have come, must be read whole."""
        response = flow.response
        if response is None:
            return False
        missing = response.status_code in _MISSING and self._hosts.is_decisive(flow)
        missing = missing or self.refuses_upgrade(flow, response)
        collected = self.is_repairable(flow) and self._repair.may_collect(flow, response)
        return flow in self._bridge or missing or collected

    def _may_convert(self, flow: http.HTTPFlow) -> bool:
        """Whether this request may turn out to be one to bridge."""
        address = responses_route(flow.request)
        if address is None or self.settings.bridge is not None or not address.generates:
            return False
        return self._may_be_kept(address) or self._hosts.may_be_found_out(flow.request, address)

    def give_up_whole(self, flow: http.HTTPFlow) -> None:
        if flow in self._bridge:
            self._bridge.forget(flow)
            logger.error("%s: the upstream's answer is too large", name_of(flow))
            self._monitor.of(flow, "bridge").evidence.note("failed", "the answer is too large")
            flow.response = error_responses.too_large()
        elif flow.response is not None:
            self._repair.pass_unread(flow, flow.response)

    def answer_for(self, flow: http.HTTPFlow, error: str) -> http.Response:
        self._bridge.forget(flow)
        return error_responses.unreachable(error)
