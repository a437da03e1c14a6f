"""How the log names a flow: its host and its path in one line, without the query, which may hold a
key."""

from __future__ import annotations

from mitmproxy import http
from mitmproxy.net.http.url import hostport

from ...notes import printable

MAX_NAME = 300
"""Characters of it."""


def host_of(request: http.Request) -> str:
    """With its port, unless that is its scheme's own: one machine may run several engines."""
    return hostport(request.scheme, request.pretty_host, request.port)


def name_of(flow: http.HTTPFlow) -> str:
    name = f"{host_of(flow.request)}{flow.request.path[:MAX_NAME].partition('?')[0]}"
    return printable(name, MAX_NAME)
