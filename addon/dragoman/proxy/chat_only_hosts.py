"""Which upstreams speak only Chat Completions: known ones, and those that answered 404.

Nobody is asked: the answer to a client's own request for a response shows what its host speaks (see
`decision`).  It counts for the address (scheme, host, port, `Host`, path and query) and for who has
asked, as some hosts answer 404 to a key that they do not know; for a day, and it is kept where
responses are kept.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

import mitmproxy.types
from mitmproxy import http

from ..stored.save_context import hash_of
from ..stored.store import StoreError
from ..wire.errors import Refused
from .body_clues import asks_for_a_turn
from .http_headers import media_type
from .observe.commands import as_table, typed_command
from .response_owner import asker_of
from .routes import SELF_TEST, Route, is_self_test
from .stored.async_store import AsyncStore


class Speaks(StrEnum):
    """What is known of an address."""

    UNKNOWN = ""
    CHAT = "chat"
    NATIVE = "its own API"
    """It has answered a real request."""


@dataclass(frozen=True, slots=True)
class _Learned:
    """What an address has shown."""

    speaks: Speaks
    url: str
    """Without its query, as people write it."""
    at: float
    """In Unix seconds."""


KNOWN = (
    "api.moonshot.ai",
    "api.moonshot.cn",
    "api.deepseek.com",
    "api.deepinfra.com",
    "api.together.xyz",
    "api.cerebras.ai",
    "api.mistral.ai",
    "api.sambanova.ai",
    "api.siliconflow.cn",
    "api.siliconflow.com",
    "api.novita.ai",
    "api.hyperbolic.xyz",
    "api.studio.nebius.com",
    "api.z.ai",
    "open.bigmodel.cn",
    "inference.baseten.co",
    "integrate.api.nvidia.com",
    "llm.chutes.ai",
)
"""Hosts of Kimi and other open models that offer no Responses API."""
_NATIVE = ("openai.com", "chatgpt.com", "azure.com", "azure.us", "azure.cn")
"""OpenAI's and Azure's domains: nothing is learned of them."""
KNOWN_FOR_MESSAGES = (
    "api.cerebras.ai",
    "api.groq.com",
    "api.mistral.ai",
    "api.together.xyz",
    "integrate.api.nvidia.com",
)
"""Hosts whose documentation names no Messages API; many of those above have one."""
_NATIVE_FOR_MESSAGES = ("anthropic.com", "claude.com")

MAX_ADDRESSES = 4096
"""Addresses, each for one owner, that are remembered in memory, of some 300 bytes each;
the least recently used goes first."""
LEARNED_FOR = 86_400.0
"""Seconds for which it counts: hosts get new APIs."""
_NOT_OF_AN_ADDRESS = {
    *("stream", "starting_after", "include", "include[]", "include_obfuscation"),
    *("after", "before", "limit", "order"),
    # Of the Messages API.
    *("beta", "after_id", "before_id"),
}
"""Parameters of requests about one response, or for a list, which are not part of the address."""


class Hosts:
    """What is known of upstreams; an addon for its command."""

    name = "dragoman-hosts"

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._known: OrderedDict[str, _Learned] = OrderedDict()
        """By the hash of address and owner, least recently used first."""

    # What is known

    def why_bridged(self, request: http.Request, route: Route) -> str:
        """In words; empty for an upstream that is not to be bridged, as far as is known."""
        if request.pretty_host.lower() in _known(route):
            return "its host is on the built-in list"
        if self._known and self.speaks(_name(request, route)) is Speaks.CHAT:
            return found_out(route)
        return ""

    def may_be_found_out(self, request: http.Request, route: Route) -> bool:
        """Whether the reply may show what its upstream speaks, if the body of this request is one
        for a response."""
        if not route.creates or _is_settled(request, route):
            return False
        if media_type(request) not in ("", "application/json"):
            return False
        return self.speaks(_name(request, route)) is Speaks.UNKNOWN

    def speaks(self, name: str) -> Speaks:
        """What is known of an address, for an owner: `name` is the hash of both."""
        learned = self._known.get(name)
        if learned is None:
            return Speaks.UNKNOWN
        if time.time() - learned.at > LEARNED_FOR:
            del self._known[name]
            return Speaks.UNKNOWN
        self._known.move_to_end(name)
        return learned.speaks

    def learn(self, name: str, request: http.Request, speaks: Speaks) -> None:
        """`request` has shown what the address `name` speaks.  Once a real one was answered, no
        404 makes it chat-only any more."""
        if self.speaks(name) in (speaks, Speaks.NATIVE):
            return
        now = time.time()
        self._put(name, request, speaks, now)
        if not is_self_test(request):
            self._store.remember(name, speaks.value, now)

    def _put(self, name: str, request: http.Request, speaks: Speaks, at: float) -> None:
        self._known.pop(name, None)
        if speaks is not Speaks.UNKNOWN:
            path = request.path.partition("?")[0]
            url = f"{request.scheme}://{request.pretty_host}:{request.port}{path}"
            self._known[name] = _Learned(speaks, url, at)
        if len(self._known) > MAX_ADDRESSES:
            self._known.popitem(last=False)

    def forget_self_test(self) -> None:
        """Forget the upstream of the self-test, which has ended."""
        for name in [name for name, each in self._known.items() if SELF_TEST in each.url]:
            del self._known[name]

    @typed_command("dragoman.hosts")
    def table(self) -> mitmproxy.types.Data:
        """List the hosts that are bridged, or have answered such a request themselves."""
        return as_table([["host", "speaks"], *map(list, self.listed())])

    def listed(self) -> list[tuple[str, str]]:
        """The known hosts and addresses, and what they speak."""
        learned = dict.fromkeys((each.url, each.speaks.value) for each in self._known.values())
        known = dict.fromkeys(KNOWN_FOR_MESSAGES, f"{Speaks.CHAT} (built-in, for Messages)")
        known |= dict.fromkeys(KNOWN, f"{Speaks.CHAT} (built-in)")
        return [*known.items(), *learned]

    # Finding out

    async def find_out(self, flow: http.HTTPFlow, route: Route) -> str:
        """Find out from the store what the address of a request speaks.  Gives that address where
        the reply to this request teaches something, else ""."""
        request = flow.request
        if _is_settled(request, route):
            return ""
        name = _name(request, route)
        unproven = route.creates and self.speaks(name) is Speaks.UNKNOWN
        if unproven and not await asks_for_a_turn(request):
            return ""
        if self.speaks(name) is Speaks.UNKNOWN and self._store.opened:
            # What was found out before this process began, or by another.
            with suppress(Refused, StoreError, ValueError):
                kept, at = await self._store.speaks(name)
                if name not in self._known:
                    self._put(name, request, Speaks(kept), at)
        return name if unproven or self.speaks(name) is Speaks.CHAT else ""


def name_of_api(route: Route) -> str:
    """The one whose clients are bridged."""
    return "Messages" if route.of_messages else "Responses"


def found_out(route: Route) -> str:
    """Why a request is bridged to a host that has said that it has no such address."""
    return f"its host was found to have no {name_of_api(route)} API"


def _known(route: Route) -> Sequence[str]:
    return KNOWN_FOR_MESSAGES if route.of_messages else KNOWN


def _is_settled(request: http.Request, route: Route) -> bool:
    """Whether an upstream is known."""
    names = {request.pretty_host.lower(), request.host.lower()}
    domains = _NATIVE_FOR_MESSAGES if route.of_messages else _NATIVE
    native = any(f".{name}".endswith(f".{domain}") for name in names for domain in domains)
    return native or request.pretty_host.lower() in _known(route)


def _name(request: http.Request, route: Route) -> str:
    """The address of an upstream's ``…/responses`` or ``…/messages``, and who asks there.  A hash:
    queries hold keys, and this is stored."""
    path = request.path
    if route.of_messages or not (route.creates or route.api == "upgrade"):
        query = path.partition("?")[2].split("&")
        kept = [part for part in query if unquote(part.partition("=")[0]) not in _NOT_OF_AN_ADDRESS]
        end = "messages" if route.of_messages else "responses"
        path = f"{route.base}/{end}" + ("?" + "&".join(kept) if any(kept) else "")
    host = (request.host_header or "").lower()
    address = request.scheme, request.host.lower(), str(request.port), host, path
    return hash_of(*address, asker_of(request).hex()).hex()
