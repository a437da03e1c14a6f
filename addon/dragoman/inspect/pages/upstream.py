"""The page of what the upstream sent: numbered frames with their times and a summary; a whole reply
as its text.  `diff` lays out frames in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from ...chat.delta import is_chunk
from ...chat.reader import ChatReader
from ...messages import names as messages
from ...reply.words import Arguments, CallBegin, Delta, Finish, Text
from ...responses import names as responses
from ...wire.json_codec import Json, string
from ...wire.sse import Document, is_event_stream
from ..exchange import Exchange, Side
from ..parse.frames import NumberedFrame, gap_in, head_and_tail
from .page import MAX_SHOWN, Line, Page, clean, count, joined, nothing, one_line, pretty, size

MAX_PAGE = 4 * 1024 * 1024
SUMMARY = 34
"""Characters of the summary: with number and time, it fits half of a window."""


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
    lines = (line.decode("utf-8", "replace") for line in placed.frame.raw.splitlines() if line)
    first, *others = [text_line(line, MAX_SHOWN) for line in lines] or [""]
    return [Line(margin + first), *(Line(" " * len(margin) + line) for line in others)]


def _not_kept(body: bytes, missing: int) -> Page:
    """What is missing at the end."""
    if not missing or gap_in(body, missing)[0] <= len(body):
        return []
    return [Line(f"… {size(missing)} that came then were not kept …", "key")]


class Margins:
    """What stands before the text of the frames of one side, with the times of their last bytes."""

    def __init__(self, exchange: Exchange, side: Side) -> None:
        if side == "upstream":
            body, missing = exchange.upstream_reply, exchange.upstream_missing
        else:
            body, missing = exchange.client_reply, exchange.client_missing
        self._timing, self._side = exchange.timing, side
        self._gap_end, self._shift = gap_in(body, missing)

    def of(self, placed: NumberedFrame) -> str:
        """The number of a frame, its time, and a summary in the width of its column."""
        end = placed.end + (self._shift if placed.end > self._gap_end else 0)
        at = self._timing.moment(end, self._side) if self._timing else None
        time = f"{at:.3f} s" if at is not None else ""
        value = placed.value
        summary = one_line(", ".join(_summary(value)) if isinstance(value, dict) else "", SUMMARY)
        return f"{placed.number:>5}{time:>10}  {summary:<{SUMMARY}}  "


def _summary(value: Json) -> Iterator[str]:
    if (kind := string(value.get("type"))) and not value.get("delta"):
        yield kind.removeprefix("response.")
    if (block := messages.block_begun(value)) and block.get("type") == messages.CALL:
        yield f"call {string(block.get('name'))}"
    words = _words(value)
    yield from (f"call {word.name}" for word in words if isinstance(word, CallBegin) and word.name)
    if text := carried(value):
        yield json.dumps(text[:SUMMARY], ensure_ascii=False)
    finishes = [string(word.reason) for word in words if isinstance(word, Finish)]
    for finish in filter(None, [*finishes, messages.stop_reason_in(value)]):
        yield f"finish {finish}"
    if isinstance(value.get("usage"), dict):
        yield "usage"


def carried(value: object) -> str:
    """The text of a chunk or an event: words, or arguments of calls."""
    if not isinstance(value, dict):
        return ""
    if text := responses.delta_in(value):
        return text
    if messages.is_event(value):
        return (messages.text_in(value) or ("", ""))[1] or messages.arguments_in(value)
    words = (word for word in _words(value) if isinstance(word, Text | CallBegin | Arguments))
    return "".join(word.text for word in words if not (isinstance(word, Text) and word.repeats))


def _words(value: Json) -> list[Delta]:
    """What a chunk says; nothing if it is no chunk."""
    if not is_chunk(value):
        return []
    reader, frame = ChatReader(), Document(value=value)
    more = reader.more(frame)
    return [reader.delta(*more)] if more is not None else reader.read(frame)


def text_line(text: str, limit: int) -> str:
    """The start of a text in one line."""
    more = f" … and {len(text) - limit:,} more" if len(text) > limit else ""
    return clean(text[:limit]).replace("\n", "\\n") + more
