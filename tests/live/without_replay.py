"""A script for mitmdump, loaded before the addon, which then finds mitmproxy's replay gone; it
is back when mitmproxy runs."""

from __future__ import annotations

from mitmproxy.addons import clientplayback

_gone = clientplayback.ReplayHandler
del clientplayback.ReplayHandler


def running() -> None:
    clientplayback.ReplayHandler = _gone
