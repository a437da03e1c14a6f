"""The views of watched flows in mitmproxy and mitmweb: each a page of `inspect.pages`. mitmproxy 11
and 12 want views of different kinds, so there is an adapter for each."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mitmproxy import contentviews, http
from mitmproxy.flow import Flow

from ...inspect.exchange import Exchange
from ...inspect.pages.page import Line, Page, stats_page
from ...inspect.stats import Stats
from .recorder import exchange_of, is_watched

logger = logging.getLogger(__name__)

PRIORITY = 10.0
"""Above that of mitmproxy's own views, which is at most 2."""


@dataclass(frozen=True, slots=True)
class _Look:
    name: str
    page: Callable[[Exchange], Page]
    shown_for: Literal["request", "response", ""] = ""
    """The message for which it is the default."""

    def lines(self, flow: Flow | None) -> Page:
        """The page; never raises, as a fault here is no reason to show nothing."""
        try:
            exchange = exchange_of(flow) if flow is not None else None
            if exchange is None:
                return [Line("Dragoman has no record of this flow.", "error")]
            return self.page(exchange)
        except Exception:
            logger.exception("%s cannot be shown", self.name)
            return [Line("This flow cannot be shown so: the log says why.", "error")]

    def priority(self, flow: Flow | None, message: object) -> float:
        """-1 where it is not to be chosen by itself."""
        if not (self.shown_for and isinstance(flow, http.HTTPFlow) and is_watched(flow)):
            return -1.0
        shown = flow.request if self.shown_for == "request" else flow.response
        return PRIORITY if message is not None and message is shown else -1.0


def _late(name: str, function: str) -> Callable[[Exchange], Page]:
    """A page of `inspect.pages`, imported when it is first shown: mitmdump starts sooner
    without."""

    def page(exchange: Exchange) -> Page:
        module = importlib.import_module(f"....inspect.pages.{name}", __name__)
        shown: Page = getattr(module, function)(exchange)
        return shown

    return page


LOOKS = (
    _Look("LLM stream", _late("turn", "turn_page"), "response"),
    _Look("LLM upstream", _late("upstream", "upstream_page")),
    _Look("LLM diff", _late("diff", "diff_page")),
    _Look("LLM full diff", _late("diff", "full_diff_page")),
    _Look("LLM request", _late("request", "request_page"), "request"),
)


def statistics(stats: Stats) -> _Look:
    return _Look("LLM statistics", lambda _: stats_page(stats.totals().rows()))


def install(*more: _Look) -> None:
    """Add the views, in place of those of an earlier load of the script."""
    views: Any = contentviews  # of either generation
    for look in (*LOOKS, *more):
        if hasattr(views, "registry"):
            views.add(_Prettifying(look))
            continue
        earlier = views.get(look.name)
        if earlier is not None:
            views.remove(earlier)
        views.add(_styling(look))


class _Prettifying:
    """The view for mitmproxy 12 and later: its protocol `Contentview`."""

    syntax_highlight = "none"

    def __init__(self, look: _Look) -> None:
        self._look = look
        self.name = look.name

    def prettify(self, data: bytes, metadata: Any) -> str:  # noqa: ARG002
        """The page; `metadata` names the flow."""
        # mitmweb gives an empty line no height.
        return "\n".join(line.text or " " for line in self._look.lines(metadata.flow))

    def render_priority(self, data: bytes, metadata: Any) -> float:  # noqa: ARG002
        return self._look.priority(metadata.flow, metadata.http_message)

    def __lt__(self, other: Any) -> bool:
        return bool(self.name < other.name)


def _styling(look: _Look) -> Any:
    """The view for mitmproxy 11."""

    class Styling(contentviews.base.View):
        name = look.name

        def __call__(self, data: bytes, **known: Any) -> contentviews.base.TViewResult:  # noqa: ARG002
            lines = look.lines(known.get("flow"))
            return look.name, ([(line.style, line.text)] for line in lines)

        def render_priority(self, data: bytes, **known: Any) -> float:  # noqa: ARG002
            return look.priority(known.get("flow"), known.get("http_message"))

    return Styling()
