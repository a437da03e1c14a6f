"""The dashboard for Grafana asks for what a scrape has."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from dragoman.inspect.outcome import Outcome
from dragoman.inspect.stats import Stats
from dragoman.proxy.observe.metrics import Metrics
from tests.inspect.test_metrics import free_port, scrape
from tests.inspect.test_stats import NATIVE_ID, count
from tests.live.mitmdump import ROOT

pytest.importorskip("prometheus_client.parser")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
QUERIES = [each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each]
_SELECTED = re.compile(r"\bdragoman_\w+")
_LABELS = re.compile(r"by \(([^)]*)\)|label_values\(\w+, (\w+)\)|[{,] ?(\w+)=~")


@pytest.fixture(scope="module")
def scraped() -> dict[str, set[str]]:
    """The labels of each metric."""
    stats = Stats()
    count(stats, leaked=[NATIVE_ID], calls=1, has_tools=True, first_token=0.4)
    count(stats, Outcome("failed", "server_error"))
    metrics, port = Metrics(stats), free_port()
    metrics.listen(port)
    try:
        labels: dict[str, set[str]] = {}
        for name, values in scrape(port):
            labels.setdefault(name, set()).update(label for label, _ in values)
        return labels
    finally:
        metrics.stop()


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *QUERIES])
def test_each_expression_asks_for_metrics_and_labels_that_there_are(
    expression: str, scraped: dict[str, set[str]]
) -> None:
    names = _SELECTED.findall(expression)
    assert names
    asked = {
        label.strip()
        for groups in _LABELS.findall(expression)
        for part in groups
        for label in part.split(",")
        if label.strip()
    }
    for name in names:
        assert name in scraped
        assert asked <= scraped[name], name


def test_leaks_outcomes_and_refused_arguments_are_shown_and_no_panel_covers_another() -> None:
    for family in ("leaked_calls", "flows", "refused_calls"):
        assert any(f"dragoman_{family}_total" in expression for expression in EXPRESSIONS)
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
