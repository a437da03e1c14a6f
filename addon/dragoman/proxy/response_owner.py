"""The owner of a response: who sent its request, by its credentials.

All that a host may go by counts: the same key with another organization is another owner.
Cookies do not count: hosts renew them from turn to turn.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from mitmproxy import http

from ..stored.save_context import asker
from .routes import query_of, route_of

_FIRST = ("authorization", "x-api-key", "api-key")
"""These three are part of every owner, sent or not; the others only where they are sent, so that
the owners in stores that were written without them stay the same."""
_HEADERS = (
    *("x-goog-api-key", "ocp-apim-subscription-key", "x-auth-token"),
    # Of gateways, beside the host's key: LiteLLM, Cloudflare, Helicone, Portkey.
    *("x-litellm-api-key", "cf-aig-authorization", "helicone-auth", "x-portkey-api-key", "x-key"),
    *("openai-organization", "openai-project"),
)
_QUERY = ("key", "api-key", "api_key", "token", "access_token", "apikey")


def asker_of(request: http.Request) -> bytes:
    """Whose the responses of this request are; before its path is changed."""
    first = (request.headers.get(name, "") for name in _FIRST)
    upstream = f"{request.scheme}://{_host(request)}:{request.port}{route_of(request).base}"
    return asker([*first, *_others(request)], upstream)


def is_anonymous(request: http.Request) -> bool:
    """Whether a request carries no credential at all."""
    return not any(request.headers.get(name) for name in _FIRST) and not any(_others(request))


def _others(request: http.Request) -> Iterator[str]:
    """The name and the value of each further credential."""
    for name in _HEADERS:
        if value := request.headers.get(name):
            yield from (name, value)
    query = query_of(request)
    for name in _QUERY:
        for value in filter(None, query.get_all(name)):
            yield from (f"?{name}", value)


def _host(request: http.Request) -> str:
    """The upstream's name: the connection's, or the request's where the connection has only an
    address, which may change."""
    try:
        ipaddress.ip_address(request.host)
    except ValueError:
        return request.host.lower()
    return request.pretty_host.lower()
