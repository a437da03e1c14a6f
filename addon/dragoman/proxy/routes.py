"""Which address of an API a request is for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mitmproxy import http

_RESPONSES = re.compile(
    r"(?P<base>.*)/responses"
    r"(?:/(?P<id>[^/]+)(?:/(?P<action>input_items|cancel|submit_tool_outputs))?)?/*",
    re.DOTALL,  # such an address is refused, not passed on: see `bridge_turn`
)
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
"""Of requests about one response, by their action."""


@dataclass(frozen=True, slots=True)
class ResponsesRoute:
    """A request of the Responses API."""

    base: str
    """The path before ``/responses``."""
    response_id: str = ""
    """Empty where a new response is asked for."""
    action: str = ""

    @property
    def generates(self) -> bool:
        return not self.response_id or self.action == "submit_tool_outputs"


def _path(request: http.Request) -> str:
    return request.path.partition("?")[0]


def responses_route(request: http.Request) -> ResponsesRoute | None:
    """None for a request that is for nothing of the Responses API, or by another method."""
    found = _RESPONSES.fullmatch(_path(request))
    if found is None:
        return None
    route = ResponsesRoute(found["base"], found["id"] or "", found["action"] or "")
    methods = _METHODS[route.action] if route.response_id else ("POST",)
    return route if request.method in methods else None


def unserved(request: http.Request) -> str:
    """The part of the API that a request is for, if no chat upstream has it; else empty."""
    found = _UNSERVED.fullmatch(_path(request))
    methods = ("POST",) if found and found["verb"] else ("POST", "GET", "DELETE")
    return found["verb"] or found["noun"] if found and request.method in methods else ""


def beside(request: http.Request) -> ResponsesRoute | None:
    """For an `unserved` part: the ``…/responses`` beside it, by which its upstream is known."""
    part = unserved(request)
    return ResponsesRoute(base_path(request), part) if part else None


def is_chat(request: http.Request) -> bool:
    """Whether this asks for a chat completion."""
    return request.method == "POST" and _path(request).rstrip("/").endswith("/chat/completions")


def is_replayed(flow: http.HTTPFlow) -> bool:
    """Whether mitmproxy sends this request again: without a client, and without our stream layer,
    which ends or breaks off replies."""
    return flow.is_replay == "request"


def is_responses(request: http.Request) -> bool:
    """Whether this asks for a response of the Responses API."""
    address = responses_route(request)
    return address is not None and not address.response_id


def gives_response(request: http.Request) -> bool:
    """Whether the reply is a response of the Responses API: a new one, or a stored one.  A stream
    of a stored one that begins after its first event is incomplete: the number that the client
    names is of an event that repair may have made."""
    address = responses_route(request)
    stored = request.method == "GET" and "starting_after" not in request.query
    return address is not None and not address.action and (not address.response_id or stored)


def asks_a_model(request: http.Request) -> bool:
    return is_chat(request) or is_responses(request)


def is_upgrade(request: http.Request) -> bool:
    """Whether a client of the Responses API asks for a WebSocket in place of requests."""
    upgrade = request.headers.get("upgrade", "")
    return _path(request).rstrip("/").endswith("/responses") and "websocket" in upgrade.lower()


def base_path(request: http.Request) -> str:
    """The path without what this module knows of it, and without query."""
    path = _path(request).rstrip("/")
    found = _RESPONSES.fullmatch(path) or _UNSERVED.fullmatch(path)
    return found["base"] if found else path.removesuffix("/chat/completions")
