"""Runs a recorded flow again, offline, through the code as it is now, and compares the result with
what the client got.

Times and ids made of them or at random are made equal first; so any difference left is a change
of Dragoman.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from ..bridge.cure.chat_request import curing
from ..bridge.model_families import family_of
from ..bridge.native.reply_repair import (
    Tools,
    is_responses_request,
    reading_tools,
    repairing_whole,
    stage_for,
)
from ..bridge.reply.converter import ReplyConverter
from ..bridge.reply.pipeline import BridgePipeline, answering
from ..bridge.request.convert import Conversion, converting, without_stored
from ..bridge.responses.dialects import DIALECTS, OPENAI
from ..notes import Evidence, printable
from ..repair.chat_stream import ChatStreamRepair
from ..repair.declared_tools import DeclaredTools
from ..repair.formats import AUTO, FormatChoice
from ..repair.pending import Policy
from ..repair.pipeline import RepairPipeline
from ..wire.errors import Refused
from ..wire.json_codec import NotJson, dumps, loads
from ..wire.responses import ID_PREFIXES
from ..wire.slices import drained
from ..wire.sse import HEARTBEAT, FrameSplitter, is_event_stream, joined
from ..wire.usage import estimating
from .exchange import Exchange
from .fixture import IncompleteError, require_whole

NOW = 1_700_000_000
MAX_LINES = 60
MAX_COMPARED = 400
MAX_LINE = 200
_BEFORE = 40
"""Characters shown before the first difference."""

# Made of the time or at random, where our own code makes it.
_PASSING = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rb"\bcall_(\d+)_\d{9,11}\b", rb"call_\1_<time>"),
        (rb"\b(resp|call|%s)_[0-9a-f]{32}" % "|".join(ID_PREFIXES.values()).encode(), rb"\1_<id>"),
        (rb'"sequence_number":\d+,?', b""),
        (rb'"(created_at|completed_at)": ?\d+', rb'"\1":"<time>"'),
    )
)

_HEARTBEAT = re.compile(
    rb'event: (ping|response\.in_progress)\n|event: response\.\w+\.delta\n.*"delta":""'
)


@dataclass(frozen=True, slots=True)
class Replay:
    replies: tuple[bytes, ...]
    """For the client. Of a stream that broke off: if the upstream did, and if the client did; of
    one that ended early: if it was known as a chat completion, and if not."""
    request: bytes | None
    """What the upstream would get; None if a part of it was in a store."""


def replay(exchange: Exchange) -> Replay:
    """Raises `IncompleteError`."""
    require_whole(exchange)
    reply = exchange.upstream_reply
    if exchange.job == "bridge":
        return _bridged(exchange)
    # What was remembered when a request was cured is not at hand.
    request = exchange.upstream_request
    if exchange.job == "watch" or exchange.status != 200:
        return Replay((reply,), request)
    asked = _value(request)
    tools = drained(reading_tools(asked, native=is_responses_request(asked)))
    names = None
    if (client := _value(exchange.client_request)) != asked and isinstance(client, dict):
        names = drained(curing(client, family_of(str(client.get("model"))))).tool_names
        tools = names.known(tools)
    if is_event_stream(reply):
        replies = _repaired(exchange, tools)
    else:
        replies = (drained(repairing_whole(reply, tools, _policy(exchange), Evidence(), NOW)),)
    if names is not None:
        replies = tuple(map(names.given_in, replies))
    return Replay(replies, request)


def _value(body: bytes) -> object:
    try:
        value: object = loads(body)
    except NotJson:
        return None
    return value


def _policy(exchange: Exchange) -> Policy:
    options = exchange.options
    text, finish = options.get("dragoman_kimi_text"), options.get("dragoman_finish_reason")
    return Policy(
        text="field" if text == "field" else "content",
        finish="keep" if finish == "keep" else "tool_calls",
        formats=FormatChoice.of(options.get("dragoman_formats", "auto")) or AUTO,
    )


def _repaired(exchange: Exchange, tools: Tools) -> tuple[bytes, ...]:
    pipeline = _repairing(exchange, tools, has_end=b'"choices"' in exchange.upstream_reply)
    begun = pipeline.feed(exchange.upstream_reply)
    if exchange.error:
        return begun + pipeline.break_off(exchange.error), begun
    ended = begun + pipeline.close()
    if not pipeline.error:
        return (ended,)
    # Only the stream of a chat completion has to have an end of its own.
    other = _repairing(exchange, tools, has_end=False)
    return ended, other.feed(exchange.upstream_reply) + other.close()


def _repairing(exchange: Exchange, tools: Tools, *, has_end: bool) -> RepairPipeline:
    repair = stage_for(tools, _policy(exchange), Evidence(), NOW)
    # What did not break off was recorded where a reply cannot be broken off.
    return RepairPipeline(repair, Evidence(), has_end=has_end, breaks=bool(exchange.error))


def _bridged(exchange: Exchange) -> Replay:
    if exchange.client_path.partition("?")[0].endswith("/submit_tool_outputs"):
        raise IncompleteError("what it resumed is in the store alone")
    unsupported = exchange.options.get("dragoman_unsupported_tools")
    evidence = Evidence()
    asked, sent = _value(exchange.client_request), _value(exchange.upstream_request)
    own = without_stored(asked)
    try:
        work = converting(
            own,
            unsupported="error" if unsupported == "error" else "drop",
            evidence=evidence,
            earlier=(),
        )
        conversion = drained(work)
    except Refused as refused:
        return Replay((refused.body,), b"")
    stored = own != asked or conversion.turn.request.get("previous_response_id")
    if stored and isinstance(sent, dict):
        turn = replace(conversion.turn, estimate=drained(estimating(sent)))
        conversion = Conversion(sent, turn)
    replies = _Bridge(exchange, conversion, evidence).replies()
    return Replay(replies, None if stored else dumps(conversion.chat))


class _Bridge:
    def __init__(self, exchange: Exchange, conversion: Conversion, evidence: Evidence) -> None:
        self._exchange = exchange
        self._turn = conversion.turn
        self._evidence = evidence
        self._tools = DeclaredTools.of_request(conversion.declaring)
        self._repairs = exchange.options.get("dragoman_repair") != "off"

    def replies(self) -> tuple[bytes, ...]:
        exchange = self._exchange
        body, status = exchange.upstream_reply, exchange.upstream_status
        if status < 300 and self._turn.stream and is_event_stream(body):
            return self._stream()
        work = answering(
            self._reply(),
            body,
            status=status,
            stream=self._turn.stream,
            retry_after=exchange.retry_after,
            repair=self._repair(),
        )
        return (drained(work).body,)

    def _stream(self) -> tuple[bytes, ...]:
        reply = self._reply()
        pipeline = BridgePipeline(reply, self._repair())
        begun = joined(reply.open() + pipeline.feed(self._exchange.upstream_reply))
        if self._exchange.error:
            return begun + joined(pipeline.give_up(self._exchange.error)), begun
        return (begun + joined(pipeline.close()),)

    def _reply(self) -> ReplyConverter:
        return ReplyConverter(
            self._turn,
            DIALECTS.get(self._exchange.options.get("dragoman_dialect", ""), OPENAI),
            self._evidence,
            response_id=f"resp_{0:032x}",
            created_at=NOW,
            clock=lambda: NOW,
        )

    def _repair(self) -> ChatStreamRepair | None:
        if not self._repairs:
            return None
        return ChatStreamRepair(self._tools, _policy(self._exchange), self._evidence, NOW)


# The comparison


def compare(exchange: Exchange) -> list[str]:
    """What has changed since the flow ran; the first line sums up. Raises `IncompleteError`."""
    now = replay(exchange)
    lines = _difference("reply", exchange.client_reply, now.replies)
    if now.request is None:
        lines.append("request: not compared, as a part of it came from the store")
    elif exchange.job == "bridge":
        lines += _difference("request", exchange.upstream_request, (now.request,))
    return lines


def _difference(what: str, was: bytes, now: tuple[bytes, ...]) -> list[str]:
    """``reply: unchanged``, or how the first of `now` differs from what `was`."""
    old = normal(was)
    if any(normal(reply) == old for reply in now):
        return [f"{what}: unchanged ({len(was)} bytes)"]
    before, after = _lines(old), _lines(normal(now[0]))
    shown = list(_diff(before, after))
    cut = [f"… {len(shown) - MAX_LINES} more lines"] if len(shown) > MAX_LINES else []
    head = f"{what}: CHANGED (- when it ran, {len(before)} lines; + now, {len(after)} lines)"
    return [head, *shown[:MAX_LINES], *cut]


def normal(body: bytes) -> bytes:
    """`body` without heartbeats, and with placeholders for what differs from run to run."""
    if is_event_stream(body):
        frames = FrameSplitter(max_frame=len(body) + 1).feed(body + b"\n\n")
        body = joined(f for f in frames if f != HEARTBEAT and not _HEARTBEAT.match(f.raw))
    for pattern, replacement in _PASSING:
        body = pattern.sub(replacement, body)
    return body


def _lines(body: bytes) -> list[str]:
    """One line for each frame of a stream, or of indented JSON."""
    if is_event_stream(body):
        splitter = FrameSplitter(max_frame=len(body) + 1)
        frames = splitter.feed(body) + splitter.close()
        return [" ".join(_text(frame.raw).split("\n")).strip() for frame in frames]
    try:
        value = loads(body)
        return json.dumps(value, indent=1, ensure_ascii=False).split("\n")
    except (NotJson, RecursionError):
        return _text(body).split("\n")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _diff(before: list[str], after: list[str]) -> Iterator[str]:
    """The lines that differ, cut to the difference; `@@` gives their place."""
    start = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        start += 1
    end = 0
    for old, new in zip(reversed(before[start:]), reversed(after[start:]), strict=False):
        if old != new:
            break
        end += 1
    olds, news = before[start : len(before) - end], after[start : len(after) - end]
    first_olds, first_news = olds[:MAX_COMPARED], news[:MAX_COMPARED]
    matcher = SequenceMatcher(None, first_olds, first_news, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            yield f"@@ line {start + i + 1} @@"
            yield from _replaced(first_olds[i:j], first_news[k:m])
    left = max(len(olds), len(news)) - MAX_COMPARED
    if left > 0:
        yield f"… {left} lines behind these are not compared"


def _replaced(olds: list[str], news: list[str]) -> Iterator[str]:
    paired = len(olds) == len(news)
    at = [_first_difference(*pair) if paired else 0 for pair in zip(olds, news, strict=False)]
    for sign, lines in (("-", olds), ("+", news)):
        for number, line in enumerate(lines):
            yield f"{sign} {_shown(line, at[number] if number < len(at) else 0)}"


def _first_difference(old: str, new: str) -> int:
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[:middle] == new[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _shown(line: str, at: int) -> str:
    """A line around `at`, without what a terminal would obey."""
    start = max(0, at - _BEFORE) if len(line) > MAX_LINE else 0
    return ("…" if start else "") + printable(line[start:], MAX_LINE)
