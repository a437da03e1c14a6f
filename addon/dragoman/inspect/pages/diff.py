"""How two bodies differ: frame by frame, or line by line where one of them is no stream; and the
page that shows it of both sides of a reply.

``-`` is what only the first has, ``+`` what only the second has; frames with the same text stand
side by side, or are counted where the bridge only reworded them.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from ...wire.json_codec import NotJson, loads
from ...wire.sse import Frame, is_event_stream
from ..exchange import Exchange
from ..parse.frames import Frames, NumberedFrame, head_and_tail
from .page import MAX_PRETTY, Line, Page, Style, count, joined, nothing, size
from .upstream import Margins, carried, text_line

MAX_COMPARED = 1_000
"""Frames, or lines, of each side that are compared after their common beginning: `difflib` takes
half a second where every other one differs, and four times as long for twice as many."""
MAX_LINES = 80_000
"""Frames or lines that are read: 8 MB, which are kept by default, have as many of 105 bytes, and
hosts' shortest events have more."""
_BEFORE = 40
"""Characters shown before the first difference of a long text."""

Margin = Callable[[NumberedFrame], str]


def diff_page(exchange: Exchange, *, full: bool = False) -> Page:
    """`full`: with the frames that the bridge only reworded."""
    upstream, client = exchange.upstream_reply, exchange.client_reply
    if not upstream and exchange.upstream_missing:
        return [nothing(exchange.upstream_missing, "the upstream's reply")]
    if not client and (exchange.client_missing or not upstream):
        return [nothing(exchange.client_missing, "the client's reply")]
    if upstream == client:
        return [Line(f"Both sides are the same: {size(len(client))}, untouched.", "highlight")]
    bodies, names = (upstream, client), ("upstream", "client")
    if all(map(is_event_stream, bodies)):
        margins = Margins(exchange, "upstream").of, Margins(exchange, "client").of
        sides = [head_and_tail(body, MAX_LINES) for body in bodies]
        sizes = [count(side.total, "frame") for side in sides]
        form = _Form("frame", 0, 300, margins, full or exchange.job != "bridge")
    else:
        sides = list(map(_lines, bodies))
        sizes = [size(len(body)) for body in bodies]
        form = _Form("line", 3, 2_000, (lambda _: "", lambda _: ""))
    start = _common(*([placed.frame.raw for placed in side.head] for side in sides))
    left, right = (side.head[start : start + MAX_COMPARED] for side in sides)
    title = joined(*map(" ".join, zip("-+", names, sizes, strict=True)))
    page = [Line(title, "highlight"), Line(), *form.equal(sides[0].head[:start])]
    page += form.differences(left, right)
    for name, side, compared in zip(names, sides, (left, right), strict=True):
        if number := side.total - start - len(compared):
            further = count(number, f"further {form.unit}")
            page.append(Line(f"… {further} of the {name} are not compared …", "key"))
    return page


def full_diff_page(exchange: Exchange) -> Page:
    return diff_page(exchange, full=True)


def _lines(body: bytes) -> Frames:
    """Lines as frames: of JSON with one member a line, else of the text as it is."""
    text = body.decode("utf-8", "replace")
    if len(body) <= MAX_PRETTY:
        with suppress(NotJson):
            text = json.dumps(loads(body), indent=2, ensure_ascii=False)
    text = text.replace("\r", "\\r")
    lines = text.encode("utf-8", "backslashreplace").split(b"\n")
    head = [NumberedFrame(at, 0, Frame(line)) for at, line in enumerate(lines[:MAX_LINES], 1)]
    return Frames(head, [], len(lines) - len(head))


def _common(old: Sequence[object], new: Sequence[object]) -> int:
    """The length of the beginning that both have."""
    sizes = range(min(len(old), len(new)))
    return bisect_left(sizes, True, key=lambda size: old[: size + 1] != new[: size + 1])


@dataclass(frozen=True, slots=True)
class _Form:
    """How frames, or lines, are shown."""

    unit: str
    context: int
    """Equal ones that are shown before and after one that differs."""
    limit: int
    """Characters of one that are shown."""
    margins: tuple[Margin, Margin]
    """What stands before those of each side."""
    reworded: bool = True
    """Whether to show frames with the same text in other words."""

    def differences(self, left: list[NumberedFrame], right: list[NumberedFrame]) -> Page:
        """Frames of both sides, those with the same text side by side; what the second has before
        one of its own comes after the first's."""
        page: Page = []
        waiting: Page = []
        matcher = SequenceMatcher(None, [_key(x) for x in left], [_key(x) for x in right])
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag != "equal":
                old, new = self._signed(left[a:b], right[c:d])
                page += old
                waiting += new
                continue
            equals = zip(left[a:b], right[c:d], strict=True)
            for same, run in groupby(equals, lambda pair: pair[0].frame.raw == pair[1].frame.raw):
                if same or not self.reworded:
                    ones = [one for one, _ in run]
                    page += [*waiting, *self.equal(ones, "identical" if same else "reworded")]
                    waiting = []
                    continue
                for one, other in run:
                    old, new = self._signed([one], [other])
                    page += [*old, *waiting, *new]
                    waiting = []
        return page + waiting

    def _signed(self, olds: list[NumberedFrame], news: list[NumberedFrame]) -> tuple[Page, Page]:
        """Two texts that differ only in what would not be shown begin shortly before that."""
        begins = [0] * max(len(olds), len(news))
        if len(olds) == len(news):
            firsts = [_common(_text(a), _text(b)) for a, b in zip(olds, news, strict=True)]
            begins = [at - _BEFORE if at > self.limit - _BEFORE else 0 for at in firsts]

        def lines(sign: str, style: Style, margin: Margin, ones: list[NumberedFrame]) -> Page:
            shown = zip(ones, begins, strict=False)
            return [Line(f"{sign} {margin(x)}{self._cut(x, at)}", style) for x, at in shown]

        of_left, of_right = self.margins
        return lines("-", "error", of_left, olds), lines("+", "header", of_right, news)

    def _cut(self, placed: NumberedFrame, begin: int = 0) -> str:
        return ("…" if begin else "") + text_line(_text(placed)[begin:], self.limit)

    def equal(self, equals: list[NumberedFrame], how: str = "identical") -> Page:
        """Counted, but for the context."""
        counted = len(equals) - 2 * self.context
        if counted > 0:
            equals = [*equals[: self.context], *equals[self.context + counted :]]
        page = [Line(f"  {self._cut(each)}") for each in equals]
        if counted > 0:
            phrase = count(counted, f"{how} {self.unit}")
            page.insert(self.context, Line(f"  … {phrase} …", "key"))
        return page


def _key(placed: NumberedFrame) -> bytes | str:
    return carried(placed.value) or placed.frame.raw


def _text(placed: NumberedFrame) -> str:
    """In one line, without the name of the event if its data has it as well."""
    raw = placed.frame.raw.strip(b"\r\n")
    event, _, rest = raw.partition(b"\n")
    if event.startswith(b"event:") and b'"%s"' % event[6:].strip() in rest:
        raw = rest
    return raw.replace(b"\n", b" ").decode("utf-8", "replace")
