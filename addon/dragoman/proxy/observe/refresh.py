"""Shows a running stream while it grows. mitmproxy's views show a flow again after an `UpdateHook`:
at most twice a second for a flow, by a timer and not by its events, and only where there is a view
(mitmdump has none)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mitmproxy import ctx, http
from mitmproxy.hooks import UpdateHook

INTERVAL = 0.5
"""Seconds between two showings of the same flow."""


def watched_by_somebody() -> bool:
    """Whether this mitmproxy has a view."""
    return ctx.master.addons.get("view") is not None


def show(flow: http.HTTPFlow) -> None:
    ctx.master.addons.trigger(UpdateHook([flow]))


class FlowRefresher:
    def __init__(self, refresh: Callable[[], None]) -> None:
        """`refresh` brings the flow up to date and shows it."""
        self._refresh = refresh
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0

    def grew(self) -> None:
        """To be called for every piece of the body."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            delay = max(0.0, self._next - loop.time())
            self._timer = loop.call_later(delay, self._show)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _show(self) -> None:
        self._timer = None
        self._next = asyncio.get_running_loop().time() + INTERVAL
        self._refresh()
