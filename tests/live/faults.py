"""A script for mitmdump, loaded behind the addon: faults on demand.

The request header `x-fault: dragoman.wire.sse:FrameSplitter.feed 3` makes the third call of
that function raise while this flow runs.  When a flow ends, the log says whether it did.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

from mitmproxy import http

logger = logging.getLogger(__name__)


class InjectedFaultError(Exception):
    """Something that nobody foresaw."""


class Faults:
    """One fault at a time: tests ask one request after the other."""

    def __init__(self) -> None:
        self._calls_left = 0
        self._restore: Callable[[], None] = lambda: None

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        self._restore()
        fault = flow.request.headers.pop("x-fault", "")
        if fault:
            target, _, nth = fault.partition(" ")
            self._calls_left = int(nth)
            self._patch(target)

    def response(self, flow: http.HTTPFlow) -> None:
        self._tell(flow)

    def error(self, flow: http.HTTPFlow) -> None:
        self._tell(flow)

    def _tell(self, flow: http.HTTPFlow) -> None:
        fired = "fired" if self._calls_left <= 0 else "not reached"
        logger.info("%s: fault %s", flow.request.path, fired)

    def _patch(self, target: str) -> None:
        module, _, path = target.partition(":")
        *owners, name = path.split(".")
        owner: Any = functools.reduce(getattr, owners, importlib.import_module(module))
        original = getattr(owner, name)

        @functools.wraps(original)
        def faulty(*arguments: Any, **keywords: Any) -> Any:
            self._calls_left -= 1
            if self._calls_left == 0:
                raise InjectedFaultError(target)
            return original(*arguments, **keywords)

        setattr(owner, name, faulty)
        self._restore = lambda: setattr(owner, name, original)


addons = [Faults()]
