"""The page of a request: the conversation role by role, the tools by name, the rest.

A bridged flow shows what could not be converted, the client's request, and the chat request; a
cured one the changes.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from ...bridge.host_requirements import family_of
from ...chat.texts import DETAILS, REASONING, reasoning
from ...messages.names import CALL, RESULT
from ...notes import printable
from ...responses.names import call_fields, call_id, shown_arguments
from ...wire.chat_calls import CallDelta, elements, read_delta
from ...wire.json_codec import Json, dumps, string
from ..exchange import Exchange
from ..parse.request import ParsedRequest, names_of, parse_request
from .page import (
    MAX_BRIEF,
    MAX_LISTED,
    MAX_SHOWN,
    WIDTH,
    Line,
    Page,
    block,
    count,
    filled,
    heading,
    joined,
    one_line,
    pretty,
    pretty_value,
    prose,
    request_notes,
    section,
    size,
)

MAX_FIRST = 4
MAX_LAST = 60
"""The first and the last messages that are shown."""
_TEXT_NAMES = ("text", "thinking", "refusal")
"""The members of a content's part that may be its text."""
_CALL_MORE = {"namespace", "status"}
"""The members of a call that are shown besides its name, id and arguments."""
_CALLS = ("tool_calls", "function_call")
_SHOWN = frozenset({*REASONING, DETAILS, "summary", "content", "output", *_CALLS, "id"})
"""The members of an item that are shown as its text and calls, and the id, which tells nothing."""
_EMPTY: tuple[object, ...] = (None, "", [], {})
_USUAL = (("type", "message"), ("status", "completed"))
"""Other members that need not be shown."""
_DATA = re.compile(r"[\w+/=:;,.-]{300,}", re.ASCII)


def request_page(exchange: Exchange) -> Page:
    """The client's request, if it is another, then the upstream's."""
    bridged = exchange.job == "bridge"
    sent = parse_request(exchange.upstream_request)
    if sent is None:
        return _unread(exchange.upstream_request)
    path = one_line(exchange.client_path.partition("?")[0])
    asked = (path, size(len(exchange.client_request))) if bridged else ()
    done = section("Converted" if bridged else "Cured", request_notes(exchange))
    if exchange.client_request == exchange.upstream_request:
        return [*_headline(sent, *asked), *(done if bridged else ()), *_body(sent)]
    page = [*_headline(sent, changed=", converted" if bridged else ", cured"), *done]
    page += [Line(), heading("Before: what the client sent", "highlight")]
    received = parse_request(exchange.client_request)
    if received is None:
        page.append(Line("  (its request cannot be read)", "error"))
    elif bridged:
        page += [*_headline(received, *asked), *_body(received)]
    else:
        page += _what_differs(received, sent)
    return [*page, Line(), heading("After: what the upstream received", "highlight"), *_body(sent)]


def _body(request: ParsedRequest) -> Page:
    settings = pretty_value(request.settings, MAX_BRIEF) if request.settings else []
    items = _items(list(enumerate(request.items, 1)))
    return [*items, *_tools(request.tools), *section("Settings", settings)]


def _what_differs(received: ParsedRequest, sent: ParsedRequest) -> Page:
    """The parts of a request that are not in another; messages have their own numbers, by which
    hosts' errors name them."""
    settings = {
        name: value
        for name, value in received.settings.items()
        if name not in sent.settings or sent.settings[name] != value
    }
    sent_items, sent_tools = set(map(dumps, sent.items)), set(map(dumps, sent.tools))
    page: Page = []
    for same, group in groupby(enumerate(received.items, 1), lambda i: dumps(i[1]) in sent_items):
        items = list(group)
        if same:
            page += [Line(), Line(f"… {len(items):,} unchanged …", "key")]
        else:
            page += _items(items)
    for tool in received.tools:
        if dumps(tool) not in sent_tools:
            page += _changed_tool(tool, sent)
    if settings:
        page += section("Settings", pretty_value(settings, MAX_BRIEF))
    return page


def _changed_tool(tool: Json, sent: ParsedRequest) -> Page:
    """A tool before and after, which may have been sent with a name that its family takes."""
    page = section(
        f"Tool {', '.join(map(one_line, names_of(tool)))}", pretty_value(tool, MAX_SHOWN)
    )
    names = {*names_of(tool), *map(family_of(sent.model).sent_tool_name, names_of(tool))}
    others = [each for each in sent.tools if names & {*names_of(each)}]
    after = pretty_value(others[0], MAX_SHOWN) if others else [Line("  (left out)", "key")]
    return page + section("sent as", after)


