"""Runs a recorded flow again, offline, through the code as it is now, and compares the result with
what the client got.

Times, and ids made of them or at random, are made equal first; so any remaining difference is a
change of Dragoman.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace

from ..bridge.cure.chat_request import curing
from ..bridge.model_families import family_of
from ..bridge.native.reply_repair import (
    Tools,
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
from .pages.diff import diff_of

NOW = 1_700_000_000
MAX_LINES = 60
MAX_LINE = 2_100

# Made of the time or at random, where our own code makes it.
_VOLATILE = tuple(
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
    possible_replies: tuple[bytes, ...]
    """What the client would get: several where the record does not tell which. It does not tell who
    broke a stream off (the upstream, then the client), nor whether one that ended early was known
    as a chat completion (if it was, then if not)."""
    request: bytes | None
    """What the upstream would get; None if a part of it was in a store."""


def replay(exchange: Exchange) -> Replay:
    """Raises `IncompleteError`."""
    require_whole(exchange)
    reply = exchange.upstream_reply
    if exchange.job == "bridge":
        return _bridged(exchange)
    # What was remembered when a request was cured is not known here.
    request = exchange.upstream_request
    if exchange.job == "watch" or exchange.status != 200:
        return Replay((reply,), request)
    sent = _value(request)
    tools = drained(reading_tools(sent))
    names = None
    if (client := _value(exchange.client_request)) != sent and isinstance(client, dict):
        names = drained(curing(client, family_of(str(client.get("model"))), Evidence())).tool_names
        tools = names.with_aliases(tools)
    if is_event_stream(reply):
        replies = _repaired(exchange, tools)
    else:
        replies = (drained(repairing_whole(reply, tools, _policy(exchange), Evidence(), NOW)),)
    if names is not None:
        replies = tuple(map(names.restored, replies))
    return Replay(replies, request)


def _value(body: bytes) -> object:
    with suppress(NotJson):
        return loads(body)
    return None


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
    streamed = pipeline.feed(exchange.upstream_reply)
    if exchange.error:
        return streamed + pipeline.break_off(exchange.error), streamed
    ended = streamed + pipeline.close()
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
    evidence, unsupported = Evidence(), exchange.options.get("dragoman_unsupported_tools")
    request, sent = _value(exchange.client_request), _value(exchange.upstream_request)
    own = without_stored(request)
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
    stored = own != request or conversion.turn.request.get("previous_response_id")
    if stored and isinstance(sent, dict):
        turn = replace(conversion.turn, estimate=drained(estimating(sent)))
        conversion = Conversion(sent, turn)
    replies = _bridged_replies(exchange, conversion, evidence)
    return Replay(replies, None if stored else dumps(conversion.chat))


def _bridged_replies(
    exchange: Exchange, conversion: Conversion, evidence: Evidence
) -> tuple[bytes, ...]:
    turn, options = conversion.turn, exchange.options
    reply = ReplyConverter(
        turn,
        DIALECTS.get(options.get("dragoman_dialect", ""), OPENAI),
        evidence,
        response_id=f"resp_{0:032x}",
        created_at=NOW,
        clock=lambda: NOW,
    )
    repair = None
    if options.get("dragoman_repair") != "off":
        tools = DeclaredTools.of_request(conversion.declaring)
        repair = ChatStreamRepair(tools, _policy(exchange), evidence, NOW)
    body, status = exchange.upstream_reply, exchange.upstream_status
    if status >= 300 or not turn.stream or not is_event_stream(body):
        work = answering(
            reply,
            body,
            status=status,
            stream=turn.stream,
            retry_after=exchange.retry_after,
            repair=repair,
        )
        return (drained(work).body,)
    pipeline = BridgePipeline(reply, repair)
    streamed = joined(reply.open() + pipeline.feed(body))
    if exchange.error:
        return streamed + joined(pipeline.give_up(exchange.error)), streamed
    return (streamed + joined(pipeline.close()),)


# The comparison


def compare(exchange: Exchange) -> list[str]:
    """What has changed since the flow ran; the first line sums up. Raises `IncompleteError`."""
    now = replay(exchange)
    lines = _difference("reply", exchange.client_reply, now.possible_replies)
    if now.request is None:
        lines.append("request: not compared, as a part of it came from the store")
    elif exchange.job == "bridge":
        lines += _difference("request", exchange.upstream_request, (now.request,))
    return lines


def _difference(what: str, recorded: bytes, replayed: tuple[bytes, ...]) -> list[str]:
    """``reply: unchanged``, or how the first of `replayed` differs from what was `recorded`."""
    before = normal(recorded)
    if any(normal(body) == before for body in replayed):
        return [f"{what}: unchanged ({len(recorded)} bytes)"]
    page = diff_of(before, normal(replayed[0]), ("record", "replay"))
    cut = [f"… {len(page) - MAX_LINES} more lines"] if len(page) > MAX_LINES else []
    # Without what a terminal would obey.
    lines = [printable(line.text, MAX_LINE) for line in page[:MAX_LINES]]
    return [f"{what}: CHANGED (- when it ran, + now)", *lines, *cut]


def normal(body: bytes) -> bytes:
    """`body` without heartbeats, and with placeholders for what differs from run to run."""
    if is_event_stream(body):
        frames = FrameSplitter(max_frame=len(body) + 1).feed(body + b"\n\n")
        body = joined(f for f in frames if f != HEARTBEAT and not _HEARTBEAT.match(f.raw))
    for pattern, replacement in _VOLATILE:
        body = pattern.sub(replacement, body)
    return body
