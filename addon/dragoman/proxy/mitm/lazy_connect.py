"""Has mitmproxy connect to the upstream of a reverse proxy with the first request.

By default (``connection_strategy=eager``) it does when a client connects; if that fails, it
closes the client's connection without an answer.  As `http_stream`, this knows internals of
mitmproxy.
"""

from __future__ import annotations

from typing import Any, cast

from mitmproxy import ctx
from mitmproxy.connection import Client
from mitmproxy.options import Options
from mitmproxy.proxy.mode_specs import ReverseMode


class OptionsOverlay:
    """The user's options, with some replaced."""

    def __init__(self, options: Options, **changed: object) -> None:
        self._options = options
        self._changed = changed

    def __getattr__(self, name: str) -> Any:
        return self._changed[name] if name in self._changed else getattr(self._options, name)


def connect_when_asked(client: Client) -> None:
    """Have every request of a client that has just connected answered."""
    mode = client.proxy_mode
    if not isinstance(mode, ReverseMode) or mode.scheme not in ("http", "https"):
        return
    proxyserver = ctx.master.addons.get("proxyserver")
    handler = proxyserver.connections.get(client.id) if proxyserver else None
    if handler is not None:
        context = handler.layer.context
        context.options = cast(Options, OptionsOverlay(context.options, connection_strategy="lazy"))
