"""The commands of mitmproxy's and mitmweb's command line.

The console shows a list as lines and a list of lists as a table, mitmweb either in one line of
JSON; so results are also written to the event log, and `dragoman.stats` is a view as well
(`views`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import mitmproxy.types
from mitmproxy import command, ctx, exceptions, http
from mitmproxy.flow import Flow

from ...inspect.chain import turn_of, turns_of_chain
from ...inspect.exchange import Exchange
from ...inspect.fixture import IncompleteError, fixture
from ...inspect.redact import Redaction, credentials
from ...inspect.replay import compare
from ...inspect.stats import Stats, aligned, rows
from ...wire.slices import Slices
from ..run_slices import in_slices
from .recorder import exchange_of, is_watched

CHAIN = "dragoman_chain"
"""Of the metadata of flows that were chosen as one conversation."""
MAX_CHAIN = 250
"""Flows of the same host before and after one that are read: a second's work."""
AT_ONCE = 1024 * 1024
"""Bytes of requests that are read by one call: some ten milliseconds."""

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
        self._chain: asyncio.Task[None] | None = None

    @typed_command("dragoman.export")
    def export(self, flow: Flow, path: mitmproxy.types.Path) -> Sequence[str]:
        """Write a flow as a fixture, without secrets, into the new folder PATH."""
        folder = Path(cast(str, path)).absolute()
        recorded, exchange = _recorded(flow)
        request = recorded.request
        secrets = credentials(request.headers.items(multi=True), request.path)
        try:
            files = fixture(exchange, Redaction(secrets))
            _write_fixture(folder, files)
        except IncompleteError as error:
            raise exceptions.CommandError(f"This flow cannot be exported: {error}.") from None
        except FileExistsError as error:
            raise exceptions.CommandError(f"{error}; name a new folder.") from None
        except (OSError, ValueError) as error:
            raise exceptions.CommandError(f"Cannot write to {folder}: {error}") from None
        return _logged(
            [
                f"wrote {', '.join(sorted(files))} to {folder}",
                f"replay: python -m fixtures.server --port 9000 --folder {folder.parent}",
                f"base URL: http://127.0.0.1:9000/{folder.name}/v1",
            ]
        )

    @typed_command("dragoman.replay")
    def replay(self, flow: Flow) -> Sequence[str]:
        """Run a recorded flow through the code of today, offline, and show what has changed."""
        _, exchange = _recorded(flow)
        try:
            return _logged(compare(exchange))
        except IncompleteError as error:
            raise exceptions.CommandError(f"This flow cannot be replayed: {error}.") from None
        except Exception:
            logger.exception("A recorded flow could not be replayed")
            raise exceptions.CommandError("The replay failed: see the event log.") from None

    @typed_command("dragoman.chain")
    def chain(self, flow: Flow) -> Sequence[str]:
        """Show only the flows of this flow's conversation."""
        work = _choosing_chain(_recorded(flow)[0])
        try:
            next(work)
        except StopIteration as end:
            return _logged(end.value)
        self._chain = asyncio.get_running_loop().create_task(_finish(work))
        return ["These are many: the result comes in the event log."]

    @typed_command("dragoman.stats")
    def stats(self) -> mitmproxy.types.Data:
        """Show counts, tokens and times over all flows so far."""
        return as_table(rows(self._stats.snapshot()))


def _choosing_chain(flow: http.HTTPFlow) -> Slices[list[str]]:
    """Show the conversation; returns lines about it."""
    host = flow.request.pretty_host
    everything = ctx.master.commands.call("view.flows.resolve", "@all")
    flows = [each for each in everything if is_watched(each) and each.request.pretty_host == host]
    near = flows.index(flow)
    flows = flows[max(0, near - MAX_CHAIN) : near + MAX_CHAIN]
    turns, size = [], 0
    for each in flows:
        exchange = _recorded(each)[1]
        turns.append(turn_of(exchange))
        size += len(exchange.client_request) + len(exchange.upstream_request)
        if size > AT_ONCE:
            size = 0
            yield
    name = f"chain_{flow.id[:8]}"
    for each in flows:
        each.metadata.pop(CHAIN, None)
    chosen = [flows[at] for at in turns_of_chain(turns, flows.index(flow))]
    for each in chosen:
        each.metadata[CHAIN] = name
    ctx.options.update(view_filter=f"~meta {name}")
    heading = f"{len(chosen)} flows: ~meta {name} (all flows again: view.filter.set '')"
    return [heading, *(each.comment for each in chosen)]


async def _finish(work: Slices[list[str]]) -> None:
    try:
        _logged(await in_slices(work, None))
    except Exception:
        logger.exception("The flows of a conversation could not be shown")


def _recorded(flow: Flow) -> tuple[http.HTTPFlow, Exchange]:
    """Raises `CommandError` for a flow without a record."""
    exchange = exchange_of(flow)
    if exchange is None or not isinstance(flow, http.HTTPFlow):
        raise exceptions.CommandError("Dragoman does not watch this flow: it has no record of it.")
    return flow, exchange


def _write_fixture(folder: Path, files: dict[str, bytes]) -> None:
    """Make `folder`, unless it is there and empty, and write `files` into it: all or none. Raises
    `OSError`, a `FileExistsError` for a folder that is not empty."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    written: list[Path] = []
    try:
        for name, body in files.items():
            # Never through a link, nor over a file, that somebody has put there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            descriptor = os.open(folder / name, flags, 0o600)
            written.append(folder / name)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.write(body)
    except OSError:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise


def as_table(rows: list[list[str]]) -> mitmproxy.types.Data:
    """The result of a command, which the log has as well."""
    logger.info("%s", aligned(rows))
    return cast(mitmproxy.types.Data, rows)


def _logged(lines: list[str]) -> list[str]:
    logger.info("%s", "\n".join(lines))
    return lines
