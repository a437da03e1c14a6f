"""The page of what the upstream sent: numbered frames with their times and a summary; a whole reply
as its text."""

from __future__ import annotations

import re

from ...wire.sse import is_event_stream
from ..exchange import Exchange
from ..parse.frames import NumberedFrame, head_and_tail, moment
from ..parse.gap import gap_in
from .frame_text import SAYS, line_text, short
from .page import Line, Page, count, joined, nothing, pretty, size

MAX_SHOWN = 8_000
MAX_PAGE = 4 * 1024 * 1024
_EOL = re.compile(rb"\r\n|\n|\r")
_MARGIN = 18 + SAYS + 2


def upstream_page(exchange: Exchange) -> Page:
    body, missing = exchange.upstream_reply, exchange.upstream_missing
    if not body:
        return [nothing(missing, "the upstream's reply")]
    if not is_event_stream(body):
        text = body.decode("utf-8", "replace")
        title = joined("The upstream's reply, not streamed", size(len(body) + missing))
        return [Line(title, "highlight"), Line(), *pretty(text), *_not_kept(body, missing)]
    looked = head_and_tail(body, MAX_SHOWN)
    head = _within(looked.head)
    skipped = looked.skipped + len(looked.head) - len(head)
    title = joined("The upstream's frames", count(looked.total, "frame"), size(len(body) + missing))
    page = [Line(title, "highlight"), Line()]
    gap_ends, shift = gap_in(body, missing)
    for placed in head:
        page += _frame(placed, exchange, shift if placed.end > gap_ends else 0)
    if skipped:
        page.append(Line(f"… {count(skipped, 'frame')} are not shown here …", "key"))
    for placed in looked.tail:
        page += _frame(placed, exchange, shift if placed.end > gap_ends else 0)
    return page + _not_kept(body, missing)


def _within(placed: list[NumberedFrame]) -> list[NumberedFrame]:
    kept, total = 0, 0
    for each in placed:
        if total > MAX_PAGE:
            break
        total += len(each.frame.raw)
        kept += 1
    return placed[:kept]


def _frame(placed: NumberedFrame, exchange: Exchange, shift: int) -> Page:
    """The frame's lines; the first with its number and the time of its last byte, which stood
    `shift` bytes further in the whole."""
    at = moment(exchange.timing, placed.end + shift, "upstream")
    time = f"{at:.3f} s" if at is not None else ""
    lines = [line_text(line) for line in _EOL.split(placed.frame.raw) if line] or [""]
    says = short(placed.value)
    margins = [f"{placed.number:>6}{time:>10}  {says}  ", *[" " * _MARGIN] * (len(lines) - 1)]
    return [Line(m + line) for m, line in zip(margins, lines, strict=True)]


def _not_kept(body: bytes, missing: int) -> Page:
    """What is missing at the end."""
    if not missing or gap_in(body, missing)[0] <= len(body):
        return []
    return [Line(f"… {size(missing)} that came then were not kept …", "key")]
