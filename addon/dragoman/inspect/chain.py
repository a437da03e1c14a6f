"""Finds the turns of one conversation.

A client that sends its whole history begins each request with the one before, and so does the
bridge for stored ones; any other names the response that it continues.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..wire.json_codec import string
from .exchange import Exchange
from .parse.request import Entry, parse_request

_ID = re.compile(rb'"id"\s*:\s*"(resp_[\w-]+)"')
_BEGINNING = 8192


@dataclass(frozen=True, slots=True)
class Turn:
    """What identifies a turn's conversation."""

    entries: tuple[Entry, ...]
    """The messages, or items, of its request upstream."""
    id: str
    """Of its response; empty if it has none."""
    previous: str


def turn_of(exchange: Exchange) -> Turn:
    sent = parse_request(exchange.upstream_request)
    asked = parse_request(exchange.client_request) if exchange.job == "bridge" else sent
    found = _ID.search(exchange.client_reply[:_BEGINNING])
    return Turn(
        tuple(sent.entries) if sent else (),
        found[1].decode() if found else "",
        string(asked.settings.get("previous_response_id")) if asked else "",
    )


def turns_of_chain(turns: Sequence[Turn], focus: int) -> list[int]:
    """The indices of the turns before and after the one at `focus`."""
    chosen = {focus}
    chosen |= {at for at, turn in enumerate(turns) if _continue(turns[focus], turn)}
    while more := {at for at, turn in enumerate(turns) if _named(turns, chosen, turn)} - chosen:
        chosen |= more
    return sorted(chosen)


def _continue(one: Turn, other: Turn) -> bool:
    """Whether one of the two begins with all of the other."""
    both = min(len(one.entries), len(other.entries))
    return bool(both) and one.entries[:both] == other.entries[:both]


def _named(turns: Sequence[Turn], chosen: set[int], turn: Turn) -> bool:
    """Whether this turn names a chosen one, or is named by one."""
    named = (turns[at] for at in chosen)
    return any(
        (other.id and other.id == turn.previous) or (turn.id and turn.id == other.previous)
        for other in named
    )
