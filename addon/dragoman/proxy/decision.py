"""What is done with a flow: one `Decision`, which the hooks in `addon` read.

It is made when the head of a request has come, again when its body has (only then the store is
asked), and once more where the host answers 404 to a request that left before it was known what it
speaks.  Whether a reply is repaired is not part of it: the user's filter may ask for
something in the reply's headers.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from mitmproxy import http
from mitmproxy.proxy.mode_specs import ReverseMode

from ..wire.context_overflow import MISSING
from .body_clues import names_something
from .chat_only_hosts import Hosts, Speaks, found_out
from .flow_state import state_of
from .http_headers import EVENT_STREAM, media_type
from .observe.flow_name import name_of
from .options import Settings
from .routes import Route, is_of_anthropic, is_replayed, route_of
from .stored.async_store import AsyncStore
from .stored.endpoints import StoredEndpoints

logger = logging.getLogger(__name__)

OWN_HEADERS = "x-dragoman-"
"""The beginning of our own headers' names, which are never sent upstream."""
DIALECT_HEADER = "x-dragoman-dialect"
_OUR_ID = re.compile("resp_[0-9a-f]{32}")
_NOBODY = "somewhere-else.invalid"
"""No host has this name (RFC 2606)."""


Way = Literal["send", "bridge", "answer", "count", "list", "refuse"]


@dataclass(frozen=True, slots=True)
class Decision:
    route: Route
    way: Way = "send"
    """Sent on; sent as a chat request; answered from the store or by what runs; answered with an
    estimate of its tokens; sent to a host whose list of models is another; or refused, as no
    bridged host has such a thing."""
    why: str = ""
    """Why it is bridged, in words; empty for what is sent on."""
    unsure: bool = False
    """Whether its body decides if the store is asked, or the reply shows, whether it is bridged."""
    cured: bool = False
    """Whether it is to leave in the form that its host takes."""
    dialect: str = ""
    """The one that its own header asks for."""
    address: str = ""
    """The host's address, if the reply shows what the host speaks (see `Hosts.find_out`)."""


