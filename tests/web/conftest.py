"""The mitmweb and the browser that tests look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fixtures.server import Upstream
from tests.live.mitmdump import make_confdir
from tests.web.console import find_tmux
from tests.web.mitmweb import Mitmweb
from tests.web.screen import Screen, chromium, find_chromium


def pytest_runtest_setup(item: pytest.Function) -> None:
    """Without its program each test counts as not run, not only the first of a module."""
    if "browser" in item.fixturenames:
        find_chromium()
    if "console" in item.fixturenames:
        find_tmux()


# Not of the whole session: while it lives, nothing else in this thread can use asyncio.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def confdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    confdir = tmp_path_factory.mktemp("mitmweb")
    make_confdir(confdir)
    return confdir


@pytest.fixture(scope="module")
def mitmweb(confdir: Path, tls_upstream: Upstream) -> Iterator[Mitmweb]:
    """A mitmweb for the tests of a module; nothing may have failed in it at their end."""
    with Mitmweb(confdir, tls_upstream) as running:
        yield running
        print(running.log)
        running.check_log()


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[[Mitmweb], Screen]]:
    """Opens a window of a mitmweb: `look(mitmweb)`."""
    screens: list[Screen] = []

    def look(at: Mitmweb) -> Screen:
        screens.append(Screen(browser, at.web_url))
        return screens[-1]

    yield look
    for screen in screens:
        screen.page.close()
