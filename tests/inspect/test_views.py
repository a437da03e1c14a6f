"""The views in the mitmproxy that runs, of either generation."""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mitmproxy import contentviews, http
from mitmproxy.test import taddons, tflow

from dragoman.inspect.exchange import Exchange
from dragoman.inspect.stats import Stats
from dragoman.proxy.observe import views
from dragoman.proxy.observe.recorder import KEY
from tests.inspect.exchanges import of_fixture

NEW = hasattr(contentviews, "registry")
NAMES = ["LLM stream", "LLM upstream", "LLM diff", "LLM request"]


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """The views, in a mitmproxy with the options that showing things needs."""
    with taddons.context() as context:
        context.options.add_option("protobuf_definitions", str | None, None, "")
        views.install(Stats())
        yield


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
        upstream = {"upstream": exchange.upstream_reply, "missing": [0, 0]}
        made.metadata[KEY] = {"job": "repair", **upstream}
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


# What mitmproxy's files can hold.
VALUES: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=48)
    | st.floats(-1, 5).map(lambda number: struct.pack("<3d", number, number, math.nan))
    | st.lists(st.floats() | st.integers(-2, 9), min_size=3, max_size=3).map(
        lambda numbers: struct.pack("<3d", *(float(number) for number in numbers))
    )
    | st.lists(st.floats(), min_size=2, max_size=2)
    | st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NOTES = (
    *("job", "request", "upstream", "missing", "told", "told_request", "calls", "forms"),
    *("refused", "tools", "steps", "ended"),
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(notes=st.dictionaries(st.sampled_from([*NOTES, "status"]), VALUES))
def test_a_flow_whose_notes_are_damaged_is_shown(
    notes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    made = flow()
    made.metadata[KEY] |= notes
    for name in NAMES:
        assert "cannot be shown" not in shown(made.response, made, name)[0]
    assert caplog.text == ""


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1.0, 1e300])
@pytest.mark.parametrize("note", ["steps", "ended"])
def test_times_that_are_none_are_left_out(
    note: str, number: float, caplog: pytest.LogCaptureFixture
) -> None:
    made = flow()
    sound = {"steps": struct.pack("<3d", 0.5, 10.0, 20.0), "ended": [1.5, 0.5]}
    made.metadata[KEY] |= sound
    assert "1.50 s" in shown(made.response, made)[0]
    damaged = {"steps": struct.pack("<3d", 0.5, number, 20.0), "ended": [number, 0.5]}
    made.metadata[KEY] |= {note: damaged[note]}
    text = shown(made.response, made)[0]
    assert text.startswith("✓ 2 calls bash, read · ") and "1.50 s" not in text
    assert caplog.text == ""


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
