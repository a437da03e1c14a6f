"""Which address of an API a request is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mitmproxy import http
from mitmproxy.coretypes.multidict import MultiDict
from mitmproxy.net.http import url

SELF_TEST = "/dragoman-selftest"
"""The beginning of the self-test's paths, of which nothing is learned or counted."""
_RESPONSES = re.compile(
    r"(?P<base>.*)/responses"
    r"(?:/(?P<id>[^/]+)(?:/(?P<action>input_items|cancel|submit_tool_outputs))?)?/*",
    re.DOTALL,  # such an address is refused, not passed on: see `bridge_request`
)
_MESSAGES = re.compile(r"(?P<base>.*/v1)/messages(?P<counts>/count_tokens)?/*", re.DOTALL)
_MODELS = re.compile(r"(?P<base>.*/v1)/models/*", re.DOTALL)
"""Of Anthropic's API if a request names the version of that."""
_UNSERVED = re.compile(
    r"(?P<base>.*)/(?:responses/(?P<verb>compact|input_tokens)"
    r"|(?P<noun>conversations)(?:/(?!responses/*$)[^/]+(?:/items(?:/[^/]+)?)?)?)/*",
    re.DOTALL,
)
"""The parts of the Responses API that no chat upstream has."""
_METHODS = {
    "": ("GET", "DELETE"),
    "input_items": ("GET",),
    "cancel": ("POST",),
    "submit_tool_outputs": ("POST",),
}
"""The methods of requests about one response, by action."""


@dataclass(frozen=True, slots=True)
class Route:
    """What a request is for."""

    api: Literal[
        "chat", "messages", "count_tokens", "models", "responses", "upgrade", "unserved", ""
    ]
    """A chat completion; a message, its count of tokens, or the list of models, in Anthropic's
    form; a response, or something about one; a WebSocket of the Responses API; a part of it that no
    chat upstream has; or anything else, by its path or its method."""
    base: str
    """The path before what this module knows of it, without query."""
    response_id: str = ""
    """Empty where a new response is asked for."""
    action: str = ""
    """What is done with that response; or the part that is `unserved`."""
    gives_response: bool = False
    """Whether the reply is a response: a new one, or a stored one.  A stream of a stored one that
    begins after its first event is incomplete: the number that the client names is of an event
    that repair may have made."""

    @property
    def creates(self) -> bool:
        """Whether it asks for a new response, or a message."""
        return self.api == "messages" or (self.api == "responses" and not self.response_id)

    @property
    def generates(self) -> bool:
        return self.creates or self.action == "submit_tool_outputs"

    @property
    def of_messages(self) -> bool:
        """Whether it is one of a client of the Messages API."""
        return self.api in ("messages", "count_tokens", "models")

    @property
    def gives_turn(self) -> bool:
        """Whether the reply is a chat completion, a message or a response."""
        return self.api in ("chat", "messages") or self.gives_response


def route_of(request: http.Request) -> Route:
    path, method = request.path.partition("?")[0], request.method
    if found := _RESPONSES.fullmatch(path):
        base, response_id, action = found["base"], found["id"] or "", found["action"] or ""
        if method in (_METHODS[action] if response_id else ("POST",)):
            stored = method == "GET" and "starting_after" not in query_of(request)
            gives = not action and (not response_id or stored)
            return Route("responses", base, response_id, action, gives)
        if not response_id and "websocket" in request.headers.get("upgrade", "").lower():
            return Route("upgrade", base)
    unserved = _UNSERVED.fullmatch(path)
    if unserved and method in (("POST",) if unserved["verb"] else ("POST", "GET", "DELETE")):
        return Route("unserved", unserved["base"], action=unserved["verb"] or unserved["noun"])
    if other := found or unserved:
        return Route("", other["base"])
    if method == "POST" and (found := _MESSAGES.fullmatch(path)):
        return Route("count_tokens" if found["counts"] else "messages", found["base"])
    models = _MODELS.fullmatch(path) if method == "GET" else None
    if models and "anthropic-version" in request.headers:  # every API has such a list
        return Route("models", models["base"])
    path, posts = path.rstrip("/"), method == "POST"
    is_chat = posts and path.endswith("/chat/completions")
    return Route("chat" if is_chat else "", path.removesuffix("/chat/completions"))


def route_of_client(path: str) -> Route:
    """What a bridged request with this path was for."""
    found = _MESSAGES.fullmatch(path.partition("?")[0])
    return Route("messages", found["base"]) if found else Route("responses", "")


def query_of(request: http.Request) -> MultiDict[str, str]:
    """The parameters of an address.  mitmproxy's own property takes the host apart, too, and raises
    `ValueError` for a path like ``[``, which HTTP/2 can carry."""
    return MultiDict(url.decode(request.path.partition("#")[0].partition("?")[2]))


def is_of_anthropic(request: http.Request, route: Route) -> bool:
    """Whether a message is asked of Anthropic's own host, which refuses nothing of its clients' and
    whose models do not leak: it is changed only where a filter names it."""
    return route.api == "messages" and request.pretty_host.lower() == "api.anthropic.com"


def is_self_test(request: http.Request) -> bool:
    return request.path.startswith(f"{SELF_TEST}/")


def is_replayed(flow: http.HTTPFlow) -> bool:
    """Whether mitmproxy sends this request again: without a client, and without our stream layer,
    which ends or breaks off replies."""
    return flow.is_replay == "request"
