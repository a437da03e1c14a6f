"""The commands of mitmproxy's and mitmweb's command line.

The console shows a list as lines and a list of lists as a table, mitmweb either in one line of
JSON; so results are also written to the event log, and `dragoman.stats` is a view as well
(`views`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import mitmproxy.types
from mitmproxy import command, ctx, exceptions, http
from mitmproxy.flow import Flow

from ...inspect.chain import history_of, turns_of_chain
from ...inspect.exchange import Exchange
from ...inspect.stats import Stats, aligned, rows
from .recorder import exchange_of, is_watched

CHAIN = "dragoman_chain"
"""The key in the metadata of flows that were chosen as one conversation."""
MAX_CHAIN = 250
"""Flows of the same host before and after one that are read: a second's work."""

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., object])


def typed_command(name: str) -> Callable[[F], F]:
    """mitmproxy's decorator of a command, which has no types."""
    return cast(Callable[[F], F], command.command(name))


class Commands:
    """Commands on what was recorded and counted; an addon of its own."""

    name = "dragoman-commands"

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    @typed_command("dragoman.chain")
    def chain(self, flow: Flow) -> Sequence[str]:
        """Show only the flows of this flow's conversation."""
        focus, _ = _recorded(flow)
        host = focus.request.pretty_host
        everything = ctx.master.commands.call("view.flows.resolve", "@all")
        flows = [e for e in everything if is_watched(e) and e.request.pretty_host == host]
        near = flows.index(focus)
        flows = flows[max(0, near - MAX_CHAIN) : near + MAX_CHAIN]
        histories = [history_of(_recorded(each)[1]) for each in flows]
        name = f"chain_{flow.id[:8]}"
        for each in flows:
            each.metadata.pop(CHAIN, None)
        chosen = [flows[at] for at in turns_of_chain(histories, flows.index(focus))]
        for each in chosen:
            each.metadata[CHAIN] = name
        ctx.options.update(view_filter=f"~meta {name}")
        lines = [f"{len(chosen)} flows: ~meta {name} (all flows again: view.filter.set '')"]
        lines += [each.comment for each in chosen]
        logger.info("%s", "\n".join(lines))
        return lines

    @typed_command("dragoman.stats")
    def stats(self) -> mitmproxy.types.Data:
        """Show counts, tokens and times over all flows so far."""
        return as_table(rows(self._stats.snapshot()))


def _recorded(flow: Flow) -> tuple[http.HTTPFlow, Exchange]:
    """Raises `CommandError` for a flow without a record."""
    exchange = exchange_of(flow)
    if exchange is None or not isinstance(flow, http.HTTPFlow):
        raise exceptions.CommandError("Dragoman does not watch this flow: it has no record of it.")
    return flow, exchange


def as_table(rows: list[list[str]]) -> mitmproxy.types.Data:
    """The result of a command, which the log has as well."""
    logger.info("%s", aligned(rows))
    return cast(mitmproxy.types.Data, rows)
