"""Finds the turns of one conversation: each request begins with the whole of an earlier one, as
clients send their history again, and so does the bridge for stored turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .exchange import Exchange
from .parse.request import parse_request

_NOT_SAID = frozenset({"type", "id", "status", "cache_control"})
"""Fields that may be others when the same message is sent again."""

History = tuple[tuple[str, ...], ...]
"""What each message, or item, of a request says."""


def history_of(exchange: Exchange) -> History:
    request = parse_request(exchange.upstream_request)
    return tuple(tuple(_said(item)) for item in request.items) if request else ()


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


def turns_of_chain(histories: Sequence[History], focus: int) -> list[int]:
    """The indices of the turns before and after the one at `focus`, and its own."""
    own = histories[focus]
    sizes = [min(len(own), len(each)) for each in histories]
    return [
        at
        for at, size in enumerate(sizes)
        if at == focus or (size and own[:size] == histories[at][:size])
    ]
