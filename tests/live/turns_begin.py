"""A script for mitmdump, loaded in front of the addon: the log says when a reply has come that
is sent at its end, and the turns of the event loop are counted from then on."""

from __future__ import annotations

import asyncio
import logging

from mitmproxy import http

logger = logging.getLogger(__name__)


class TurnsBegin:
    def response(self, flow: http.HTTPFlow) -> None:
        logger.info("%s: has come", flow.request.path)
        flow.metadata["turns"] = 0
        self._counting = asyncio.get_running_loop().create_task(count_turns(flow))

    def dragoman_read(self, flow: http.HTTPFlow) -> None:
        """One where a stream was asked for; `response` comes when it has been read."""
        self.response(flow)


async def count_turns(flow: http.HTTPFlow) -> None:
    while flow.metadata["turns"] >= 0 and flow.error is None:
        flow.metadata["turns"] += 1
        await asyncio.sleep(0)


addons = [TurnsBegin()]
