"""The counts at a local port, for Prometheus (option ``dragoman_metrics``).

Uses the package prometheus-client if it is installed, which answers in a thread of its own and
reads only a frozen `Snapshot`.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, cast

from mitmproxy import exceptions

from ...inspect.stats import BOUNDS, ROWS, TIMES, Stats

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"


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
        core, snapshot = importlib.import_module("prometheus_client.core"), self._stats.snapshot()
        for family, row in ROWS.items():
            counter = core.CounterMetricFamily(f"dragoman_{family}", row.help, labels=row.labels)
            for values, count in snapshot.counts[family].items():
                counter.add_metric(values, count)
            yield counter
        bounds = [*map(str, BOUNDS), "+Inf"]
        for what, text in TIMES.items():
            name = f"dragoman_{what.replace(' ', '_')}_seconds"
            histogram = core.HistogramMetricFamily(name, text, labels=("host", "model"))
            for model, times in snapshot.times.items():
                buckets = zip(bounds, accumulate(times[what].counts), strict=True)
                histogram.add_metric(model, list(buckets), times[what].sum)
            yield histogram
