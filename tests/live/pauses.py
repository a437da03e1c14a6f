"""A script for mitmdump, loaded after the addon: each piece of a reply counts as much work, and
each pause after one is logged."""

from __future__ import annotations

import logging
import sys
from typing import Any

from mitmproxy import http


class Pauses:
    def __init__(self) -> None:
        streams: Any = sys.modules["dragoman.proxy.mitm.http_stream"]
        streams.LONG = -1.0

    def dragoman_pause(self, _: http.HTTPFlow) -> None:
        logging.info("others run now")


addons = [Pauses()]
