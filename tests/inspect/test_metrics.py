"""Metrics: Prometheus reads what was counted, at the port of the option and no other."""

from __future__ import annotations

import importlib
import logging
import socket
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from mitmproxy import exceptions

from dragoman.inspect.outcome import Outcome
from dragoman.inspect.stats import Stats
from dragoman.notes import ReplyFacts
from dragoman.proxy.observe.metrics import Metrics
from tests.inspect.test_stats import NATIVE_ID, count

prometheus = pytest.importorskip("prometheus_client.parser")


@pytest.fixture
def stats() -> Stats:
    return Stats()


@pytest.fixture
def metrics(stats: Stats) -> Iterator[Metrics]:
    serving = Metrics(stats)
    yield serving
    serving.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def scrape(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
        families = prometheus.text_string_to_metric_families(reply.read().decode())
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }


def test_prometheus_reads_what_was_counted(stats: Stats, metrics: Metrics) -> None:
    seen = ReplyFacts(parsed=True, input_tokens=7)
    count(stats, leaked=[NATIVE_ID] * 2, upstream=seen, first_token=0.4)
    failed = Outcome("failed", "server_error")
    leaked = [("dsml", "plain name")] * 2
    made = {"leaked": leaked, "calls": 3, "refused": 1, "has_tools": True}
    count(stats, failed, notes={"dropped": 3}, first_token=700.0, **made)
    port = free_port()
    metrics.listen(port)
    found = scrape(port)
    model = {"host": "api.example.com", "model": "kimi-k2.5"}
    labels = model | {"job": "repair", "streamed": "yes", "outcome": "repaired"}
    for name, wanted, value in (
        ("dragoman_flows_total", labels, 1),
        ("dragoman_leaked_calls_total", model | {"format": "kimi_k2", "form": "native id"}, 2),
        ("dragoman_notes_total", {"what": "dropped"}, 3),
        ("dragoman_failures_total", {"reason": "server_error"}, 1),
        ("dragoman_tokens_total", model | {"direction": "input"}, 7),
        ("dragoman_tool_turns_total", model, 1),
        ("dragoman_calls_total", model, 3),
        ("dragoman_leaked_calls_total", model | {"format": "dsml", "form": "plain name"}, 2),
        ("dragoman_refused_calls_total", model, 1),
        ("dragoman_silent_turns_total", model, 0),
        ("dragoman_first_token_seconds_bucket", model | {"le": "0.3"}, 0),
        ("dragoman_first_token_seconds_bucket", model | {"le": "0.5"}, 1),
        ("dragoman_first_token_seconds_bucket", model | {"le": "600.0"}, 1),
        ("dragoman_first_token_seconds_bucket", model | {"le": "+Inf"}, 2),
        ("dragoman_first_token_seconds_count", model, 2),
        ("dragoman_duration_seconds_sum", model, 2.0),
    ):
        assert found[name, frozenset(wanted.items())] == value, name
    count(stats, upstream=ReplyFacts(parsed=True, input_tokens=1))
    assert (
        scrape(port)["dragoman_tokens_total", frozenset((model | {"direction": "input"}).items())]
        == 8
    )


def test_the_port_changes_with_the_option(metrics: Metrics) -> None:
    one, other = free_port(), free_port()
    metrics.listen(one)
    metrics.listen(other)
    scrape(other)
    with pytest.raises(OSError, match=r"refused|timed out"):
        scrape(one)
    metrics.listen(0)
    with pytest.raises(OSError, match=r"refused|timed out"):
        scrape(other)
    metrics.listen(one)
    scrape(one)


def test_a_port_in_use_is_told_and_the_old_one_stays(metrics: Metrics) -> None:
    port = free_port()
    metrics.listen(port)
    refused = pytest.raises(exceptions.OptionsError, match="set it to a port that is free")
    with socket.create_server(("127.0.0.1", 0)) as taken, refused:
        metrics.listen(taken.getsockname()[1])
    scrape(port)


def test_scrapes_and_flows_at_the_same_time_do_not_meet(stats: Stats, metrics: Metrics) -> None:
    port = free_port()
    metrics.listen(port)
    stop = threading.Event()

    def add() -> None:
        n = 0
        while not stop.wait(0.0005):  # a scrape of very many takes long
            count(stats, host=f"host{n}", notes={f"note{n}": 1})
            n += 1

    adding = threading.Thread(target=add)
    adding.start()
    try:
        for _ in range(10):
            found = scrape(port)
            flows = sum(v for (name, _), v in found.items() if name == "dragoman_flows_total")
            notes = sum(v for (name, _), v in found.items() if name == "dragoman_notes_total")
            assert flows == notes
    finally:
        stop.set()
        adding.join()


def test_without_the_package_there_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stats: Stats
) -> None:
    def missing(name: str, *_: Any) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with caplog.at_level(logging.WARNING):
        metrics = Metrics(stats)
        metrics.listen(free_port())
        metrics.stop()
    (record,) = caplog.records
    assert "pip install prometheus-client" in record.getMessage()