class Decisions:
    def __init__(self, hosts: Hosts, store: AsyncStore, endpoints: StoredEndpoints) -> None:
        self.settings = Settings()
        self._hosts = hosts
        self._store = store
        self._endpoints = endpoints

    def of(self, flow: http.HTTPFlow) -> Decision:
        """The last one; of a flow whose request did not come through here, what its head says."""
        return state_of(flow).decision or self.from_head(flow)

    def at_head(self, flow: http.HTTPFlow) -> Decision:
        """The head of the request has come."""
        decision = state_of(flow).decision = self.from_head(flow)
        return decision

    def from_head(self, flow: http.HTTPFlow) -> Decision:
        """What is decided as far as it is known now; the request may still be changed by others."""
        request, settings = flow.request, self.settings
        route, why, unsure = route_of(request), "", False
        if self._is_bridgeable(route) and settings.bridge is None:
            why = self._hosts.why_bridged(request, route)
            asked = self._may_be_kept(route) or self._hosts.may_be_found_out(request, route)
            unsure = not why and route.generates and asked
        elif self._is_bridgeable(route) and settings.bridge and settings.bridge(flow):
            # Many sites have an address of the name `conversations`, for something else.
            others = route.action == "conversations" and not self._hosts.why_bridged(request, route)
            if not others or _is_chosen(flow, settings.bridge):
                why = "dragoman_bridge says so"
        # What is sent again leaves as it was edited.
        cured = (route.api == "chat" or route.creates) and not is_replayed(flow)
        if cured:
            auto = not is_of_anthropic(request, route)
            cured = auto if settings.cure is None else settings.cure(flow)
        dialect = request.headers.get(DIALECT_HEADER, "")
        return _bridged(Decision(route, unsure=unsure, cured=cured, dialect=dialect), why)

    async def at_body(self, flow: http.HTTPFlow) -> Decision:
        """The body has come: what is still to be known, the store is asked."""
        request, dialect = flow.request, self.of(flow).dialect
        decision = replace(self.from_head(flow), dialect=dialect)
        route = decision.route
        if route.response_id and self._endpoints.runs(request, route):
            decision = replace(decision, way="answer")
        elif self._is_bridgeable(route) and self.settings.bridge is None:
            address = ""
            if route.api != "unserved":
                try:
                    address = await self._hosts.find_out(flow, route)
                except Exception:
                    logger.exception("%s: nothing could be found out of its host", name_of(flow))
            why = self._hosts.why_bridged(request, route)
            kept = not why and self._may_be_kept(route)
            if kept and await self._endpoints.has(request, route.response_id):
                why = "its response is kept here"
            decision = _bridged(replace(decision, address=address), why)
        state_of(flow).decision = decision
        return decision

    # The reply

    def answered(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The headers of a reply have come."""
        if media_type(response) == EVENT_STREAM:
            self.gave_turn(flow, response, self.of(flow))

    def gave_turn(self, flow: http.HTTPFlow, response: http.Response, decision: Decision) -> None:
        """What has come is a turn, and neither an error nor JSON for everything that is asked: if
        the request was sent on, its address speaks its API."""
        if decision.way == "send" and 200 <= response.status_code < 300:
            self._learn(flow, decision, Speaks.NATIVE)

    def missing_decides(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether a 404, if it is about the address, shows that it is chat-only."""
        decision = self.of(flow)
        if response.status_code not in MISSING or decision.way != "send" or not decision.address:
            return False
        return self._hosts.speaks(decision.address) is not Speaks.NATIVE

    def may_send_again(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether it may even be this request that is to be bridged."""
        return self.settings.bridge is None and self.missing_decides(flow, response)

    def at_missing(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """The host's whole answer has come.  Whether it says that there is no such address, so that
        the host is bridged."""
        decision, request = self.of(flow), flow.request
        if not self.missing_decides(flow, response) or names_something(request, response):
            return False
        self._learn(flow, decision, Speaks.CHAT)
        state_of(flow).decision = _bridged(decision, found_out(decision.route))
        return True

    def at_missing_chat(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The host has answered a bridged request.  If its chat path is not there either, the
        address is unknown again; unless only the model is."""
        decision = self.of(flow)
        if response.status_code in MISSING and not names_something(flow.request, response):
            self._learn(flow, decision, Speaks.UNKNOWN)

    def _learn(self, flow: http.HTTPFlow, decision: Decision, speaks: Speaks) -> None:
        if decision.address:
            self._hosts.learn(decision.address, flow.request, speaks)

    def lacks_count(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether a host may not count tokens: whether it says so, shows its whole answer."""
        missing = response.status_code in MISSING and self.settings.bridge is None
        return missing and self.of(flow).route.api == "count_tokens"

    def gives_models(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether a reply may be a list of models that is not in the form of the client's API."""
        decision = self.of(flow)
        unknown = self.settings.bridge is None and response.status_code == 200
        return decision.route.api == "models" and (decision.way == "list" or unknown)

    def refuses_upgrade(self, flow: http.HTTPFlow, response: http.Response) -> bool:
        """Whether a host has no WebSocket of the Responses API and says so with a status that
        clients do not understand at once."""
        missing = response.status_code in MISSING and self.settings.bridge is None
        return missing and self.of(flow).route.api == "upgrade"

    def _is_bridgeable(self, route: Route) -> bool:
        """Whether it is for something that a bridged host's client can ask for here."""
        served = not route.response_id or self._store.opened
        return served and route.api not in ("chat", "")

    def _may_be_kept(self, route: Route) -> bool:
        """Whether its id may be one of ours."""
        return self._store.opened and _OUR_ID.fullmatch(route.response_id) is not None


_WAYS: dict[str, Way] = {
    **{"responses": "answer", "count_tokens": "count", "models": "list"},
    **{"upgrade": "refuse", "unserved": "refuse"},
}
"""What becomes of the requests of a bridged host that generate nothing."""


def _bridged(decision: Decision, why: str) -> Decision:
    if not why:
        is_sent = decision.way == "send" and not decision.why
        return decision if is_sent else replace(decision, way="send", why="")
    way = "bridge" if decision.route.generates else _WAYS[decision.route.api]
    return replace(decision, way=way, why=why)


def _is_chosen(flow: http.HTTPFlow, test: Callable[[http.HTTPFlow], bool]) -> bool:
    """Whether the user has chosen the upstream of a flow that passes `test`: by a reverse proxy, or
    by a filter that does not match every other upstream as well."""
    if isinstance(flow.client_conn.proxy_mode, ReverseMode):
        return True
    other = flow.copy()
    other.request.host = other.request.headers["host"] = _NOBODY
    if other.request.authority:
        other.request.authority = _NOBODY
    other.server_conn.address = other.server_conn.peername = (_NOBODY, other.request.port)
    return not test(other)
