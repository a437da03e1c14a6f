"""A script for mitmdump, loaded behind the addon: what it tells of the flows.

`GET /telltale` gives, as JSON, what stands on every flow that has ended (not the bodies)
and the output of the command `dragoman.stats`.
"""

from __future__ import annotations

import json
from typing import Any

from mitmproxy import ctx, http

SHOWN = ("job", "notes_of_reply", "calls", "missing", "ended")


class Telltale:
    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []

    def request(self, flow: http.HTTPFlow) -> None:
        if flow.request.path == "/telltale":
            stats = ctx.master.commands.call("dragoman.stats")
            body = json.dumps({"flows": self._told, "stats": stats})
            flow.response = http.Response.make(200, body)

    def response(self, flow: http.HTTPFlow) -> None:
        self._keep(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._keep(flow)

    def _keep(self, flow: http.HTTPFlow) -> None:
        if flow.request.path == "/telltale":
            return
        known = flow.metadata.get("dragoman", {})
        self._told.append(
            {
                "comment": flow.comment,
                "marked": flow.marked,
                "error": flow.error.msg if flow.error else "",
                "metadata": {name: str(known.get(name)) for name in SHOWN},
                "others": sorted(set(known) - {*SHOWN, "steps", "request", "upstream"}),
            }
        )


addons = [Telltale()]
