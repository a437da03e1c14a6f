"""A person sees a stream grow while it runs, and mitmweb is not kept busy with that."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser

from fixtures.server import FOLDER, Upstream
from tests.live import wire
from tests.waiting import eventually
from tests.web.mitmweb import Mitmweb, ask
from tests.web.screen import Screen

pytestmark = pytest.mark.slow

PACE = 0.06
"""Seconds between the 40 events of the fixture, but for `HOLDS`."""
HOLDS = (5, 20, 33)
"""Events after which the upstream waits until all of them were seen in the window."""
_EVENTS = (FOLDER / "kimi_specification" / "upstream.sse").read_bytes().split(b"\n\n")
SENT = [len(b"\n\n".join(_EVENTS[:events])) + 2 for events in HOLDS]
"""The bytes of these events, which the window shows."""
OF_ANY_FLOW = 16
"""What mitmweb is told at the beginning and the end of any flow, and at the pauses in a long one;
a busy machine makes more of these."""
MARKS = {"repair": ["▶", "⚙"], "bridge": ["↔", "⚒"]}
"""From the moment of interception, and once a call was repaired."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What stood in the window at one moment."""

    view: str
    text: str
    comment: str
    marker: str


@dataclass(slots=True)
class Watched:
    """A stream that somebody looked at from its beginning to its end."""

    job: str
    running: list[Sight] = field(default_factory=list)
    """While it ran."""
    ended: Sight = Sight("", "", "", "")
    seconds: float = 0.0
    updates: int = 0
    """How often mitmweb sent the flow to the window."""
    reply: wire.Reply = field(default_factory=wire.Reply)


@pytest.fixture(scope="module", params=["repair", "bridge"])
def watched(
    request: pytest.FixtureRequest, browser: Browser, mitmweb: Mitmweb, tls_upstream: Upstream
) -> Iterator[Watched]:
    job: str = request.param
    screen = Screen(browser, mitmweb.web_url)
    path = f"kimi_specification;key={job}"
    watched = Watched(job)

    def sight() -> Sight:
        shown = (screen.view, screen.text, screen.comment(path), screen.marker(path))
        return Sight(*("".join(locator.all_inner_texts()).strip() for locator in shown))

    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        options = f"cut=event;pace={PACE};hold={','.join(map(str, HOLDS))}"
        reply = pool.submit(ask, mitmweb, job, f"{path};{options}")
        screen.open(path)
        held = [f"{sent:,} bytes" for sent in SENT]
        while not reply.done():
            watched.running.append(sight())
            last = watched.running[-1]
            if held and held[0] in last.text and "llm stream" in last.view.lower():
                del held[0]
                tls_upstream.release("kimi_specification")
            screen.page.wait_for_timeout(100)
        watched.seconds = time.monotonic() - began
        watched.reply = reply.result()
    eventually(lambda: sight().comment.startswith("✓"))
    screen.page.wait_for_timeout(300)
    watched.ended = sight()
    watched.updates = sum(path in flow["request"]["path"] for flow in screen.updates)
    print("\n".join(map(repr, [*watched.running, watched.ended])))
    yield watched
    screen.page.close()


def test_the_client_receives_its_stream_while_it_is_looked_at(watched: Watched) -> None:
    assert watched.reply.complete
    assert watched.reply.status == 200


def test_the_text_grows_in_the_stream_view(watched: Watched) -> None:
    texts = [sight.text for sight in watched.running if "llm stream" in sight.view.lower()]
    reasoning = next(text for text in texts if "I need to look" in text)
    assert "errno.h" not in reasoning
    assert len({len(text) for text in texts}) >= len(HOLDS)
    assert "errno.h" in watched.ended.text


def test_the_flow_is_commented_and_marked_while_it_runs(watched: Watched) -> None:
    assert all(sight.comment for sight in watched.running[len(watched.running) // 2 :])
    marks = [sight.marker.strip("\ufe0f") for sight in watched.running if sight.marker]
    assert list(dict.fromkeys(marks)) == MARKS[watched.job]
    comments = [sight.comment for sight in watched.running if sight.comment]
    assert all(comment.startswith(f"… running · {watched.job}") for comment in comments[:-1])


def test_the_comment_says_at_the_end_what_became_of_it(watched: Watched) -> None:
    assert re.fullmatch(
        rf"✓ 2 calls bash, read · {watched.job} · \S*[Kk]imi-[Kk]2\.5\S* · 2 repaired from kimi_k2"
        r" · 133 tok · first \d\.\d s",
        watched.ended.comment,
    )


def test_mitmweb_is_told_at_most_twice_a_second(watched: Watched) -> None:
    assert 3 < watched.updates <= 2 * watched.seconds + OF_ANY_FLOW
