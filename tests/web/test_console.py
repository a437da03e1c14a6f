"""mitmproxy's console shows the same as mitmweb: the growing stream, its mark, its comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fixtures.server import Upstream
from tests.live.mitmdump import make_confdir
from tests.web.console import Console
from tests.web.mitmweb import ask

pytestmark = pytest.mark.slow

FIXTURE = "kimi_specification;cut=event;pace=0.06"
MARKER = "<|tool_call_begin|>"


@pytest.fixture(scope="module")
def console(tls_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    confdir = tmp_path_factory.mktemp("console")
    make_confdir(confdir)
    with Console(confdir, tls_upstream) as console:
        yield console


def test_a_stream_grows_in_the_console_and_is_signed(console: Console) -> None:
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(ask, console, "bridge", FIXTURE)
        console.wait_for("/kimi_specification", "↔")
        console.press("Enter")
        console.wait_for("Request", "Response", "Detail")
        console.press("Tab")
        early = console.wait_for("I need to look")
        assert not reply.done()
        assert "LLM stream" in early
        assert "grep asm" not in early
        later = console.wait_for("grep asm")
        assert not reply.done()
        assert "errno.h" not in later
        assert reply.result().complete
    console.wait_for("errno.h", "LLM stream")
    console.press("Tab")
    screen = console.wait_for("Comment:")
    assert re.search(
        r"Comment: ✓ 2 calls bash, read · bridge · kimi-k2\.5 · 2 repaired from kimi_k2 · "
        r"133 tok · first 0\.\d",
        screen,
    )
    console.press("q")


def test_another_view_can_be_chosen(console: Console) -> None:
    assert ask(console, "repair", "kimi_specification;key=chosen").complete
    console.wait_for(";key=chosen")
    console.press("G", "Enter")
    console.wait_for("Detail", ";key=chosen")
    stream = console.turn_to("I need to look at the headers first.")
    assert MARKER not in stream
    console.press("m")
    menu = console.wait_for("llm diff")
    key = re.search(r"(\w)\) llm diff", menu)
    assert key
    console.press(key[1])
    console.wait_for(MARKER)
    console.press("q")


def test_the_self_test_answers_in_the_status_line(console: Console) -> None:
    console.type(":dragoman.selftest")
    console.press("Enter")
    console.wait_for("The self-test has ended: repair works, bridge works")
    console.press("q")
