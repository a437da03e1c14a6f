"""A script for mitmdump, loaded after the addon: replays the last flow, as a person does.

`POST /replay` with a body first puts that in the place of the request's; `POST /revert`
reverts the flow; each, and `GET /replayer`, answers what stands on the flow.
"""

from __future__ import annotations

import json

from mitmproxy import ctx, http


class Replayer:
    def __init__(self) -> None:
        self._flow: http.HTTPFlow | None = None

    def request(self, flow: http.HTTPFlow) -> None:
        if flow.request.path not in ("/replayer", "/replay", "/revert"):
            self._flow = flow
            return
        last = self._flow
        assert last is not None
        if flow.request.path == "/revert":
            last.revert()
        elif flow.request.path == "/replay":
            if flow.request.content:
                last.backup()  # as mitmweb does
                last.request.content = flow.request.content
            ctx.master.commands.call("replay.client", [last])
        response = last.response
        shown = {
            "comment": last.comment,
            "path": last.request.path,
            "sent": last.request.get_text(),
            "received": response.get_text() if response else None,
        }
        flow.response = http.Response.make(200, json.dumps(shown))


addons = [Replayer()]
