"""The views of watched flows in mitmproxy and mitmweb: each a page of `inspect.pages`. mitmproxy 11
and 12 want views of different kinds, so there is an adapter for each."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from mitmproxy import contentviews, ctx, http
from mitmproxy.flow import Flow

from ...inspect.exchange import Exchange
from ...inspect.pages.page import WIDTH, Line, Page, stats_page
from ...inspect.stats import Stats, rows
from .recorder import exchange_of, is_watched

logger = logging.getLogger(__name__)

PRIORITY = 10.0
"""Above that of mitmproxy's own views, which is at most 2."""


@dataclass(frozen=True, slots=True)
class _View:
    """A view for mitmproxy 12 and later: its protocol `Contentview`."""

    name: str
    page: Callable[[Exchange], Page]
    shown_for: Literal["request", "response", ""] = ""
    """The message for which it is the default."""
    syntax_highlight: str = "none"

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
        """-1 where it is not the default."""
        if not (self.shown_for and isinstance(flow, http.HTTPFlow) and is_watched(flow)):
            return -1.0
        shown = flow.request if self.shown_for == "request" else flow.response
        return PRIORITY if message is not None and message is shown else -1.0

    def prettify(self, data: bytes, metadata: Any) -> str:  # noqa: ARG002
        """The page; `metadata` names the flow."""
        # mitmweb gives an empty line no height.
        return "\n".join(line.text or " " for line in self.lines(metadata.flow))

    def render_priority(self, data: bytes, metadata: Any) -> float:  # noqa: ARG002
        return self.priority(metadata.flow, metadata.http_message)

    def __lt__(self, other: Any) -> bool:
        return bool(self.name < other.name)


def _width() -> int:
    """The characters of a line: those of the console's window.  mitmweb does not say how wide its
    window is, and does not wrap."""
    screen: Any = getattr(ctx.master, "ui", None)
    columns: int = screen.get_cols_rows()[0] if screen is not None else WIDTH
    return columns


def _lazy(name: str, function: str, *, has_texts: bool = False) -> Callable[[Exchange], Page]:
    """A page of `inspect.pages`, imported when it is first shown: mitmdump starts sooner
    without.  `has_texts`: texts on it are wrapped."""

    def page(exchange: Exchange) -> Page:
        module = importlib.import_module(f"....inspect.pages.{name}", __name__)
        more = (_width(),) if has_texts else ()
        shown: Page = getattr(module, function)(exchange, *more)
        return shown

    return page


VIEWS = (
    _View("LLM stream", _lazy("turn", "turn_page", has_texts=True), "response"),
    _View("LLM upstream", _lazy("upstream", "upstream_page")),
    _View("LLM diff", _lazy("diff", "diff_page")),
    _View("LLM full diff", _lazy("diff", "full_diff_page")),
    _View("LLM request", _lazy("request", "request_page"), "request"),
)


def install(stats: Stats) -> None:
    """Add the views, in place of those of an earlier load of the script."""
    views: Any = contentviews  # of either generation
    for view in (*VIEWS, _View("LLM statistics", lambda _: stats_page(rows(stats.snapshot())))):
        if hasattr(views, "registry"):
            views.add(view)
            continue
        earlier = views.get(view.name)
        if earlier is not None:
            views.remove(earlier)
        views.add(_for_mitmproxy_11(view))


def _for_mitmproxy_11(view: _View) -> Any:
    class View(contentviews.base.View):
        name = view.name

        def __call__(self, data: bytes, **known: Any) -> contentviews.base.TViewResult:  # noqa: ARG002
            lines = view.lines(known.get("flow"))
            return view.name, ([(line.style, line.text)] for line in lines)

        def render_priority(self, data: bytes, **known: Any) -> float:  # noqa: ARG002
            return view.priority(known.get("flow"), known.get("http_message"))

    return View()
