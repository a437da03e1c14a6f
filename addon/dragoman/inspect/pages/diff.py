"""The page of both sides of a reply, frame by frame: what the upstream sent and what the
client received in its place.

``-`` is a frame only of the upstream, ``+`` one only of the client; each client frame
stands behind the upstream frame that caused it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

from ...wire import chat_delta
from ...wire.chat_calls import elements, read_delta
from ...wire.json_codec import NotJson, loads
from ...wire.responses import DELTAS
from ...wire.sse import is_event_stream
from ..align import Stretch, behind, stretches
from ..exchange import Exchange
from ..parse.frames import NumberedFrame, head_and_tail
from ..parse.values import Json, string
from .page import Line, Page, Style, clean, count, joined, nothing, one_line, size
from .upstream import line_text

MAX_COMPARED = 5_000
"""Frames of each side."""
MAX_LINES = 40_000
"""Of each side of a reply that is not streamed."""
MAX_JSON = 1024 * 1024
"""Bytes of a reply that is laid out."""
MAX_LINE = 300
"""Characters of a frame that are shown behind what it says."""
MAX_TEXT_LINE = 2_000
"""Characters of a line of a reply that is not streamed."""
_SAYS = 44
_CONTEXT = 3
MAX_PAGE_LINES = 12_000
_FIRST = ("response.created", "response.in_progress")


def diff_page(exchange: Exchange) -> Page:
    """What became of each frame, or of each line of a reply that is not streamed."""
    upstream, client = exchange.upstream_reply, exchange.client_reply
    if not upstream and exchange.upstream_missing:
        return [nothing(exchange.upstream_missing, "the upstream's reply")]
    if not client and (exchange.client_missing or not upstream):
        return [nothing(exchange.client_missing, "the client's reply")]
    if upstream == client:
        return [Line(f"Both sides are the same: {size(len(client))}, untouched.", "highlight")]
    if is_event_stream(upstream) and is_event_stream(client):
        page = _frames(upstream, client)
    else:
        page = _lines(upstream, client)
    if len(page) > MAX_PAGE_LINES:
        left_out = count(len(page) - MAX_PAGE_LINES, "further line")
        page = [*page[:MAX_PAGE_LINES], Line(f"… {left_out} …", "key")]
    return page


# Streams.


def _frames(upstream: bytes, client: bytes) -> Page:
    looked = head_and_tail(upstream, MAX_COMPARED), head_and_tail(client, MAX_COMPARED)
    left, right = looked[0].head, looked[1].head
    title = joined(
        "- upstream " + count(looked[0].total, "frame"),
        "+ client " + count(looked[1].total, "frame"),
    )
    page = [Line(title, "highlight"), Line()]
    for stretch in stretches([x.frame.raw for x in left], [x.frame.raw for x in right]):
        if stretch.same:
            page.append(_same(stretch))
        else:
            page += _different(left[stretch.a : stretch.b], right[stretch.c : stretch.d])
    for side, found in zip(("upstream", "client"), looked, strict=True):
        if found.skipped or found.tail:
            rest = count(found.skipped + len(found.tail), "further frame")
            page.append(Line(f"… {rest} of the {side} are not compared …", "key"))
    return page


def _same(stretch: Stretch) -> Line:
    number = stretch.b - stretch.a
    return Line(f"  … {count(number, 'identical frame')} …", "key")


def _different(left: list[NumberedFrame], right: list[NumberedFrame]) -> Page:
    """Frames of both sides, each of the client's behind the upstream's that it came of."""
    if not left or not right:
        return [*(_frame("-", x) for x in left), *(_frame("+", x) for x in right)]
    values = [placed.value for placed in right]
    places = behind([carried(x.value) for x in left], [carried(value) for value in values])
    page: Page = []
    done = 0
    for placed, value, place in zip(right, values, places, strict=True):
        if not (isinstance(value, dict) and value.get("type") in _FIRST):
            page += [_frame("-", x) for x in left[done:place]]
            done = max(done, place)
        page.append(_frame("+", placed))
    return page + [_frame("-", x) for x in left[done:]]


def _frame(sign: str, placed: NumberedFrame) -> Line:
    """A frame: its number, what it says in a few words, and its first characters."""
    raw = placed.frame.raw.strip(b"\r\n")
    if raw.startswith(b"event:"):
        raw = raw.partition(b"\n")[2] or raw
    value = placed.value
    says = one_line(", ".join(_says(value)) if isinstance(value, dict) else "", _SAYS)
    text = line_text(raw.replace(b"\n", b" "), MAX_LINE)
    line = f"{sign} {placed.number:>5}  {says:<{_SAYS}}  {text}"
    return Line(line, "error" if sign == "-" else "header")


def _says(value: Json) -> Iterator[str]:
    """What a chunk or an event says, phrase by phrase."""
    if (kind := string(value.get("type"))) and not value.get("delta"):
        yield kind.removeprefix("response.")
    choices = chat_delta.choices(value)
    for choice in choices:
        calls = map(read_delta, elements(choice.said))
        yield from (f"call {call.name}" for call in calls if call and call.name)
    if text := carried(value):
        yield json.dumps(text[:_SAYS], ensure_ascii=False)
    for choice in choices:
        if finish := string(choice.fields.get("finish_reason")):
            yield f"finish {finish}"
    if isinstance(value.get("usage"), dict):
        yield "usage"


def carried(value: object) -> str:
    """The text that a chunk or an event adds: words, or arguments of calls."""
    if not isinstance(value, dict):
        return ""
    if string(value.get("type")) in DELTAS:
        return string(value.get("delta"))
    return "".join(_carried_by_delta(choice.said) for choice in chat_delta.choices(value))


def _carried_by_delta(delta: Json) -> str:
    words = "".join(text for _, text in chat_delta.texts(delta))
    calls = map(read_delta, elements(delta))
    return words + "".join(call.arguments for call in calls if call)


# What is not streamed, or only on one side.


def _lines(upstream: bytes, client: bytes) -> Page:
    left, right = _laid_out(upstream), _laid_out(client)
    title = joined(f"- upstream {size(len(upstream))}", f"+ client {size(len(client))}")
    page = [Line(title, "highlight"), Line()]
    for stretch in stretches(left, right):
        if stretch.same:
            page += _context(left[stretch.a : stretch.b])
        else:
            page += [_line("- ", text, "error") for text in left[stretch.a : stretch.b]]
            page += [_line("+ ", text, "header") for text in right[stretch.c : stretch.d]]
    return page


def _context(lines: list[str]) -> Page:
    if len(lines) <= 2 * _CONTEXT:
        return [_line("  ", text) for text in lines]
    elided = Line(f"  … {count(len(lines) - 2 * _CONTEXT, 'identical line')} …", "key")
    before, after = lines[:_CONTEXT], lines[-_CONTEXT:]
    return [*(_line("  ", x) for x in before), elided, *(_line("  ", x) for x in after)]


def _line(sign: str, text: str, style: Style = "text") -> Line:
    more = f" … and {len(text) - MAX_TEXT_LINE:,} more" if len(text) > MAX_TEXT_LINE else ""
    return Line(sign + clean(text[:MAX_TEXT_LINE]).replace("\n", "\\n") + more, style)


def _laid_out(body: bytes) -> list[str]:
    """A body as lines: JSON with one member a line, else as it is."""
    text = body.decode("utf-8", "replace")
    if len(body) <= MAX_JSON:
        with suppress(NotJson, RecursionError, ValueError):
            text = json.dumps(loads(body), indent=2, ensure_ascii=False)
    return text.split("\n")[:MAX_LINES]
