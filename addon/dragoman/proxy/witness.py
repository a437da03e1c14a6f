"""What the user is told of the flows: on the flow itself, in the log, in numbers.

A flow is watched from the moment its request is Dragoman's; when it has ended it has its
content, a comment and a mark, the log has one line if anything was done to it, and the
statistics count it.  Nothing here may disturb a flow: what fails is logged and left.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import Counter
from pathlib import Path
from weakref import WeakKeyDictionary

from mitmproxy import http

from ..evidence import Evidence, printable
from ..report.exchange import Job
from ..report.glance import Glance, glance
from ..report.headline import headline
from ..report.stats import Stats, Summary, counted
from .capture import Capture
from .ledger import Ledger
from .live import Growth, show, watched_by_somebody
from .record import Record, exchange_of, readable

logger = logging.getLogger(__name__)

MARKS = {"bridge": ":left_right_arrow:", "repair": ":wrench:"}
SILENTLY_USELESS = 20
"""Watched replies of a host in a row with nothing to read in them, after which it is said."""
MAX_HOSTS = 1000


class Witness:
    """Sees all watched flows."""

    def __init__(self) -> None:
        self.stats = Stats()
        self.capture_into: Path | None = None
        """The folder into which every watched flow is written."""
        self._capture = Capture()
        self._ledgers = (Ledger(0), Ledger(0))
        self._records: WeakKeyDictionary[http.HTTPFlow, Record] = WeakKeyDictionary()
        self._growing: WeakKeyDictionary[http.HTTPFlow, Growth] = WeakKeyDictionary()
        self._unread: Counter[str] = Counter()

    def keep(self, limit: int) -> None:
        """Keep at most `limit` bytes of each side of the flows."""
        for ledger in self._ledgers:
            ledger.limit = limit

    def open(
        self,
        flow: http.HTTPFlow,
        job: Job,
        evidence: Evidence,
        *,
        model: str = "",
        client_request: bytes | None = None,
    ) -> Record:
        """Begin to watch `flow`."""
        record = Record(
            flow,
            job,
            evidence=evidence,
            ledgers=self._ledgers,
            model=model,
            client_request=client_request,
        )
        self._records[flow] = record
        return record

    def record(self, flow: http.HTTPFlow) -> Record | None:
        """The record of a flow that is being watched."""
        return self._records.get(flow)

    def of(self, flow: http.HTTPFlow, job: Job) -> Record:
        """The record of a flow that from now on is watched, if it was not, to do `job`."""
        record = self._records.get(flow)
        if record is None:
            return self.open(flow, job, Evidence())
        record.job = job
        return record

    def streams(self, flow: http.HTTPFlow, record: Record) -> None:
        """The reply to `flow` is streamed from now on."""
        record.streamed = True
        if watched_by_somebody():
            weak = weakref.ref(flow)
            growth = Growth(lambda: self._refresh(weak()))
            self._growing[flow] = growth
            record.on_step = growth.passed

    def _refresh(self, flow: http.HTTPFlow | None) -> None:
        record = self._records.get(flow) if flow is not None else None
        if flow is None or flow.response is None or record is None:
            return
        try:
            flow.response.data.content = record.client
            self._sign(flow, record, glance(*record.upstream))
            show(flow)
        except Exception:
            logger.exception("%s: its growth could not be shown", name_of(flow))

    def close(self, flow: http.HTTPFlow) -> None:
        """`flow` has ended, well or not."""
        record = self._records.pop(flow, None)
        if record is None:
            return
        growing = self._growing.pop(flow, None)
        try:
            if growing is not None:
                growing.stop()
            seen = self._look(flow, record)
            self._log(flow, record, self._sign(flow, record, seen))
            self._warn_if_useless(flow, seen)
            self.stats.add(_summary(flow, record, seen))
            record.end(flow)
            if growing is not None:
                show(flow)
            if self.capture_into is not None and (exchange := exchange_of(flow)) is not None:
                self._capture.keep(self.capture_into, flow, exchange)
        except Exception:
            logger.exception("%s: what was done could not be told", name_of(flow))

    def done(self) -> None:
        """mitmproxy ends: finish what is being written."""
        self._capture.done()

    @staticmethod
    def _look(flow: http.HTTPFlow, record: Record) -> Glance:
        body, tail = record.upstream
        if not body and not record.streamed and flow.response is not None:
            return glance(readable(flow.response))
        return glance(body, tail)

    @staticmethod
    def _sign(flow: http.HTTPFlow, record: Record, seen: Glance) -> str:
        """Put the headline and the mark on the flow, but not over the user's own."""
        line = headline(
            record.job,
            seen,
            record.evidence,
            model=record.model,
            first=record.reached(seen.first_token),
            ended=_how_it_ended(flow),
        )
        if flow.comment == record.comment:
            flow.comment = record.comment = line
        if not flow.marked and (record.job == "bridge" or record.evidence.calls):
            flow.marked = MARKS[record.job]
        return line

    @staticmethod
    def _log(flow: http.HTTPFlow, record: Record, line: str) -> None:
        if record.job == "bridge" or not record.evidence.empty:
            logger.info("%s: %s", name_of(flow), "; ".join([line, *record.evidence.lines()]))

    def _warn_if_useless(self, flow: http.HTTPFlow, seen: Glance) -> None:
        response = flow.response
        if flow.error or response is None or not 200 <= response.status_code < 300:
            return
        host = flow.request.pretty_host
        if seen.parsed:
            self._unread.pop(host, None)
        elif host in self._unread or len(self._unread) < MAX_HOSTS:
            self._unread[host] += 1
            if self._unread[host] == SILENTLY_USELESS:
                logger.warning(
                    "%s: %d replies in a row held nothing that Dragoman can read (the last: %s). "
                    "Nothing is repaired or converted there. Is it an LLM's API of another kind?",
                    printable(host),
                    SILENTLY_USELESS,
                    printable(response.headers.get("content-type", "no content type")),
                )


def _how_it_ended(flow: http.HTTPFlow) -> str:
    """What went wrong, but for what the reply itself says."""
    if flow.error:
        return "connection broken"
    status = flow.response.status_code if flow.response else 0
    return f"HTTP {status}" if status >= 400 else ""


def _summary(flow: http.HTTPFlow, record: Record, seen: Glance) -> Summary:
    forms, notes = counted(record.evidence)
    timing = record.timing
    return Summary(
        job=record.job,
        host=flow.request.pretty_host,
        model=record.model or seen.model,
        streamed=record.streamed,
        status=flow.response.status_code if flow.response else 0,
        forms=forms,
        notes=notes,
        failed=_how_it_ended(flow) or seen.failed,
        input_tokens=seen.input_tokens,
        output_tokens=seen.output_tokens,
        first_token=record.reached(seen.first_token),
        longest_silence=timing.longest_silence if timing else None,
        duration=time.time() - record.began,
        parsed=seen.parsed,
    )


def name_of(flow: http.HTTPFlow) -> str:
    """The flow in the log: no query, which may hold a key."""
    return f"{flow.request.pretty_host}{flow.request.path.partition('?')[0]}"
