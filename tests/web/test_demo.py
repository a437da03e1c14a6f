"""`make demo-web` shows what it says, and leaves nothing running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest
from playwright.sync_api import Browser, expect

from tests.live.mitmdump import ROOT
from tests.web import demo
from tests.web.screen import Screen

pytestmark = pytest.mark.slow


def test_make_demo_web_gives_a_mitmweb_with_traffic_until_it_is_interrupted(
    browser: Browser,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.web.demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout
        said = []
        for line in process.stdout:
            said.append(line)
            if opened := re.match(r"Open (\S+)", line):
                break
        else:
            pytest.fail("".join(said))
        screen = Screen(browser, opened[1])
        rows = screen.page.locator(".flow-table tbody tr:has(td)")
        expect(rows).to_have_count(len(demo.TRAFFIC) + 1)
        clean = rows.nth(demo.TRAFFIC.index(("repair", "clean_text")))
        expect(clean).to_contain_text("clean · ")
        expect(rows.last).to_contain_text("… running · bridge · ")
        screen.page.close()
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: mitmweb gets it, too
        rest, _ = process.communicate(timeout=15)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest
