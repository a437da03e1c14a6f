"""`make pictures`: the two pictures of the README, taken of a real mitmweb.

python -m tests.web.pictures
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect

from fixtures.server import Upstream
from tests.live.mitmdump import make_confdir
from tests.web.demo import PACED, TRAFFIC
from tests.web.mitmweb import Mitmweb, ask
from tests.web.screen import Screen, chromium

FOLDER = Path(__file__).with_name("pictures")
VIEWS = {"stream.png": (1, "LLM stream"), "diff.png": (0, "LLM diff")}
"""For each picture, which flow of the demo it shows, and how."""


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Upstream(tls=True) as upstream,
        chromium() as browser,
    ):
        make_confdir(Path(folder))
        with Mitmweb(Path(folder), upstream) as proxy:
            for job, fixture in TRAFFIC:
                ask(proxy, job, fixture + PACED)
            take(browser, proxy, FOLDER)


def take(browser: Browser, proxy: Mitmweb, folder: Path) -> None:
    """Write the pictures into a folder."""
    folder.mkdir(exist_ok=True)
    screen = Screen(browser, proxy.web_url)
    for name, (row, view) in VIEWS.items():
        screen.page.locator(".flow-table tbody tr:has(td)").nth(row).click()
        screen.tab("Response")
        screen.choose(view)
        expect(screen.text).to_contain_text("bash")
        screen.page.screenshot(path=folder / name)


if __name__ == "__main__":
    main()
