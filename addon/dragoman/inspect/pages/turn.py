"""The page of a turn: how it ended, what was repaired or converted, what the model thought, said
and called, what it cost and how long it took.

It shows the client's side.
"""

from __future__ import annotations

from ...notes import Evidence
from ...wire.slices import drained
from ...wire.usage import Counts
from ..exchange import Exchange, Timing
from ..outcome import Outcome, outcome_of
from ..parse.frames import moment
from ..parse.reply import first_token, parse_reply
from ..parse.request import parse_request
from ..parse.values import ParsedCall, ParsedChoice, ParsedReply, Prose
from ..summary import model_asked, summarizing_both
from .page import (
    WIDTH,
    Line,
    Page,
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
    seconds,
    size,
)

MAX_CALLS = 200
MAX_BEFORE_CALLS = 1_500
"""Characters of a text that is shown before calls that came after it."""
_JOBS = {"watch": "watched", "repair": "watched", "bridge": "bridged"}
MIN_SPENT = 0.1
"""Seconds from the first token to the end below which a rate means nothing."""
_NO_FINISH = "no finish reason"


def turn_page(exchange: Exchange) -> Page:
    """As far as the reply has come."""
    reading = parse_reply(exchange.client_reply)
    page = [*_headline(exchange, reading), *_error(exchange, reading), *_done(exchange)]
    for choice in reading.choices:
        page += _choice(choice, alone=len(reading.choices) == 1)
    if not reading.shape:
        page += _not_understood(exchange)
    return page + _response(exchange, reading) + _costs(exchange, reading)


def _headline(exchange: Exchange, reading: ParsedReply) -> Page:
    outcome = _outcome(exchange)
    finishes = sorted({choice.finish or _NO_FINISH for choice in reading.choices})
    running = outcome.ending == "running"
    lines = filled(
        WIDTH,
        one_line(str(outcome), 60),
        one_line(reading.model or model_asked(exchange.client_request), 50),
        f"HTTP {exchange.status}" if exchange.status >= 400 else "",
        f"{len(reading.choices)} choices" if len(reading.choices) > 1 else "",
        ", ".join(one_line(f, 40) for f in finishes) if not running else "",
        seconds(exchange.timing.ended) if exchange.timing and exchange.timing.ended else "",
        "repaired" if exchange.calls else "",
        _JOBS[exchange.job] if exchange.job == "bridge" or not exchange.calls else "",
    )
    return [Line(line, "error" if outcome.ending == "failed" else "highlight") for line in lines]


def _outcome(exchange: Exchange) -> Outcome:
    """An earlier Dragoman did not record it."""
    if exchange.outcome is not None:
        return exchange.outcome
    sides = (exchange.upstream_reply, b""), (exchange.client_reply, b"")
    broken = "connection broken" if exchange.error else ""
    seen = drained(summarizing_both(*sides))
    return outcome_of(seen, Evidence(), status=exchange.status, broken=broken)


def _done(exchange: Exchange) -> Page:
    """What was done, to the reply first."""
    names = [
        one_line(str(name)) + (f" ×{times}" if times != 1 else "")
        for name, times in exchange.calls.items()
    ]
    found = f"{count(len(names), 'tool')} called in leaked tokens: {', '.join(names)}"
    done = [*([found] if names else []), *exchange.reply_notes]
    bridged = exchange.job == "bridge"
    title = "Converted" if bridged else "Repaired"
    page = [Line(), heading(title), *notes(done)] if done else []
    if exchange.request_notes:
        title = "Request converted" if bridged else "Request cured"
        page += [Line(), heading(title), *notes(exchange.request_notes)]
    return page


def _error(exchange: Exchange, reading: ParsedReply) -> Page:
    error = reading.error
    if error is None:
        return []
    code = error.code or str(error.status or "")
    kind = joined(one_line(code), one_line(error.type) if error.type != code else "")
    title = f"Error: {kind}" if kind else f"Error: HTTP {exchange.status}"
    return [Line(), heading(title, "error"), *prose(error.message or "(no message)", "  ", 4000)]


def _choice(choice: ParsedChoice, *, alone: bool) -> Page:
    page: Page = []
    if not alone:
        finish = one_line(choice.finish, 60) or _NO_FINISH
        page += [Line(), heading(f"Choice {choice.index} · {finish}", "highlight")]
    number = 0
    # A long text would hide the calls from who looks why the turn ended.
    for part in sorted(choice.parts[:MAX_CALLS], key=_is_long):
        if isinstance(part, ParsedCall):
            number += 1
            page += [Line(), *_call(part, number)]
        elif part.text.strip():
            page += [Line(), *_prose(part)]
    if len(choice.parts) > MAX_CALLS:
        page.append(Line(f"… and {count(len(choice.parts) - MAX_CALLS, 'further part')} …", "key"))
    return page


