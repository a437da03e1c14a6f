"""The addon's commands, typed into mitmweb's command bar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.web.mitmweb import Mitmweb, ask
from tests.web.screen import Screen

pytestmark = pytest.mark.slow

FIXTURE = "kimi_specification"


@pytest.fixture(scope="module")
def finished(mitmweb: Mitmweb) -> Mitmweb:
    """A mitmweb with one bridged flow, and one repaired behind it."""
    for job in ("bridge", "repair"):
        assert ask(mitmweb, job, f"{FIXTURE};key={job}").complete
    return mitmweb


@pytest.fixture(scope="module")
def screen(finished: Mitmweb, browser: Browser) -> Iterator[Screen]:
    """One window for all: to open one takes longer than all that is done in it."""
    screen = Screen(browser, finished.web_url)
    yield screen
    screen.page.close()


def test_stats_counts_what_was_done(screen: Screen) -> None:
    rows = dict(json.loads(screen.run("dragoman.stats")))
    assert rows["flows"] == "2"
    assert rows["bridged"] == "1"
    assert rows["calls repaired"] == "4"
    assert rows["tokens out"] == str(2 * 133)


def test_the_self_test_answers_in_the_command_bar(screen: Screen) -> None:
    assert "give the command again" in screen.run("dragoman.selftest")
    while "is running" in (answer := screen.run("dragoman.selftest")):
        pass
    assert [each.partition(":")[2][:6] for each in json.loads(answer)] == [" works"] * 2


def test_stats_are_a_view_as_well(screen: Screen) -> None:
    screen.open("key=repair")
    screen.choose("LLM statistics")
    expect(screen.text).to_contain_text(re.compile(r"\d  flows"))
