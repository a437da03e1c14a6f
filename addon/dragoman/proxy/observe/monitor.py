"""What the user sees of the flows: comment and mark, log lines, statistics.

A flow is watched from the moment its request is Dragoman's.  Nothing here may disturb a flow:
faults are logged.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import Counter

from mitmproxy import http
from mitmproxy.flow import Error

from ...bridge.reader_writer_pairs import read_reply
from ...inspect.headline import headline
from ...inspect.outcome import LOST, OURS, RUNNING, Job, outcome_of
from ...inspect.parse.request import model_asked
from ...inspect.stats import Stats
from ...notes import ReplyFacts, TurnFacts, printable
from ...repair.declared_tools import DeclaredTools
from ...reply.facts import ReplyReader
from ..flow_state import forget, state_of
from ..flows.live_stream import LiveStream, WatchedStream
from ..routes import is_self_test
from .flow_name import host_of, name_of
from .recorder import KEY, FlowRecorder, exchange_of, plain, readable, recorder_of
from .refresh import FlowRefresher, show, watched_by_somebody

logger = logging.getLogger(__name__)

# Names of mitmproxy's table: any other is shown as a red circle.  These need no emoji font.
INTERCEPTED = ":arrow_forward:"
REPAIRED = ":gear:"
BRIDGED = ":left_right_arrow:"
BRIDGED_AND_REPAIRED = ":hammer_and_pick:"
FAILED = ":heavy_multiplication_x:"
MARKS = (INTERCEPTED, REPAIRED, BRIDGED, BRIDGED_AND_REPAIRED, FAILED)
SILENTLY_USELESS = 20
"""Unreadable replies of a host in a row after which a warning is logged."""
MAX_HOSTS = 1000
MAX_CHECKED = 1024 * 1024
"""Characters of arguments that are compared with schemas at the end of a flow."""


class FlowMonitor:
    def __init__(self) -> None:
        self.stats = Stats()
        self.keep = 0
        """Bytes to keep of each side of later flows."""
        self._unreadable: Counter[str] = Counter()

    def open(self, flow: http.HTTPFlow, job: Job) -> FlowRecorder:
        """A new record of a flow."""
        record = FlowRecorder(flow, job, keep=self.keep)
        self.begin(flow, record)
        return record

    def begin(self, flow: http.HTTPFlow, record: FlowRecorder) -> None:
        """Show what is known of a flow before its reply comes."""
        self._sign(flow, record, TurnFacts())
        if watched_by_somebody():
            show(flow)

    def of(self, flow: http.HTTPFlow, job: Job) -> FlowRecorder:
        """The record of a flow, begun if there is none, for `job`."""
        record = recorder_of(flow)
        if record is None:
            return self.open(flow, job)
        record.job = job
        return record

    def streams(self, flow: http.HTTPFlow) -> None:
        """The reply to a flow, which has a record, is streamed from now on."""
        if (record := recorder_of(flow)) is None:
            return
        record.streamed = True
        if watched_by_somebody():
            weak = weakref.ref(flow)
            record.reply.growth = FlowRefresher(lambda: self._refresh(weak()))

    # One reply has one stream.  mitmproxy's rule: the addon that sets it last wins.

    def take_stream(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The reply, whose headers have come, is ours from now on, whoever has it until now."""
        if callable(response.stream):
            self._lost(flow, _addon_of(response.stream), OURS)
        response.stream = False

    def check_stream(self, flow: http.HTTPFlow, response: http.Response) -> None:
        """The reply, which was ours, has ended: say so if another addon has taken it."""
        record, stream = recorder_of(flow), response.stream
        ours = isinstance(stream, LiveStream | WatchedStream)
        if stream and record is not None and not (ours or record.reply.upstream.total):
            self._lost(flow, OURS, _addon_of(stream))

    @staticmethod
    def _lost(flow: http.HTTPFlow, loser: str, winner: str) -> None:
        if record := recorder_of(flow):
            record.evidence.note(LOST, f"{loser} (to {winner})")
            record.evidence.lost |= loser is OURS
        warning = "%s: two addons have set flow.response.stream: %s has lost it to %s, loaded later"
        logger.warning(warning, name_of(flow), loser, winner)

    def _refresh(self, flow: http.HTTPFlow | None) -> None:
        record = recorder_of(flow) if flow is not None else None
        if flow is None or flow.response is None or record is None:
            return
        try:
            flow.response.data.content = record.reply.client.kept
            self._sign(flow, record, _facts(flow, record, growing=True))
            show(flow)
        except Exception:
            logger.exception("%s: its growth could not be shown", name_of(flow))

    def close(self, flow: http.HTTPFlow) -> ReplyFacts:
        """`flow` has ended, well or not; gives what is known of its upstream's reply."""
        record = recorder_of(flow)
        try:
            if record is not None:
                return self._end(flow, record).upstream
        except Exception:
            logger.exception("%s: what was done could not be shown", name_of(flow))
        finally:
            forget(flow)
            if flow.response and isinstance(flow.response.stream, LiveStream | WatchedStream):
                # A flow that is kept need not keep the stages that worked on it.
                flow.response.stream = True
        return ReplyFacts()

    def _end(self, flow: http.HTTPFlow, record: FlowRecorder) -> TurnFacts:
        if record.reply.growth is not None:
            record.reply.growth.stop()
        facts = _facts(flow, record)
        record.model = record.model or facts.model or model_asked(readable(flow.request))
        status, broken = _status(flow), _broken(flow, facts)
        record.outcome = outcome_of(facts, record.evidence, status=status, broken=broken)
        line = self._sign(flow, record, facts)
        self._log(flow, record, facts, line)
        self._warn_if_useless(flow, record, facts)
        record.end(flow)
        if (exchange := exchange_of(flow)) and not is_self_test(flow.request):
            host, duration = host_of(flow.request), time.time() - record.began
            self.stats.add(exchange, facts, host=host, model=record.model, duration=duration)
        if record.reply.growth is not None:
            show(flow)
        return facts

    @staticmethod
    def _sign(flow: http.HTTPFlow, record: FlowRecorder, facts: TurnFacts) -> str:
        """Put the headline and the mark on the flow, unless the user has put others there; returns
        the headline."""
        line = headline(
            record.outcome,
            record.job,
            facts,
            record.evidence,
            model=record.model,
            first=record.reply.timing.moment(facts.upstream.first_token, "upstream"),
            status=_status(flow),
        )
        mark = _mark(record)
        if flow.comment == record.signed[0]:
            flow.comment = line
        if flow.marked == record.signed[1]:
            flow.marked = mark
        record.signed = [line, mark]
        flow.metadata[KEY] = record.begun()
        return line

    @staticmethod
    def _log(flow: http.HTTPFlow, record: FlowRecorder, facts: TurnFacts, line: str) -> None:
        error = flow.error.msg if flow.error else ""
        told = _broken(flow, facts) or not state_of(flow).client_left
        cause = [printable(error)] if error and told else []
        quiet = record.outcome.ending in ("answered", "unread") and record.evidence.empty
        if record.job == "bridge" or not quiet or cause:
            phrases = [line, *cause, *record.evidence.lines()]
            logger.info("%s: %s", name_of(flow), "; ".join(phrases))

    def _warn_if_useless(self, flow: http.HTTPFlow, record: FlowRecorder, facts: TurnFacts) -> None:
        response = flow.response
        if flow.error or response is None or not 200 <= response.status_code < 300:
            return
        host = host_of(flow.request)
        if facts.upstream.parsed:
            self._unreadable.pop(host, None)
        elif record.reply.upstream.missing:
            return  # what there was to read may not have been kept
        elif host in self._unreadable or len(self._unreadable) < MAX_HOSTS:
            self._unreadable[host] += 1
            if self._unreadable[host] == SILENTLY_USELESS:
                logger.warning(
                    "%s: %d replies in a row held nothing that Dragoman can read (the last: %s). "
                    "Nothing is repaired or converted there. Is it an LLM's API of another kind?",
                    printable(host),
                    SILENTLY_USELESS,
                    printable(response.headers.get("content-type", "no content type")),
                )


