"""Which address of an API a request is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from mitmproxy import http

Action = Literal["", "input_items", "cancel", "submit_tool_outputs"]

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
"""What the Responses API has besides and no chat upstream can do."""
Unserved = Literal["compact", "input_tokens", "conversations"]
_METHODS = {
    ("POST", False, ""),
    ("GET", True, ""),
    ("DELETE", True, ""),
    ("GET", True, "input_items"),
    ("POST", True, "cancel"),
    ("POST", True, "submit_tool_outputs"),
}


@dataclass(frozen=True, slots=True)
class ResponsesRoute:
    """A request of the Responses API."""

    base: str
    """The path before ``/responses``."""
    response_id: str = ""
    """Empty where a new response is asked for."""
    action: Action = ""

    @property
    def generates(self) -> bool:
        return not self.response_id or self.action == "submit_tool_outputs"


def responses_route(request: http.Request) -> ResponsesRoute | None:
    """None for a request that is for nothing of the Responses API, or by another method."""
    found = _RESPONSES.fullmatch(request.path.partition("?")[0])
    if found is None:
        return None
    action = cast(Action, found["action"] or "")
    if (request.method, bool(found["id"]), action) not in _METHODS:
        return None
    return ResponsesRoute(found["base"], found["id"] or "", action)


def unserved(request: http.Request) -> Unserved | None:
    """The part of the API that a request is for, if it is one that cannot be bridged."""
    found = _UNSERVED.fullmatch(request.path.partition("?")[0])
    if found is None or request.method not in ("POST", "GET", "DELETE"):
        return None
    if found["verb"] and request.method != "POST":
        return None
    return cast(Unserved, found["verb"] or found["noun"])


def beside(request: http.Request) -> ResponsesRoute | None:
    """For what is `unserved`: the ``…/responses`` beside it, by which its upstream is known."""
    part = unserved(request)
    return ResponsesRoute(base_path(request), part) if part is not None else None


def is_chat(request: http.Request) -> bool:
    """Whether this asks for a chat completion."""
    path = request.path.partition("?")[0].rstrip("/")
    return request.method == "POST" and path.endswith("/chat/completions")


def is_replayed(flow: http.HTTPFlow) -> bool:
    """Whether mitmproxy sends this request again: without a client, and without our stream layer,
    which ends or breaks off replies."""
    return flow.is_replay == "request"


def is_responses(request: http.Request) -> bool:
    """Whether this asks for a response of the Responses API."""
    address = responses_route(request)
    return address is not None and not address.response_id


def gives_response(request: http.Request) -> bool:
    """Whether the reply is a response of the Responses API: a new one, or one that is stored.  A
    stream of a stored one that begins later than its first event is no whole one: the number that
    the client names is of an event that repair may have made."""
    address = responses_route(request)
    stored = request.method == "GET" and "starting_after" not in request.query
    return address is not None and not address.action and (not address.response_id or stored)


def asks_a_model(request: http.Request) -> bool:
    return is_chat(request) or is_responses(request)


def is_upgrade(request: http.Request) -> bool:
    """Whether a client of the Responses API asks for a WebSocket in place of requests."""
    path = request.path.partition("?")[0].rstrip("/")
    upgrade = request.headers.get("upgrade", "")
    return path.endswith("/responses") and "websocket" in upgrade.lower()


def base_path(request: http.Request) -> str:
    """The path without what this module knows of it, and without query."""
    path = request.path.partition("?")[0].rstrip("/")
    found = _RESPONSES.fullmatch(path) or _UNSERVED.fullmatch(path)
    return found["base"] if found else path.removesuffix("/chat/completions")
