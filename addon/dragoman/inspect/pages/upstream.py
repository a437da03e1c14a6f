"""The page of what the upstream sent: numbered frames with their times and a summary; a whole reply
as its text."""

from __future__ import annotations

import re

from ...wire.sse import is_event_stream
from ..exchange import Exchange
from ..parse.frames import NumberedFrame, gap_in, head_and_tail
from .frame_text import Margins, line_text
from .page import Line, Page, count, joined, nothing, pretty, size

MAX_SHOWN = 8_000
MAX_PAGE = 4 * 1024 * 1024
_EOL = re.compile(rb"\r\n|\n|\r")


def upstream_page(exchange: Exchange) -> Page:
    body, missing = exchange.upstream_reply, exchange.upstream_missing
    if not body:
        return [nothing(missing, "the upstream's reply")]
    if not is_event_stream(body):
        text = body.decode("utf-8", "replace")
        title = joined("The upstream's reply, not streamed", size(len(body) + missing))
        return [Line(title, "highlight"), Line(), *pretty(text), *_not_kept(body, missing)]
    looked = head_and_tail(body, MAX_SHOWN, MAX_PAGE)
    title = joined("The upstream's frames", count(looked.total, "frame"), size(len(body) + missing))
    page = [Line(title, "highlight"), Line()]
    margins = Margins(exchange, "upstream")
    for placed in looked.head:
        page += _frame(placed, margins)
    if looked.skipped:
        page.append(Line(f"… {count(looked.skipped, 'frame')} are not shown here …", "key"))
    for placed in looked.tail:
        page += _frame(placed, margins)
    return page + _not_kept(body, missing)


def _frame(placed: NumberedFrame, margins: Margins) -> Page:
    margin = f" {margins.of(placed)}"
    first, *others = [line_text(line) for line in _EOL.split(placed.frame.raw) if line] or [""]
    return [Line(margin + first), *(Line(" " * len(margin) + line) for line in others)]


def _not_kept(body: bytes, missing: int) -> Page:
    """What is missing at the end."""
    if not missing or gap_in(body, missing)[0] <= len(body):
        return []
    return [Line(f"… {size(missing)} that came then were not kept …", "key")]