def _headline(request: ParsedRequest, *more: str, changed: str = "") -> Page:
    lines = filled(
        WIDTH,
        one_line(request.model, 50) or "(no model)",
        count(len(request.items), "item" if request.shape == "Responses" else "message"),
        count(sum(len(names_of(tool)) for tool in request.tools), "tool"),
        "streamed" if request.stream else "not streamed",
        f"{request.shape} request{changed}",
        *more,
    )
    return [Line(line, "highlight") for line in lines]


def _items(items: list[tuple[int, Any]]) -> Page:
    """Messages, each with its number."""
    hidden = max(0, len(items) - MAX_FIRST - MAX_LAST)
    page: Page = []
    for at, (number, item) in enumerate(items, 1):
        if hidden and at == MAX_FIRST + 1:
            page += [Line(), Line(f"… {count(hidden, 'message')} are not shown here …", "key")]
        if not MAX_FIRST < at <= MAX_FIRST + hidden:
            limit = MAX_SHOWN if at == len(items) else MAX_BRIEF
            page += [Line(), *_item(item, number, limit)]
    return page


def _item(item: Any, number: int, limit: int) -> Page:
    """What it thinks, says and calls, then its other members."""
    fields = item if isinstance(item, dict) else {"content": item}
    kind = string(fields.get("type"))
    page: Page = []
    for mark, text in (
        ("  │ ", reasoning(fields)),
        ("  │ ", _text(fields.get("summary"))),
        ("  │ " if kind == "reasoning" else "  ", _text(fields.get("content"))),
        ("  ", _text(fields.get("output"))),
    ):
        page += prose(text, mark, limit) if text else []
    is_call = kind.endswith("_call")
    for call in [_call(fields)] if is_call else map(read_delta, elements(fields)):
        if call is not None:
            name = one_line(call.name) or "(no name)"
            page.append(Line(f"  → {joined(name, one_line(call.id, 40))}", "key"))
            page += [Line(f"  {x.text}") for x in pretty(_written(call.arguments), limit)]
    role, about = _first(fields, "role", "type"), _first(fields, "call_id", "tool_call_id", "name")
    named = string(fields.get(role)) or ("tool output" if "output" in fields else "(no role)")
    title = joined(f"{number} {one_line(named, 40)}", one_line(string(fields.get(about)), 60))
    rest = {name: member for name, member in fields.items() if name != role}
    if page:
        shown = fields.keys() - _CALL_MORE if is_call else {about, *_SHOWN}
        rest = {
            name: member
            for name, member in rest.items()
            if name not in shown and member not in _EMPTY and (name, member) not in _USUAL
        }
    more = pretty(_written(rest), limit) if rest or not page else []
    return [heading(title), *page, *more]


def _call(item: Json) -> CallDelta:
    return CallDelta(None, call_id(item), call_fields(item)[1], shown_arguments(item))


def _first(fields: Json, *names: str) -> str:
    """The first of these members that has a text."""
    return next((name for name in names if string(fields.get(name))), "")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_part, content))
    return _written(content) if content else ""


def _part(part: Any) -> str:
    for name in _TEXT_NAMES if isinstance(part, dict) else ():
        if isinstance(text := part.get(name), str):
            return text
    if isinstance(part, dict) and part.get("type") == CALL:
        return f"→ {joined(string(part.get('name')), _written(part.get('input') or {}))}"
    if isinstance(part, dict) and part.get("type") == RESULT:
        return _text(part.get("content"))
    return _text(part)


def _written(value: Any) -> str:
    """JSON, with the size of an image or the like in its place."""
    text = value if isinstance(value, str) else dumps(value).decode()
    return _DATA.sub(lambda data: f"[{len(data[0]):,} characters]", text)


def _tools(tools: list[Json]) -> Page:
    names = [name for tool in tools for name in names_of(tool)]
    shown = prose("  ".join(printable(name, 60) for name in names[:MAX_LISTED]), "  ")
    more = [Line(f"  … and {len(names) - MAX_LISTED:,} more")] if len(names) > MAX_LISTED else []
    return section(f"Tools · {len(names):,}", [*shown, *more]) if names else []


def _unread(body: bytes) -> Page:
    if not body:
        return [Line("Nothing of the request is here.", "key")]
    title = Line(f"This request cannot be read · {size(len(body))}", "error")
    return [title, *block(body[:MAX_SHOWN].decode("utf-8", "replace"), MAX_BRIEF)]
