"""How often a host leaks, for who has no view: the table of statistics at mitmdump's end.

Flows that are loaded from a file (``mitmdump -nr flows``) are counted as well.  They may have been
recorded without Dragoman: what the upstream sent is repaired then.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from mitmproxy import ctx, http

from ...bridge.reader_writer_pairs import api_of, declared, read_reply, repair_whole, tools_of
from ...inspect.exchange import Exchange
from ...inspect.outcome import RUNNING
from ...inspect.parse.request import model_asked
from ...inspect.stats import Stats, rows
from ...notes import Evidence
from ...repair.repair_options import RepairOptions
from ...wire.json_codec import NotJson, loads
from ..options import Settings
from ..routes import is_self_test, route_of
from .commands import as_table
from .flow_name import host_of, name_of
from .monitor import refused
from .recorder import exchange_of, readable, recorder_of
from .refresh import watched_by_somebody

logger = logging.getLogger(__name__)


class Summary:
    """An addon of its own, which sees a flow after ours."""

    name = "dragoman-summary"

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._loaded = False

    def response(self, flow: http.HTTPFlow) -> None:
        """Count a flow that was loaded."""
        if flow.live or recorder_of(flow) is not None:
            return
        if is_self_test(flow.request):
            return
        self._loaded = True
        try:
            _count(flow, self._stats, Settings.of(ctx.options).repair_options)
        except Exception:
            logger.exception("%s: cannot be counted", name_of(flow))

    def done(self) -> None:
        """Write the table where there is no view, if flows were loaded, or something leaked."""
        snapshot = self._stats.snapshot()
        if not watched_by_somebody() and (self._loaded or snapshot.counts["leaked_calls"]):
            as_table(rows(snapshot))


def _count(flow: http.HTTPFlow, stats: Stats, repair_options: RepairOptions) -> None:
    """Count `flow`, if it is a turn of an LLM that has ended."""
    exchange = exchange_of(flow)
    if exchange is None and flow.response is not None and route_of(flow.request).gives_turn:
        sent, received = readable(flow.request), readable(flow.response)
        exchange = Exchange("repair", sent, sent, received, status=flow.response.status_code)
    if exchange is not None and exchange.outcome != RUNNING and exchange.has_tools is None:
        exchange = _repaired(exchange, repair_options)
    if exchange is None or exchange.outcome == RUNNING:
        return
    facts, model = exchange.facts, model_asked(exchange.upstream_request)
    if exchange.job != "bridge":
        model = facts.model or model
    stats.add(exchange, facts, host=host_of(flow.request), model=model)


def _repaired(exchange: Exchange, repair_options: RepairOptions) -> Exchange | None:
    """What repair makes of a reply that was recorded without its evidence; None if it is none of
    an LLM."""
    try:
        request = loads(exchange.upstream_request)
    except NotJson:
        return None
    body = exchange.upstream_reply
    tools, evidence = tools_of(request, api_of(request, body)), Evidence()
    client = repair_whole(body, tools, repair_options, evidence, 0)
    evidence.refused_calls += refused(read_reply(body), declared(tools))
    has_tools = bool(declared(tools))
    return replace(exchange, client_reply=client, evidence=evidence, has_tools=has_tools)
