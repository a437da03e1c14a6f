"""The addon's commands, typed into mitmweb's command bar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from fixtures.server import FOLDER
from tests.live import wire
from tests.web.mitmweb import HOST, Mitmweb, ask
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


@pytest.mark.parametrize("flow", ["@focus", "'~u key=repair'"])
def test_replay_finds_nothing_changed(screen: Screen, flow: str) -> None:
    """The focus is on the first flow: mitmweb does not move it with a click."""
    lines = json.loads(screen.run(f"dragoman.replay {flow}"))
    assert lines
    assert all("unchanged" in line for line in lines)


def test_a_conversation_is_shown_alone(finished: Mitmweb, screen: Screen) -> None:
    body = b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "Hi"}]}'
    url = f"{HOST}/clean_text/v1/chat/completions"
    assert wire.exchange(url, body, proxy=finished.url).complete
    rows = screen.page.locator(".flow-table tbody tr:has(td)")
    expect(rows).to_have_count(3)
    screen.run("dragoman.chain @focus")
    expect(rows).to_have_count(2)
    screen.run("view.filter.set ''")
    expect(rows).to_have_count(3)


def test_stats_are_a_view_as_well(screen: Screen) -> None:
    screen.open("key=repair")
    screen.choose("LLM statistics")
    expect(screen.text).to_contain_text(re.compile(r"\d  flows"))


def test_export_writes_a_fixture(screen: Screen, tmp_path: Path) -> None:
    folder = tmp_path / "exported"
    lines = json.loads(screen.run(f"dragoman.export @focus {folder}"))
    assert str(folder) in lines[0]
    sent = (FOLDER / FIXTURE / "upstream.sse").read_bytes()
    assert (folder / "upstream.sse").read_bytes() == sent
    assert json.loads((folder / "request.json").read_bytes())["model"] == "kimi-k2.5"


def test_export_refuses_a_folder_that_is_in_use(screen: Screen, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("not yours")
    assert "is not empty; name a new folder" in screen.run(f"dragoman.export @focus {tmp_path}")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
