"""The page of a request: the conversation role by role, the tools by name, the rest.

A bridged flow shows what could not be converted, the client's request, and the chat request; a
cured one the changes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ...notes import printable
from ..exchange import Exchange
from ..parse.request import Entry, ParsedRequest, parse_request
from .page import (
    WIDTH,
    Line,
    Page,
    block,
    count,
    filled,
    heading,
    joined,
    notes,
    one_line,
    pretty,
    pretty_value,
    prose,
    section,
    size,
)

MAX_FIRST = 4
MAX_LAST = 60
"""The first and the last messages that are shown."""
MAX_MESSAGE = 2_000
MAX_LAST_MESSAGE = 8_000
"""Characters that are shown."""
MAX_TOOLS = 400
_LIST_WIDTH = 60


def request_page(exchange: Exchange) -> Page:
    """The client's request, if it is another, then the upstream's."""
    bridged = exchange.job == "bridge"
    sent = parse_request(exchange.upstream_request)
    if sent is None:
        return _unread(exchange.upstream_request)
    if exchange.client_request == exchange.upstream_request:
        client = _client(exchange, sent) if bridged else []
        return [*_headline(sent), *client, *_body(sent)]
    received = parse_request(exchange.client_request)
    page = _headline(sent, ", converted" if bridged else ", cured")
    if bridged:
        page += _client(exchange, received)
    else:
        page += [Line(), heading("Cured"), *notes(exchange.request_notes)]
        received = received and _what_differs(received, sent)
    if received is not None:
        page += [Line(), heading("Before: what the client sent", "highlight"), *_body(received)]
    return [*page, Line(), heading("After: what the upstream received", "highlight"), *_body(sent)]


def _body(request: ParsedRequest) -> Page:
    settings = pretty_value(request.settings, MAX_MESSAGE) if request.settings else []
    return [*_entries(request.entries), *_tools(request.tools), *section("Settings", settings)]


def _what_differs(received: ParsedRequest, sent: ParsedRequest) -> ParsedRequest:
    """The parts of a request that are not in another."""
    same = set(sent.entries)
    settings = {
        name: value
        for name, value in received.settings.items()
        if name not in sent.settings or sent.settings[name] != value
    }
    changed = [entry for entry in received.entries if entry not in same]
    return replace(received, entries=changed, tools=[], settings=settings)


def _headline(request: ParsedRequest, changed: str = "") -> Page:
    lines = filled(
        WIDTH,
        one_line(request.model, 50) or "(no model)",
        count(len(request.entries), "message" if request.shape == "chat" else "item"),
        count(len(request.tools), "tool"),
        "streamed" if request.stream else "not streamed",
        f"{request.shape} request{changed}",
    )
    return [Line(line, "highlight") for line in lines]


def _client(exchange: Exchange, received: ParsedRequest | None) -> Page:
    """A Responses client's request in short, and what was not converted."""
    page = [Line(), heading("The client asked")]
    if received is None:
        page.append(Line("  (its request cannot be read)", "error"))
    else:
        kinds = Counter(one_line(entry.role, 30) for entry in received.entries)
        rows = [
            ("path", one_line(exchange.client_path.partition("?")[0])),
            ("model", one_line(received.model)),
            ("items", _list([f"{times} {kind}" for kind, times in kinds.most_common()])),
            ("tools", _list(received.tools)),
            ("size", size(len(exchange.client_request))),
        ]
        page += [Line(f"  {name:<8}{text}") for name, text in rows if text]
    return page + section("Converted", notes(exchange.request_notes))


def _list(names: list[str]) -> str:
    shown: list[str] = []
    for name in (one_line(name, 40) for name in names):
        if sum(len(each) + 2 for each in (*shown, name)) > _LIST_WIDTH:
            break
        shown.append(name)
    more = f" … and {len(names) - len(shown):,} more" if len(shown) < len(names) else ""
    return ", ".join(shown) + more


def _entries(entries: list[Entry]) -> Page:
    hidden = max(0, len(entries) - MAX_FIRST - MAX_LAST)
    page: Page = []
    for number, entry in enumerate(entries, 1):
        if hidden and number == MAX_FIRST + 1:
            page += [Line(), Line(f"… {count(hidden, 'message')} are not shown here …", "key")]
        if not MAX_FIRST < number <= MAX_FIRST + hidden:
            limit = MAX_LAST_MESSAGE if number == len(entries) else MAX_MESSAGE
            page += [Line(), *_entry(entry, number, limit)]
    return page


def _entry(entry: Entry, number: int, limit: int) -> Page:
    title = joined(f"{number} {one_line(entry.role, 40)}", one_line(entry.about, 60))
    page = [heading(title)]
    if entry.reasoning:
        page += prose(entry.reasoning, "  │ ", limit)
    if entry.text:
        page += prose(entry.text, "  ", limit)
    for name, arguments in entry.calls:
        page += [Line(f"  → {one_line(name)}", "key")]
        page += [Line(f"  {line.text}", line.style) for line in pretty(arguments, limit)]
    if len(page) == 1:
        page.append(Line("  (empty)", "key"))
    return page


def _tools(names: list[str]) -> Page:
    if not names:
        return []
    lines = [""]
    for name in names[:MAX_TOOLS]:
        phrase = f"  {printable(name, 60)}"
        if len(lines[-1]) + len(phrase) > WIDTH:
            lines.append("")
        lines[-1] += phrase
    if len(names) > MAX_TOOLS:
        lines.append(f"  … and {len(names) - MAX_TOOLS:,} more")
    return section(f"Tools · {len(names):,}", map(Line, lines))


def _unread(body: bytes) -> Page:
    if not body:
        return [Line("Nothing of the request is here.", "key")]
    title = Line(f"This request cannot be read · {size(len(body))}", "error")
    return [title, *block(body[:8000].decode("utf-8", "replace"), MAX_MESSAGE)]
