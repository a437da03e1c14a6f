"""The counts at a local port, for Prometheus (option ``dragoman_metrics``).

Uses the package prometheus-client if it is installed, which answers in a thread of its own and
reads only frozen `Totals`.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, cast

from mitmproxy import exceptions

from ...inspect.stats import BOUNDS, TOKENS_IN, TOKENS_OUT, Stats, Time, Totals

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
_MODEL = ["host", "model"]
_Count = tuple[tuple[str, ...], int]
"""The values of a counter's labels, and the count."""
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
        registry.register(self)
        try:
            started = client.start_http_server(port, addr=HOST, registry=registry)
        except (OSError, OverflowError) as error:
            raise exceptions.OptionsError(
                f"dragoman_metrics: cannot listen at {HOST}:{port} ({error}); "
                "set it to a port that is free, or to 0."
            ) from None
        logger.info("Metrics are at http://%s:%s/metrics", HOST, port)
        return cast(tuple[Any, threading.Thread], started)

    def collect(self) -> Iterator[Any]:
        """The figures; called at every scrape, in the server's thread."""
        core, totals = importlib.import_module("prometheus_client.core"), self._stats.totals()
        for name, text, labels, counts in _counters(totals):
            counter = core.CounterMetricFamily(f"dragoman_{name}", text, labels=labels)
            for values, count in counts:
                counter.add_metric(values, count)
            yield counter
        for what, text in _TIMES.items():
            name = f"dragoman_{what.replace(' ', '_')}_seconds"
            times = core.HistogramMetricFamily(name, text, labels=_MODEL)
            for model, figures in totals.models.items():
                histogram = figures.times[what]
                bounds = [*map(str, BOUNDS), "+Inf"]
                buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
                times.add_metric(model, buckets, histogram.sum)
            yield times


def _counters(totals: Totals) -> Iterator[tuple[str, str, list[str], Iterable[_Count]]]:
    """Each one's name, its help, its labels, and what it counts."""
    labels = ["job", *_MODEL, "streamed", "outcome"]
    flows = (
        ((kind.job, kind.host, kind.model, "yes" if kind.streamed else "no", kind.outcome), count)
        for kind, count in totals.flows.items()
    )
    yield "flows", "Flows that have ended.", labels, flows
    for name, text, label, counts in (
        ("repaired_calls", "Repaired calls, by the form of their header.", "form", totals.forms),
        ("notes", "What else was done, by what it was.", "what", totals.notes),
        ("failures", "Flows that failed, by the reason.", "reason", totals.failures),
    ):
        yield name, text, [label], (((value,), count) for value, count in counts.items())
    yield "unread_replies", "Replies that were no LLM's.", [], [((), totals.unread)]
    models = totals.models.items()
    tokens = (
        ((*model, direction), figures.counts[what])
        for model, figures in models
        for direction, what in (("input", TOKENS_IN), ("output", TOKENS_OUT))
    )
    yield "tokens", "Tokens that upstreams counted.", [*_MODEL, "direction"], tokens
    for name, text, field in (
        ("tool_turns", "Turns for which tools were declared.", "turns"),
        ("calls", "Calls in such turns.", "calls"),
        (
            "refused_calls",
            "Calls whose arguments are no JSON, or such as their schema refuses.",
            "refused",
        ),
        ("silent_turns", "Turns with neither answer nor call.", "silent"),
    ):
        yield name, text, _MODEL, [(model, getattr(each.turns, field)) for model, each in models]
    leaked = (
        ((*model, name), count)
        for model, figures in models
        for name, count in figures.turns.leaked.items()
    )
    yield "leaked_calls", "Calls that leaked.", [*_MODEL, "format"], leaked
