"""The counts at a local port, for Prometheus (option ``dragoman_metrics``).

Uses the package prometheus-client if it is installed, which answers in a thread of its own and
reads only frozen `Totals`.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Iterator, Mapping
from itertools import accumulate
from operator import attrgetter
from typing import Any

from mitmproxy import exceptions

from ...inspect.stats import BOUNDS, TOKENS_IN, TOKENS_OUT, Histogram, ModelFigures, Stats, Time

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_TIMES: dict[Time, str] = {
    "first token": "From the request to the first token.",
    "longest silence": "The longest wait of a stream.",
    "duration": "From the request to the end.",
}


class Metrics:
    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._port = 0
        self._running: tuple[Any, threading.Thread] | None = None

    def listen(self, port: int) -> None:
        """Serve at this port, or not at all if it is 0. Raises `OptionsError`, and changes nothing
        then."""
        if port == self._port:
            return
        running = self._start(port) if port else None
        self.stop()
        self._port, self._running = port, running

    def stop(self) -> None:
        if self._running is not None:
            server, thread = self._running
            server.shutdown()
            server.server_close()
            thread.join()
        self._port, self._running = 0, None

    def _start(self, port: int) -> tuple[Any, threading.Thread] | None:
        try:
            client = importlib.import_module("prometheus_client")
        except ImportError:
            logger.warning(
                "dragoman_metrics needs a package that is not here: "
                "pip install prometheus-client (into mitmproxy's environment)"
            )
            return None
        registry = client.CollectorRegistry()
        registry.register(_Collector(self._stats))
        try:
            started: tuple[Any, threading.Thread] = client.start_http_server(
                port, addr=HOST, registry=registry
            )
        except (OSError, OverflowError) as error:
            raise exceptions.OptionsError(
                f"dragoman_metrics: cannot listen at {HOST}:{port} ({error}); "
                "set it to a port that is free, or to 0."
            ) from None
        logger.info("Metrics are at http://%s:%s/metrics", HOST, port)
        return started


class _Collector:
    """Called at every scrape."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._core = importlib.import_module("prometheus_client.core")

    def collect(self) -> Iterator[Any]:
        totals = self._stats.totals()
        labels = ["job", "host", "model", "streamed", "outcome"]
        flows = self._counter("dragoman_flows", "Flows that have ended.", labels)
        for kind, count in totals.flows.items():
            streamed = "yes" if kind.streamed else "no"
            flows.add_metric([kind.job, kind.host, kind.model, streamed, kind.outcome], count)
        yield flows
        for name, text, label, counts in (
            (
                "repaired_calls",
                "Repaired calls, by the form of their header.",
                "form",
                totals.forms,
            ),
            ("notes", "What else was done, by what it was.", "what", totals.notes),
            ("failures", "Flows that failed, by the reason.", "reason", totals.failures),
        ):
            counter = self._counter(f"dragoman_{name}", text, [label])
            for value, count in counts.items():
                counter.add_metric([value], count)
            yield counter
        unread = self._counter("dragoman_unread_replies", "Replies that were no LLM's.", [])
        unread.add_metric([], totals.unread)
        yield unread
        yield from self._of_models(totals.models)
        yield from self._turns(totals.models)

    def _of_models(self, models: Mapping[tuple[str, str], ModelFigures]) -> Iterator[Any]:
        labels = ["host", "model"]
        tokens = self._counter(
            "dragoman_tokens", "Tokens that upstreams counted.", [*labels, "direction"]
        )
        for name, figures in models.items():
            for direction, what in (("input", TOKENS_IN), ("output", TOKENS_OUT)):
                tokens.add_metric([*name, direction], figures.counts[what])
        yield tokens
        for what, text in _TIMES.items():
            times = self._core.HistogramMetricFamily(
                f"dragoman_{what.replace(' ', '_')}_seconds", text, labels=labels
            )
            for name, figures in models.items():
                taken = figures.times[what]
                times.add_metric(name, _buckets(taken), taken.sum)
            yield times

    def _turns(self, models: Mapping[tuple[str, str], ModelFigures]) -> Iterator[Any]:
        for name, text, count in (
            ("tool_turns", "Turns for which tools were declared.", attrgetter("turns")),
            ("calls", "Calls in such turns.", attrgetter("calls")),
            (
                "refused_calls",
                "Calls whose arguments are no JSON, or such as their schema refuses.",
                attrgetter("refused"),
            ),
            ("silent_turns", "Turns with neither answer nor call.", attrgetter("silent")),
        ):
            counter = self._counter(f"dragoman_{name}", text, ["host", "model"])
            for at, figures in models.items():
                counter.add_metric(at, count(figures.turns))
            yield counter
        leaked = self._counter(
            "dragoman_leaked_calls", "Calls that leaked.", ["host", "model", "format"]
        )
        for at, figures in models.items():
            for name, number in figures.turns.leaked.items():
                leaked.add_metric([*at, name], number)
        yield leaked

    def _counter(self, name: str, text: str, labels: list[str]) -> Any:
        return self._core.CounterMetricFamily(name, text, labels=labels)


def _buckets(times: Histogram) -> list[tuple[str, int]]:
    return list(zip([*map(str, BOUNDS), "+Inf"], accumulate(times.counts), strict=True))
