"""What a person finds in the tabs of a flow, in mitmweb and again after loading it there."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from fixtures.server import Upstream
from tests.web import pictures
from tests.web.mitmweb import Mitmweb, ask
from tests.web.screen import SIZE, Screen

pytestmark = pytest.mark.slow

SENT = {
    "repair": "kimi_specification;key=repair",
    "bridge": "kimi_specification;key=bridge",
    "clean": "clean_text;key=clean",
}
REPLY_VIEWS = ("LLM stream", "LLM upstream", "LLM diff")
MARKER = "<|tool_call_begin|>"
Look = Callable[[Mitmweb], Screen]


@pytest.fixture(scope="module")
def finished(mitmweb: Mitmweb) -> Mitmweb:
    """A mitmweb that has a flow of each kind, all ended."""
    for kind, fixture in SENT.items():
        assert ask(mitmweb, "bridge" if kind == "bridge" else "repair", fixture).complete
    return mitmweb


@pytest.fixture(scope="module")
def loaded(
    browser: Browser,
    finished: Mitmweb,
    confdir: Path,
    tls_upstream: Upstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mitmweb]:
    """Another mitmweb, which has loaded what a person saved in the first."""
    file = tmp_path_factory.mktemp("saved") / "flows"
    screen = Screen(browser, finished.web_url)
    with screen.page.expect_download() as download:
        screen.menu("File", "Save")
    download.value.save_as(file)
    screen.page.close()
    with Mitmweb(confdir, tls_upstream, "--rfile", str(file)) as running:
        yield running
        print(running.log)
        running.check_log()


def named(view: str) -> re.Pattern[str]:
    return re.compile(re.escape(view), re.IGNORECASE)


@pytest.mark.parametrize("kind", ["repair", "bridge"])
def test_a_flow_is_shown_in_each_of_its_views(finished: Mitmweb, look: Look, kind: str) -> None:
    screen = look(finished)
    screen.open(SENT[kind], "Request")
    expect(screen.view).to_have_text(named("LLM request"))
    expect(screen.text).to_contain_text("headers")
    asked = screen.show_all()
    assert "bash" in asked
    assert "read" in asked
    screen.tab("Response")
    # Chosen by itself, as nobody has chosen another.
    expect(screen.view).to_have_text(named("LLM stream"))
    expect(screen.text).to_contain_text("I need to look at the headers first.")
    said = screen.show_all()
    for text in ("bash", "ls -la /usr/include | grep asm", "/usr/include/asm-generic/errno.h"):
        assert text in said
    assert MARKER not in said
    screen.choose("LLM upstream")
    expect(screen.text).to_contain_text("I need")
    assert MARKER in screen.show_all()
    screen.choose("LLM diff")
    expect(screen.text).to_contain_text("bash")
    assert MARKER in screen.show_all()
    screen.tab("Comment")
    expect(screen.page.locator(".flow-detail")).to_contain_text(f"✓ 2 calls bash, read · {kind}")


def test_a_clean_flow_is_shown_and_not_marked(finished: Mitmweb, look: Look) -> None:
    screen = look(finished)
    expect(screen.marker(SENT["repair"])).to_have_text("⚙")
    expect(screen.marker(SENT["clean"])).to_have_text("")
    screen.open(SENT["clean"])
    expect(screen.view).to_have_text(named("LLM stream"))
    expect(screen.text).to_contain_text("The answer")


def test_a_loaded_flow_shows_the_same(finished: Mitmweb, loaded: Mitmweb, look: Look) -> None:
    screens = [look(mitmweb) for mitmweb in (finished, loaded)]
    for kind in ("repair", "bridge"):
        seen = [everything(screen, SENT[kind]) for screen in screens]
        for name, text in seen[0].items():
            assert text, name
            assert text == seen[1][name], name


def test_the_pictures_of_the_readme_can_be_taken(
    browser: Browser, finished: Mitmweb, tmp_path: Path
) -> None:
    pictures.take(browser, finished, tmp_path)
    for name in (pictures.LIST, *pictures.VIEWS):
        picture = (tmp_path / name).read_bytes()
        assert len(picture) < 300_000
        assert struct.unpack(">2I", picture[16:24]) == (SIZE["width"], SIZE["height"])


def everything(screen: Screen, path: str) -> dict[str, str]:
    """All that a person can read of a flow."""
    shown = {
        "comment": screen.comment(path).inner_text(),
        "marker": screen.marker(path).inner_text(),
    }
    screen.open(path, "Request")
    expect(screen.view).to_have_text(named("LLM request"))
    shown["LLM request"] = screen.show_all()
    screen.tab("Response")
    for view in REPLY_VIEWS:
        screen.choose(view)
        shown[view] = screen.show_all()
    return shown
