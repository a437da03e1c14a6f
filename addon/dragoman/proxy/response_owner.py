"""What says who sends a request, for whom its response is then kept.

Everything that a host may go by counts: somebody who has one of a request's keys, but not
the others, is somebody else.  Cookies do not: hosts renew theirs from turn to turn.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from mitmproxy import http

from ..stored.save_context import asker
from .routes import base_path

_FIRST = ("authorization", "x-api-key", "api-key")
"""These three are part of every owner, sent or not.  Who sends no other has the owner that
responses were kept for before the others counted."""
_HEADERS = (
    *("x-goog-api-key", "ocp-apim-subscription-key", "x-auth-token"),
    *("openai-organization", "openai-project"),
)
_QUERY = ("key", "api-key")


def asker_of(request: http.Request) -> bytes:
    """Whose the responses of this request are; before its path is changed."""
    first = (request.headers.get(name, "") for name in _FIRST)
    upstream = f"{request.scheme}://{_host(request)}:{request.port}{base_path(request)}"
    return asker([*first, *_others(request)], upstream)


def is_anonymous(request: http.Request) -> bool:
    """Whether a request carries no credential at all."""
    return not any(request.headers.get(name) for name in _FIRST) and not any(_others(request))


def _others(request: http.Request) -> Iterator[str]:
    """Each by its name and its value."""
    for name in _HEADERS:
        if value := request.headers.get(name):
            yield from (name, value)
    for name in _QUERY:
        for value in filter(None, request.query.get_all(name)):
            yield from (f"?{name}", value)


def _host(request: http.Request) -> str:
    """The name of the upstream: that of the connection, or the request's where the connection
    has only an address, which for one name may be another each time."""
    try:
        ipaddress.ip_address(request.host)
    except ValueError:
        return request.host.lower()
    return request.pretty_host.lower()
