"""A script beside the addon: another addon that answers, and a user who kills flows."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mitmproxy import http

STREAM = Path(__file__).parents[2] / "fixtures" / "kimi_header_short" / "upstream.sse"


class Others:
    def request(self, flow: http.HTTPFlow) -> None:
        if "/made/" in flow.request.path:
            content_type = {"content-type": "text/event-stream"}
            flow.response = http.Response.make(200, STREAM.read_bytes(), content_type)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        if "/killed/" in flow.request.path:
            asyncio.get_running_loop().call_later(0.5, flow.kill)


addons = [Others()]
