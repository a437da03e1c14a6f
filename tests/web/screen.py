"""mitmweb in a browser window, used as a person uses it.

The browser is Chromium as the system installs it, found by its name; none is ever
downloaded.  It runs headless and asks nothing of the network but the page it is given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Locator, Page, WebSocket, expect, sync_playwright

from tests.live.clients import need_command

SIZE = {"width": 1400, "height": 900}
PATIENCE = 20_000
"""Milliseconds for what is to appear, on a machine that has much else to do."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str:
    """The program; without it the test cannot run."""
    return need_command(*_NAMES, install="install Chromium (Debian: apt-get install chromium)")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    program = find_chromium()
    no_sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=[*_ARGUMENTS, *no_sandbox]
        )
        yield browser
        browser.close()


class Screen:
    """One window of a mitmweb."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.page: Page = browser.new_page(viewport=SIZE)
        self.page.set_default_timeout(PATIENCE)
        self.updates: list[dict[str, Any]] = []
        """The changed flows that mitmweb told the window of."""
        self.page.on("websocket", self._listen)
        self.page.goto(url)
        expect(self.page.get_by_text("connected", exact=True)).to_be_visible()

    def _listen(self, connection: WebSocket) -> None:
        connection.on("framereceived", self._receive)

    def _receive(self, frame: str | bytes) -> None:
        message = json.loads(frame)
        if message.get("type") == "flows/update":
            self.updates.append(message["payload"]["flow"])
        elif (message.get("resource"), message.get("cmd")) == ("flows", "update"):
            self.updates.append(message["data"])

    # The flow list

    def row(self, path: str) -> Locator:
        """The row of the flow whose path holds `path`."""
        return self.page.locator(".flow-table tr", has_text=path)

    def comment(self, path: str) -> Locator:
        return self.row(path).locator(".col-comment")

    def marker(self, path: str) -> Locator:
        return self.row(path).locator(".marker")

    # One flow

    def open(self, path: str, tab: str = "Response") -> None:
        """Click on a flow, then on one of its tabs."""
        self.row(path).click()
        self.tab(tab)

    def tab(self, name: str) -> None:
        self.page.locator(".flow-detail nav").get_by_text(name, exact=True).click()

    @property
    def view(self) -> Locator:
        """The name of the view that is shown."""
        return self.page.locator(".contentview .controls h5")

    @property
    def text(self) -> Locator:
        """What the view shows of the body."""
        return self.page.locator(".contentview pre")

    def choose(self, view: str) -> None:
        """Choose a view by hand, and wait until it is shown."""
        self.page.locator(".contentview .controls").get_by_text("View:").click()
        same = re.compile(rf"^{re.escape(view)}$", re.IGNORECASE)
        self.page.locator(".dropdown-menu").get_by_text(same).click()
        if view != "auto":
            expect(self.view).to_have_text(re.compile(re.escape(view), re.IGNORECASE))

    def show_all(self) -> str:
        """All that the view has to show, which it gives some lines at a time."""
        more = self.page.get_by_role("button", name="Show more")
        while more.is_visible():
            more.click()
        return self.text.inner_text()

    # The menus and the command bar

    def menu(self, name: str, entry: str) -> None:
        """Choose an entry of a menu in the top row."""
        self.page.locator("header nav").get_by_text(name, exact=True).click()
        self.page.get_by_text(re.compile(rf"^\s*{re.escape(entry)}\s*$")).click()

    def run(self, command: str) -> str:
        """Type a command in the command bar; the text that it answers."""
        entry = self.page.get_by_placeholder("Enter command")
        if not entry.is_visible():
            self.menu("Options", "Display Command Bar")
        answers = self.page.locator(".command-result > div")
        before = answers.count()
        entry.fill(command)
        entry.press("Enter")
        expect(answers).to_have_count(before + 1)
        return answers.last.inner_text().partition("\n")[2]