def _addon_of(stream: object) -> str:
    """The name of the script that a stream is from."""
    module = str(getattr(stream, "__module__", None) or "another addon")
    return printable(module.removeprefix("__mitmproxy_script__."))


def _facts(flow: http.HTTPFlow, record: FlowRecorder, *, growing: bool = False) -> TurnFacts:
    """What the stages have noted of the reply; of one that no stage has read, what its bytes say.
    `growing`: only the ends of a long one are read; else the calls are looked at, too."""
    read, cut = record.read, False
    if read is not None and read.fault is not None and not growing:
        logger.error("%s: its facts are read again", name_of(flow), exc_info=read.fault)
    if read is not None and read.knows:
        upstream, client = read.upstream, read.client
    else:
        sides, encoding = (record.reply.upstream, record.reply.client), record.reply.encoding
        received, sent = (side.ends if growing else side.kept for side in sides)
        if encoding:
            received = sent = b"" if growing else plain(received, encoding)
        elif not record.streamed and flow.response is not None:
            sent = readable(flow.response)
            received = received or sent
        cut = sides[0].missing > 0
        upstream = read_reply(received)
        client = upstream if received == sent else read_reply(sent)
    of_upstream = upstream.facts
    if of_upstream.parsed and not (growing or cut):
        record.evidence.refused_calls += refused(upstream, record.tools)
    return TurnFacts(of_upstream, of_upstream if client is upstream else client.facts)


def refused(upstream: ReplyReader, tools: DeclaredTools) -> int:
    """How many of the host's own calls have arguments that their tool refuses."""
    calls = upstream.function_calls if tools else []
    if sum(len(arguments) for _, arguments in calls) > MAX_CHECKED:
        return 0
    return sum(tools.refuses(*call) for call in calls)


def _status(flow: http.HTTPFlow) -> int:
    return flow.response.status_code if flow.response else 0


def _broken(flow: http.HTTPFlow, facts: TurnFacts) -> str:
    """Which connection broke off, in words; empty if none, or none before the client had all."""
    if flow.error is None or (facts.client.ended and flow.error.msg != Error.KILLED_MESSAGE):
        return ""
    stream = flow.response.stream if flow.response is not None else None
    if isinstance(stream, LiveStream) and stream.early:
        return "ended early"
    return "client left" if state_of(flow).client_left else "connection broken"


def _mark(record: FlowRecorder) -> str:
    """A failure is shown before what was done."""
    if record.outcome.ending == "failed":
        return FAILED
    if record.job == "bridge":
        return BRIDGED_AND_REPAIRED if record.evidence.calls else BRIDGED
    if record.evidence.calls:
        return REPAIRED
    return INTERCEPTED if record.outcome is RUNNING else ""
