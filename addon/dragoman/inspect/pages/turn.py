"""The page of a turn: how it ended, what was repaired or converted, what the model thought, said
and called, what it cost and how long it took.

It shows the client's side.
"""

from __future__ import annotations

from ...notes import TurnFacts
from ...wire.json_codec import string
from ...wire.usage import Counts
from ..exchange import Exchange, Timing
from ..headline import what_was_done
from ..parse.reply import parse_reply
from ..parse.request import model_asked, parse_request
from ..parse.values import ParsedCall, ParsedChoice, ParsedReply, Prose
from .page import (
    MAX_BRIEF,
    MAX_LISTED,
    WIDTH,
    Line,
    Page,
    Style,
    block,
    count,
    figures,
    filled,
    heading,
    joined,
    notes,
    nothing,
    one_line,
    pretty,
    prose,
    request_notes,
    seconds,
    section,
    size,
)

MIN_SPENT = 0.1
"""Seconds from the first token to the end below which a rate means nothing."""
_NO_FINISH = "no finish reason"


def turn_page(exchange: Exchange, width: int = WIDTH) -> Page:
    """As far as the reply has come, its texts wrapped for a window of `width` characters."""
    reply, facts = parse_reply(exchange.client_reply), exchange.facts
    page = [*_headline(exchange, reply, facts), *_error(exchange, reply), *_done(exchange)]
    for choice in reply.choices:
        page += _choice(choice, width, alone=len(reply.choices) == 1)
    if not reply.shape and exchange.client_reply:
        start = block(exchange.client_reply[:4000].decode("utf-8", "replace"), 2000)
        page += section("The reply is not of a form that is known here", start)
    elif not reply.shape:
        page += [Line(), nothing(exchange.client_missing, "the reply")]
    request = parse_request(exchange.client_request)
    previous = string(request.settings.get("previous_response_id")) if request else ""
    ids = [*figures("id", one_line(reply.id)), *figures("continues", one_line(previous))]
    return page + section("Response", ids) + _costs(exchange, reply, facts)


def _headline(exchange: Exchange, reply: ParsedReply, facts: TurnFacts) -> Page:
    outcome, calls = exchange.outcome_by(facts), exchange.evidence.calls
    done = "" if calls else what_was_done(exchange.job, outcome, exchange.evidence)
    if exchange.job == "bridge":
        done = "bridged"
    finishes = sorted({choice.finish or _NO_FINISH for choice in reply.choices})
    running = outcome.ending == "running"
    lines = filled(
        WIDTH,
        one_line(str(outcome), 60),
        one_line(reply.model or model_asked(exchange.client_request), 50),
        f"HTTP {exchange.status}" if exchange.status >= 400 else "",
        f"{len(reply.choices)} choices" if len(reply.choices) > 1 else "",
        ", ".join(one_line(f, 40) for f in finishes) if not running else "",
        seconds(exchange.timing.ended) if exchange.timing and exchange.timing.ended else "",
        "repaired" if calls else "",
        done,
    )
    return [Line(line, "error" if outcome.ending == "failed" else "highlight") for line in lines]


def _done(exchange: Exchange) -> Page:
    """What was done, to the reply first."""
    done, calls = exchange.evidence.reply_lines(), exchange.evidence.calls
    if calls:
        names = [one_line(name) + (f" ×{n}" if n != 1 else "") for name, n in calls.items()]
        done.insert(0, f"{count(calls.total(), 'call')} made of leaked text: {', '.join(names)}")
    bridged = exchange.job == "bridge"
    reply = "Converted" if bridged else "Repaired" if calls else "Seen in the reply"
    request = "Request converted" if bridged else "Request cured"
    return section(reply, notes(done)) + section(request, request_notes(exchange))


def _error(exchange: Exchange, reply: ParsedReply) -> Page:
    error = reply.error
    if error is None:
        return []
    code = error.code or str(error.status or "")
    kind = joined(one_line(code), one_line(error.type) if error.type != code else "")
    title = f"Error: {kind}" if kind else f"Error: HTTP {exchange.status}"
    return section(title, prose(error.message or "(no message)", "  ", 4000), "error")


