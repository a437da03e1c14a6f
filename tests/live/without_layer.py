"""A script for mitmdump, loaded before the addon, which then finds an internal of
mitmproxy gone; it is back when mitmproxy runs."""

from __future__ import annotations

from mitmproxy.proxy.layers.http import HttpStream

_gone = HttpStream.check_body_size
del HttpStream.check_body_size


def running() -> None:
    HttpStream.check_body_size = _gone
