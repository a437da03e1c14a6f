"""The page of both sides of a reply, frame by frame.

``-`` is a frame only of the upstream, ``+`` one only of the client; frames with the same text
stand side by side, or are counted where the bridge only reworded them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import groupby

from ...wire.json_codec import NotJson, loads
from ...wire.sse import is_event_stream
from ..exchange import Exchange
from ..parse.frames import NumberedFrame, head_and_tail
from .page import Line, Page, Style, count, joined, nothing, size
from .upstream import Margins, carried, line_text, text_line

MAX_COMPARED = 1_000
"""Frames, or lines, of each side that are compared after their common beginning: `difflib` takes
half a second where every other one differs, and four times as long for twice as many."""
MAX_LINES = 40_000
MAX_JSON = 1024 * 1024
MAX_LINE = 300
"""Characters of a frame that are shown."""
MAX_TEXT_LINE = 2_000
_CONTEXT = 3
MAX_PAGE_LINES = 12_000


def diff_page(exchange: Exchange) -> Page:
    """Frames, or lines of a reply that is not streamed."""
    return _page(exchange, reworded=exchange.job != "bridge")


def full_diff_page(exchange: Exchange) -> Page:
    """With the frames that the bridge only reworded."""
    return _page(exchange, reworded=True)


def _page(exchange: Exchange, *, reworded: bool) -> Page:
    upstream, client = exchange.upstream_reply, exchange.client_reply
    if not upstream and exchange.upstream_missing:
        return [nothing(exchange.upstream_missing, "the upstream's reply")]
    if not client and (exchange.client_missing or not upstream):
        return [nothing(exchange.client_missing, "the client's reply")]
    if upstream == client:
        return [Line(f"Both sides are the same: {size(len(client))}, untouched.", "highlight")]
    if is_event_stream(upstream) and is_event_stream(client):
        page = _FrameDiff(exchange, reworded=reworded).page()
    else:
        page = _lines(upstream, client)
    if len(page) > MAX_PAGE_LINES:
        left_out = count(len(page) - MAX_PAGE_LINES, "further line")
        page = [*page[:MAX_PAGE_LINES], Line(f"… {left_out} …", "key")]
    return page


# Streams.


class _FrameDiff:
    def __init__(self, exchange: Exchange, *, reworded: bool) -> None:
        """`reworded`: whether to show frames with the same text in other words."""
        self._exchange = exchange
        self._reworded = reworded
        self._margins = {"-": Margins(exchange, "upstream"), "+": Margins(exchange, "client")}

    def page(self) -> Page:
        upstream, client = self._exchange.upstream_reply, self._exchange.client_reply
        looked = head_and_tail(upstream), head_and_tail(client)
        heads = looked[0].head, looked[1].head
        title = joined(
            "- upstream " + count(looked[0].total, "frame"),
            "+ client " + count(looked[1].total, "frame"),
        )
        start = _common(*([placed.frame.raw for placed in head] for head in heads))
        left, right = (head[start : start + MAX_COMPARED] for head in heads)
        page = [Line(title, "highlight"), Line(), *_same(start), *self._compared(left, right)]
        for side, found, compared in zip(
            ("upstream", "client"), looked, (left, right), strict=True
        ):
            page += _not_compared(found.total - start - len(compared), "frame", side)
        return page

    def _compared(self, left: list[NumberedFrame], right: list[NumberedFrame]) -> Page:
        """Frames of both sides, those with the same text side by side; what the client received
        before one of its own comes after the upstream's."""
        page: Page = []
        received: Page = []
        matcher = SequenceMatcher(None, [_key(x) for x in left], [_key(x) for x in right])
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                page += [self._frame("-", x) for x in left[a:b]]
                received += [self._frame("+", x) for x in right[c:d]]
                continue
            equals = zip(left[a:b], right[c:d], strict=True)
            for same, run in groupby(equals, lambda pair: pair[0].frame.raw == pair[1].frame.raw):
                pairs = list(run)
                if same or not self._reworded:
                    page += [*received, *_same(len(pairs), "identical" if same else "reworded")]
                    received = []
                    continue
                for one, other in pairs:
                    page += [self._frame("-", one), *received, self._frame("+", other)]
                    received = []
        return page + received

    def _frame(self, sign: str, placed: NumberedFrame) -> Line:
        raw = placed.frame.raw.strip(b"\r\n")
        if raw.startswith(b"event:"):
            raw = raw.partition(b"\n")[2] or raw
        text = line_text(raw.replace(b"\n", b" "), MAX_LINE)
        line = f"{sign} {self._margins[sign].of(placed)}{text}"
        return Line(line, "error" if sign == "-" else "header")


def _common(left: Sequence[object], right: Sequence[object]) -> int:
    pairs = zip(left, right, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _same(number: int, how: str = "identical") -> Page:
    return [Line(f"  … {count(number, f'{how} frame')} …", "key")] if number else []


def _not_compared(number: int, what: str, side: str) -> Page:
    further = count(number, f"further {what}")
    return [Line(f"… {further} of the {side} are not compared …", "key")] if number else []


def _key(placed: NumberedFrame) -> bytes | str:
    return carried(placed.value) or placed.frame.raw


# What is not streamed, or only on one side.


def _lines(upstream: bytes, client: bytes) -> Page:
    laid_out = _laid_out(upstream), _laid_out(client)
    title = joined(f"- upstream {size(len(upstream))}", f"+ client {size(len(client))}")
    start = _common(*laid_out)
    left, right = (lines[start : start + MAX_COMPARED] for lines in laid_out)
    page = [Line(title, "highlight"), Line(), *_context(laid_out[0][:start])]
    for tag, a, b, c, d in SequenceMatcher(None, left, right).get_opcodes():
        if tag == "equal":
            page += _context(left[a:b])
        else:
            page += [_line("- ", text, "error") for text in left[a:b]]
            page += [_line("+ ", text, "header") for text in right[c:d]]
    for side, lines in zip(("upstream", "client"), laid_out, strict=True):
        page += _not_compared(max(0, len(lines) - start - MAX_COMPARED), "line", side)
    return page


def _context(lines: list[str]) -> Page:
    if len(lines) <= 2 * _CONTEXT:
        return [_line("  ", text) for text in lines]
    elided = Line(f"  … {count(len(lines) - 2 * _CONTEXT, 'identical line')} …", "key")
    before, after = lines[:_CONTEXT], lines[-_CONTEXT:]
    return [*(_line("  ", x) for x in before), elided, *(_line("  ", x) for x in after)]


def _line(sign: str, text: str, style: Style = "text") -> Line:
    return Line(sign + text_line(text, MAX_TEXT_LINE), style)


def _laid_out(body: bytes) -> list[str]:
    """JSON with one member a line, else as it is."""
    text = body.decode("utf-8", "replace")
    if len(body) <= MAX_JSON:
        with suppress(NotJson):
            text = json.dumps(loads(body), indent=2, ensure_ascii=False)
    return text.split("\n")[:MAX_LINES]
