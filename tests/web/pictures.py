"""`make pictures`: those of the README and the docs, taken of a real mitmweb.

python -m tests.web.pictures
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.web.demo import mitmweb_with_traffic
from tests.web.mitmweb import Mitmweb
from tests.web.screen import Screen, chromium

FOLDER = Path(__file__).with_name("pictures")
LIST = "list.png"
VIEWS = {"stream.png": (1, "LLM stream"), "diff.png": (0, "LLM diff")}
"""For each picture of an open flow, which of the demo's it is, and how it is shown."""


def main() -> None:
    with mitmweb_with_traffic() as proxy, chromium() as browser:
        take(browser, proxy, FOLDER)


def take(browser: Browser, proxy: Mitmweb, folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(exist_ok=True)
    screen = Screen(browser, proxy.web_url)
    rows = screen.page.locator(".flow-table tbody tr:has(td)")
    expect(rows.first).to_contain_text("✓ 2 calls bash, read")
    screen.page.screenshot(path=folder / LIST)
    for name, (row, view) in VIEWS.items():
        rows.nth(row).click()
        screen.tab("Response")
        screen.choose(view)
        expect(screen.text).to_contain_text("bash")
        screen.page.screenshot(path=folder / name)


if __name__ == "__main__":
    main()