def _choice(choice: ParsedChoice, width: int, *, alone: bool) -> Page:
    page: Page = []
    if not alone:
        finish = one_line(choice.finish, 60) or _NO_FINISH
        page += [Line(), heading(f"Choice {choice.index} · {finish}", "highlight")]
    number = 0
    # A long text would hide the calls from who looks why the turn ended.
    for part in sorted(
        choice.parts[:MAX_LISTED],
        key=lambda part: isinstance(part, Prose) and len(part.text) > MAX_BRIEF,
    ):
        if isinstance(part, ParsedCall):
            number += 1
            page += _call(part, number)
        elif part.text.strip():
            page += _prose(part, width)
    if len(choice.parts) > MAX_LISTED:
        page.append(Line(f"… and {count(len(choice.parts) - MAX_LISTED, 'further part')} …", "key"))
    return page


def _prose(part: Prose, width: int) -> Page:
    mark = "  │ " if part.kind == "reasoning" else "  "
    style: Style = "error" if part.kind == "refusal" else "header"
    return section(part.kind.title(), prose(part.text.strip("\r\n"), mark, width=width), style)


def _call(call: ParsedCall, number: int) -> Page:
    name = one_line(call.name) or "(no name)"
    space = f" of {one_line(call.namespace)}" if call.namespace else ""
    kind = f" ({one_line(call.kind)})" if call.kind not in ("function", call.name) else ""
    title = joined(f"Call {number}: {name}{space}{kind}", one_line(call.id, 40))
    if not call.arguments.strip():
        return section(title, [Line("  (no arguments yet)", "key")])
    lines = block(call.arguments) if call.kind == "custom" else pretty(call.arguments)
    return section(title, lines)


def _costs(exchange: Exchange, reply: ParsedReply, facts: TurnFacts) -> Page:
    """Usage, times and sizes."""
    token = _first_token(exchange.timing, facts)
    lines = [
        *figures("tokens", *_tokens(reply.usage, exchange.timing, token)),
        *figures("time", *_times(exchange.timing, token)),
        *figures("reply", *_amounts(exchange, reply)),
        *figures("not shown", *_missing(exchange, reply)),
    ]
    return section("Usage and timing", lines)


def _tokens(usage: Counts | None, timing: Timing | None, token: float | None) -> tuple[str, ...]:
    if usage is None:
        return ()
    spent = timing.ended - token if timing is not None and token is not None else 0.0
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    thought = f" ({usage.reasoning:,} reasoning)" if usage.reasoning else ""
    return (
        f"{usage.input:,} in{cached}" if usage.input is not None else "",
        f"{usage.output:,} out{thought}" if usage.output is not None else "",
        f"{usage.output / spent:,.1f} a second" if usage.output and spent >= MIN_SPENT else "",
    )


def _times(timing: Timing | None, token: float | None) -> tuple[str, ...]:
    if timing is None or not timing.steps:
        return ()
    return (
        f"first byte {seconds(timing.steps[0].at)}",
        f"first token {seconds(token)}" if token is not None else "",
        f"longest silence {seconds(timing.longest_silence)}" if timing.longest_silence else "",
        f"total {seconds(timing.ended)}" if timing.ended else "",
    )


def _first_token(timing: Timing | None, facts: TurnFacts) -> float | None:
    """When the upstream's first token came: by its own bytes if they were kept."""
    if timing is None or facts.upstream.first_token is None:
        return timing.moment(facts.client.first_token, "client") if timing else None
    return timing.moment(facts.upstream.first_token, "upstream")


def _amounts(exchange: Exchange, reply: ParsedReply) -> tuple[str, ...]:
    received = len(exchange.upstream_reply) + exchange.upstream_missing
    sent = len(exchange.client_reply) + exchange.client_missing
    if exchange.upstream_reply != exchange.client_reply:
        sizes = f"{size(received)} from the upstream, {size(sent)} to the client"
    else:
        sizes = f"{size(sent)}, as the upstream sent them" if sent else ""
    return (reply.shape, count(reply.frames, "frame") if reply.frames else "", sizes)


def _missing(exchange: Exchange, reply: ParsedReply) -> tuple[str, ...]:
    kept = exchange.client_missing
    return (
        f"{size(reply.skipped)} in the middle of the reply" if reply.skipped else "",
        f"{size(kept)} that were not kept" if kept else "",
        count(reply.unread, "frame") + " that cannot be read" if reply.unread else "",
    )
