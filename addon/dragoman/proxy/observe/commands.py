"""The commands of mitmproxy's and mitmweb's command line.

The console shows a list as lines and a list of lists as a table, mitmweb either in one line of
JSON; so results are also written to the event log, and `dragoman.stats` is a view as well
(`views`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar, cast

import mitmproxy.types
from mitmproxy import command

from ...inspect.stats import Stats, aligned, rows

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., object])


def typed_command(name: str) -> Callable[[F], F]:
    """mitmproxy's decorator of a command, which has no types."""
    return cast(Callable[[F], F], command.command(name))


class Commands:
    """Commands on what was counted; an addon of its own."""

    name = "dragoman-commands"

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    @typed_command("dragoman.stats")
    def stats(self) -> mitmproxy.types.Data:
        """Show counts, tokens and times over all flows so far."""
        return as_table(rows(self._stats.snapshot()))


def as_table(rows: list[list[str]]) -> mitmproxy.types.Data:
    """The result of a command, which the log has as well."""
    logger.info("%s", aligned(rows))
    return cast(mitmproxy.types.Data, rows)
