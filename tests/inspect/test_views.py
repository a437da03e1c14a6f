"""The views in the mitmproxy that runs, of either generation."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy import contentviews, http
from mitmproxy.test import taddons, tflow

from dragoman.inspect.exchange import Exchange
from dragoman.inspect.pages.page import WIDTH
from dragoman.inspect.stats import Stats
from dragoman.proxy.observe import views
from dragoman.proxy.observe.recorder import FlowRecorder
from tests.inspect.exchanges import of_fixture

NEW = hasattr(contentviews, "registry")
NAMES = ["LLM stream", "LLM upstream", "LLM diff", "LLM request"]


@pytest.fixture(autouse=True)
def installed() -> Iterator[Any]:
    """The views, in a mitmproxy with the options that showing things needs: its master."""
    with taddons.context() as context:
        context.options.add_option("protobuf_definitions", str | None, None, "")
        views.install(Stats())
        yield context.master


def flow(*, watched: bool = True) -> http.HTTPFlow:
    """A repaired flow that has ended, as it is loaded from a file."""
    exchange = of_fixture("kimi_specification")
    made = tflow.tflow(resp=True)
    made.request.headers["content-type"] = "application/json"
    made.request.content = exchange.client_request
    assert made.response
    made.response.headers["content-type"] = "text/event-stream"
    made.response.content = exchange.client_reply
    if watched:
        record = FlowRecorder(made, "repair", keep=10**6)
        record.streamed = True
        record.evidence = exchange.evidence
        record.reply.add(exchange.upstream_reply, exchange.client_reply)
        record.outcome = exchange.outcome_by(exchange.facts)
        record.end(made)
    return made


def shown(message: Any, of: http.HTTPFlow, name: str = "auto") -> tuple[str, str]:
    """The text that mitmproxy shows, and the view it chose if it says which."""
    if NEW:
        result = contentviews.prettify_message(message, of, name)
        return result.text, result.view_name or ""
    legacy: Any = contentviews
    description, lines, error = legacy.get_message_content_view(name, message, of)
    assert error is None
    return "\n".join("".join(text for _, text in line) for line in lines), description.strip()


def test_a_watched_flow_is_shown_as_a_turn_and_its_request_as_a_conversation() -> None:
    made = flow()
    text, view = shown(made.response, made)
    assert view == "LLM stream" and text.startswith("✓ 2 calls bash, read · ")
    text, view = shown(made.request, made)
    assert view == "LLM request" and "── 1 system ──" in text


def test_other_flows_are_shown_as_ever() -> None:
    made = flow(watched=False)
    for message in (made.request, made.response):
        assert shown(message, made)[1] not in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_view_can_be_chosen_for_either_message(name: str) -> None:
    made = flow()
    assert shown(made.response, made, name) == shown(made.request, made, name)
    assert len(shown(made.response, made, name)[0].split("\n")) > 3
    unwatched = flow(watched=False)
    text, _ = shown(unwatched.response, unwatched, name)
    assert text == "Dragoman has no record of this flow."


def test_views_of_an_earlier_load_are_replaced() -> None:
    views.install(Stats())
    if NEW:
        names = [view.name for view in contentviews.registry.values()]
    else:
        legacy: Any = contentviews
        names = [view.name for view in legacy.views]
    assert [names.count(name) for name in NAMES] == [1, 1, 1, 1]


def test_a_fault_in_a_page_is_logged_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Exchange) -> Any:
        raise RuntimeError("boom")

    monkeypatch.setattr(views, "VIEWS", (views._View("LLM stream", broken, "response"),))
    views.install(Stats())
    made = flow()
    with caplog.at_level(logging.ERROR):
        assert "cannot be shown" in shown(made.response, made)[0]
    assert "boom" in caplog.text


def test_texts_fill_the_window_of_the_console(installed: Any) -> None:
    of, text = flow(), "several words " * 20
    body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    record = FlowRecorder(of, "watch", keep=10**6)
    record.reply.add(body, body)
    record.end(of)

    def lines() -> list[str]:
        page = shown(of.response, of, "LLM stream")[0]
        return [line.strip() for line in page.splitlines() if "words" in line]

    narrow = lines()
    installed.ui = SimpleNamespace(get_cols_rows=lambda: (100, 40))
    wide = lines()
    assert max(map(len, narrow)) <= WIDTH - 4 < max(map(len, wide)) <= 96
    assert " ".join(wide) == " ".join(narrow) == text.strip(), "at words"
