"""Finds the turns of one conversation.

A client that sends its whole history begins each request with the previous one, and so does the
bridge for stored turns; any other client names the response that it continues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..wire.json_codec import string
from .exchange import Exchange
from .parse.request import parse_request

_ID = re.compile(rb'"id"\s*:\s*"(resp_[\w-]+)"')
_BEGINNING = 8192
_NOT_SAID = frozenset({"type", "id", "status", "cache_control"})
"""Fields that may be others when the same message is sent again."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What identifies a turn's conversation."""

    items: tuple[tuple[str, ...], ...]
    """What each message, or item, of its request upstream says."""
    id: str
    """The id of its response; empty if it has none."""
    previous: str
    """The id of the response that it continues; empty if it names none."""


def turn_of(exchange: Exchange) -> Turn:
    upstream = parse_request(exchange.upstream_request)
    client = parse_request(exchange.client_request) if exchange.job == "bridge" else upstream
    response_id = _ID.search(exchange.client_reply[:_BEGINNING])
    return Turn(
        tuple(tuple(_said(item)) for item in upstream.items) if upstream else (),
        response_id[1].decode() if response_id else "",
        string(client.settings.get("previous_response_id")) if client else "",
    )


def _said(value: Any) -> Iterator[str]:
    """The texts of a message, in whatever parts: a client that marks its latest message for the
    host's cache writes it in another form in the next turn."""
    if isinstance(value, dict):
        for name, member in value.items():
            if name not in _NOT_SAID:
                yield from _said(member)
    elif isinstance(value, list):
        for member in value:
            yield from _said(member)
    elif value is not None:
        yield str(value)


def turns_of_chain(turns: Sequence[Turn], focus: int) -> list[int]:
    """The indices of the turns before and after the one at `focus`."""
    chosen = {focus}
    chosen |= {at for at, turn in enumerate(turns) if _share_history(turns[focus], turn)}
    while True:
        ids = {turns[at].id for at in chosen} - {""}
        previous = {turns[at].previous for at in chosen} - {""}
        linked = {
            at for at, turn in enumerate(turns) if turn.previous in ids or turn.id in previous
        }
        if linked <= chosen:
            return sorted(chosen)
        chosen |= linked


def _share_history(turn: Turn, other: Turn) -> bool:
    """Whether one of the two begins with all of the other."""
    size = min(len(turn.items), len(other.items))
    return size > 0 and turn.items[:size] == other.items[:size]
