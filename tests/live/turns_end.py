"""A script for mitmdump, loaded behind the addon: the log says how many turns the event loop has
had since `turns_begin`."""

from __future__ import annotations

import logging

from mitmproxy import http

logger = logging.getLogger(__name__)


class TurnsEnd:
    def response(self, flow: http.HTTPFlow) -> None:
        logger.info("%s: the loop had %d turns", flow.request.path, flow.metadata["turns"])
        flow.metadata["turns"] = -1

    def dragoman_read(self, flow: http.HTTPFlow) -> None:
        self.response(flow)


addons = [TurnsEnd()]