def _is_long(part: Prose | ParsedCall) -> bool:
    return isinstance(part, Prose) and len(part.text) > MAX_BEFORE_CALLS


def _prose(part: Prose) -> Page:
    text = part.text.strip("\r\n")
    match part.kind:
        case "reasoning":
            return [heading("Reasoning"), *prose(text, "  │ ")]
        case "refusal":
            return [heading("Refusal", "error"), *prose(text, "  ")]
        case _:
            return [heading("Text"), *prose(text, "  ")]


def _call(call: ParsedCall, number: int) -> Page:
    name = one_line(call.name) or "(no name)"
    space = f" of {one_line(call.namespace)}" if call.namespace else ""
    kind = f" ({one_line(call.kind)})" if call.kind not in ("function", call.name) else ""
    title = joined(f"Call {number}: {name}{space}{kind}", one_line(call.id, 40))
    if not call.arguments.strip():
        return [heading(title), Line("  (no arguments yet)", "key")]
    lines = block(call.arguments) if call.kind == "custom" else pretty(call.arguments)
    return [heading(title), *lines]


def _not_understood(exchange: Exchange) -> Page:
    body = exchange.client_reply
    if not body:
        return [Line(), nothing(exchange.client_missing, "the reply")]
    start = body[:4000].decode("utf-8", "replace")
    return [Line(), heading("The reply is not of a form that is known here"), *block(start, 2000)]


def _response(exchange: Exchange, reading: ParsedReply) -> Page:
    """The ids of the response and of the one that it continues."""
    asked = parse_request(exchange.client_request)
    previous = asked.settings.get("previous_response_id") if asked else None
    lines = figures("id", one_line(reading.id))
    if isinstance(previous, str):
        lines += figures("continues", one_line(previous))
    return [Line(), heading("Response"), *lines] if lines else []


def _costs(exchange: Exchange, reading: ParsedReply) -> Page:
    """Usage, times and sizes."""
    token = _first_token(exchange)
    lines = [
        *figures("tokens", *_tokens(reading.usage, _speed(exchange.timing, token, reading.usage))),
        *figures("time", *_times(exchange.timing, token)),
        *figures("reply", *_amounts(exchange, reading)),
        *figures("not shown", *_missing(exchange, reading)),
    ]
    return [Line(), heading("Usage and timing"), *lines] if lines else []


def _tokens(usage: Counts | None, speed: str) -> tuple[str, ...]:
    if usage is None:
        return ()
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    thought = f" ({usage.reasoning:,} reasoning)" if usage.reasoning else ""
    return (
        f"{usage.input:,} in{cached}" if usage.input is not None else "",
        f"{usage.output:,} out{thought}" if usage.output is not None else "",
        speed,
    )


def _speed(timing: Timing | None, token: float | None, usage: Counts | None) -> str:
    if timing is None or token is None or usage is None or not usage.output:
        return ""
    spent = timing.ended - token
    return f"{usage.output / spent:,.1f} a second" if spent >= MIN_SPENT else ""


def _times(timing: Timing | None, token: float | None) -> tuple[str, ...]:
    if timing is None or not timing.steps:
        return ()
    return (
        f"first byte {seconds(timing.steps[0].at)}",
        f"first token {seconds(token)}" if token is not None else "",
        f"longest silence {seconds(timing.longest_silence)}" if timing.longest_silence else "",
        f"total {seconds(timing.ended)}" if timing.ended else "",
    )


def _first_token(exchange: Exchange) -> float | None:
    """When the upstream's first token came: by its own bytes if they were kept."""
    timing = exchange.timing
    if timing is None:
        return None
    offset = first_token(exchange.upstream_reply)
    if offset is not None:
        return moment(timing, offset, "upstream")
    offset = first_token(exchange.client_reply)
    return moment(timing, offset, "client") if offset is not None else None


def _amounts(exchange: Exchange, reading: ParsedReply) -> tuple[str, ...]:
    came = len(exchange.upstream_reply) + exchange.upstream_missing
    left = len(exchange.client_reply) + exchange.client_missing
    same = exchange.upstream_reply == exchange.client_reply
    return (
        reading.shape,
        count(reading.frames, "frame") if reading.frames else "",
        f"{size(left)}, as the upstream sent them" if same and left else "",
        f"{size(came)} from the upstream, {size(left)} to the client" if not same else "",
    )


def _missing(exchange: Exchange, reading: ParsedReply) -> tuple[str, ...]:
    kept = exchange.client_missing
    return (
        f"{size(reading.skipped)} in the middle of the reply" if reading.skipped else "",
        f"{size(kept)} that were not kept" if kept else "",
        count(reading.unread, "frame") + " that cannot be read" if reading.unread else "",
    )
