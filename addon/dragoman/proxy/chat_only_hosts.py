"""Which upstreams speak only Chat Completions: known ones, and those that were asked.

An address is scheme, host, port, `Host`, path and query.  An unknown one is asked (`ask_upstream`)
before the first request for a response is sent, and the answer is kept where responses are
kept.  Answers to real requests count for more: see `decision`.

Some upstreams answer 404 without a key.  So what was found out without a credential counts
only for requests without one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from urllib.parse import unquote

import mitmproxy.types
from mitmproxy import http

from ..stored.save_context import hash_of
from ..stored.store import StoreError
from ..wire.errors import Refused
from .ask_upstream import ANSWER, ASKING_MISSING, Question, Speaks
from .body_clues import asks_for_a_response
from .http_headers import media_type
from .observe.commands import as_table, typed_command
from .observe.monitor import name_of
from .response_owner import asker_of, is_anonymous
from .routes import SELF_TEST, Route, is_self_test
from .stored.async_store import AsyncStore

logger = logging.getLogger(__name__)

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
"""OpenAI's and Azure's domains: never asked, and nothing is learned of them."""

MAX_ADDRESSES = 4096
"""Upstreams' addresses that are remembered in memory, of some 200 bytes each; the least recently
used goes first."""
_ABOUT_ONE = {
    *("stream", "starting_after", "include", "include[]", "include_obfuscation"),
    *("after", "before", "limit", "order"),
}
"""Parameters of requests about one response, which are not part of the address."""
_UNSURE = (Speaks.UNKNOWN, Speaks.CLAIMED)


class Hosts:
    """What is known of upstreams; an addon for its command."""

    name = "dragoman-hosts"

    def __init__(self, store: AsyncStore) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[Speaks, str]] = OrderedDict()
        """By the address's hash, least recently used first; with the URL, without its query, as
        people write it."""
        self._questions: dict[str, Question] = {}
        """The open ones, by the address's hash."""

    # What is known

    def why_bridged(self, request: http.Request, route: Route) -> str:
        """In words; empty for an upstream that is not to be bridged, as far as is known."""
        if request.pretty_host.lower() in KNOWN:
            return "its host is on the built-in list"
        if self._known and self._of(request, _name(request, route)) is Speaks.CHAT:
            return "its host was found to have no Responses API"
        return ""

    def may_be_found_out(self, request: http.Request, route: Route) -> bool:
        """Whether it depends on the body of this request if its upstream is asked."""
        if not route.creates or _is_settled(request):
            return False
        if media_type(request) not in ("", "application/json"):
            return False
        return self._of(request, _name(request, route)) in _UNSURE

    def speaks(self, name: str) -> Speaks:
        """What is known of an address."""
        return self._known[name][0] if name in self._known else Speaks.UNKNOWN

    def _of(self, request: http.Request, name: str) -> Speaks:
        """What is known for this request, by its credentials."""
        speaks = self.speaks(name)
        if speaks is not Speaks.UNKNOWN:
            self._known.move_to_end(name)
        if speaks is not Speaks.CHAT_ANONYMOUS:
            return speaks
        return Speaks.CHAT if is_anonymous(request) else Speaks.UNKNOWN

    def learn(self, name: str, request: http.Request, speaks: Speaks, *, keep: bool = True) -> None:
        """`request` has shown what the address `name` speaks.  Once a real one was answered, no
        404 makes it chat-only any more."""
        if self.speaks(name) in (speaks, Speaks.RESPONSES):
            return
        self._known.pop(name, None)
        if speaks is not Speaks.UNKNOWN:
            path = request.path.partition("?")[0]
            url = f"{request.scheme}://{request.pretty_host}:{request.port}{path}"
            self._known[name] = speaks, url
        if len(self._known) > MAX_ADDRESSES:
            self._known.popitem(last=False)
        if keep and speaks is not Speaks.CLAIMED and not is_self_test(request):
            self._store.remember(name, speaks.value)

    def forget_self_test(self) -> None:
        """Forget the upstream of the self-test, which has ended."""
        for name in [name for name, (_, url) in self._known.items() if SELF_TEST in url]:
            del self._known[name]

    @typed_command("dragoman.hosts")
    def table(self) -> mitmproxy.types.Data:
        """List the hosts that are bridged, or found to speak Responses, as far as is known."""
        return as_table([["host", "speaks"], *map(list, self.listed())])

    def listed(self) -> list[tuple[str, str]]:
        """The known hosts and addresses, and what they speak."""
        learned = [(url, speaks.value) for speaks, url in self._known.values()]
        return [*((host, f"{Speaks.CHAT} (built-in)") for host in KNOWN), *learned]

    # Finding out

    async def find_out(self, flow: http.HTTPFlow, route: Route) -> tuple[str, bool]:
        """Find out what the address of a request speaks: from the store, and, if it asks for a new
        response, from the upstream itself.  Gives that address where the reply to this request
        teaches something, else "", and whether no answer came in time."""
        request, late = flow.request, False
        if _is_settled(request):
            return "", False
        name = _name(request, route)
        unproven = route.creates and self._of(request, name) in _UNSURE
        if unproven and not await asks_for_a_response(request):
            return "", False
        if self._of(request, name) is Speaks.UNKNOWN and self._store.opened:
            # What was found out before this process began, or by another.
            with suppress(Refused, StoreError, ValueError):  # then it is asked
                known = Speaks(await self._store.speaks(name))
                if name not in self._known:
                    self.learn(name, request, known, keep=False)
        if route.creates and self._of(request, name) is Speaks.UNKNOWN and not ASKING_MISSING:
            late = await self._ask(flow, name)
        teaches = unproven or self._of(request, name) is Speaks.CHAT
        return name if teaches else "", late

    async def _ask(self, flow: http.HTTPFlow, name: str) -> bool:
        """Ask the upstream, or wait for the answer to an earlier request. A request with other
        credentials than those that got no answer asks again, but does not wait for long. Returns
        whether an answer may still come."""
        request, loop = flow.request, asyncio.get_running_loop()
        asker, until = asker_of(request), loop.time() + 2 * ANSWER
        while flow.error is None and self._of(request, name) is Speaks.UNKNOWN:
            question = self._questions.get(name)
            if question is None:
                question = self._questions[name] = Question(flow)
                # It may run at once, and to its end (mitmproxy 12 has eager tasks).
                question.task = loop.create_task(self._send(question, name))
            # This cancels nothing where it is cancelled itself: others wait, too.
            await asyncio.wait(
                {question.task, question.late},
                timeout=max(0.0, until - loop.time()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not question.task.done():
                return True
            if question.asker == asker or not question.by_credentials:
                break
        return False

    async def _send(self, question: Question, name: str) -> None:
        try:
            await question.send()
            if question.speaks is not Speaks.UNKNOWN:
                self.learn(name, question.flow.request, question.speaks)
        except Exception:
            logger.exception("%s: could not be asked", name_of(question.flow))
        finally:
            del self._questions[name]

    def question(self, flow: http.HTTPFlow) -> Question | None:
        """The open question whose own flow this is."""
        return next((each for each in self._questions.values() if each.flow is flow), None)


def _is_settled(request: http.Request) -> bool:
    """Whether an upstream is known without asking."""
    names = {request.pretty_host.lower(), request.host.lower()}
    native = any(f".{name}".endswith(f".{domain}") for name in names for domain in _NATIVE)
    return native or request.pretty_host.lower() in KNOWN


def _name(request: http.Request, route: Route) -> str:
    """The address of an upstream's ``…/responses``.  A hash: queries hold keys, and this is
    stored."""
    path = request.path
    if not (route.creates or route.api == "upgrade"):
        query = path.partition("?")[2].split("&")
        kept = [part for part in query if unquote(part.partition("=")[0]) not in _ABOUT_ONE]
        path = f"{route.base}/responses" + ("?" + "&".join(kept) if any(kept) else "")
    host = (request.host_header or "").lower()
    return hash_of(request.scheme, request.host.lower(), str(request.port), host, path).hex()
