"""What several of these files start: a bridge, and upstreams that are asked what they speak."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fixtures.server import Upstream
from tests.live.asked import Asked, Host
from tests.live.mitmdump import ADDON, ROOT, Mitmdump
from tests.live.responses import Bridge

GetMitmdump = Callable[..., Mitmdump]


@pytest.fixture
def bridge(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Bridge:
    """The upstream behind its reverse proxy, which bridges everything."""
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    return Bridge(plain_upstream, mitmdump(*arguments))


@pytest.fixture(scope="session")
def asked() -> Iterator[Asked]:
    with Asked() as upstream:
        yield upstream


@pytest.fixture(scope="session")
def asked_tls() -> Iterator[Asked]:
    with Asked(tls=True) as upstream:
        yield upstream


@pytest.fixture
def host(asked: Asked, mitmdump: GetMitmdump) -> Host:
    """One of which nothing is known yet."""
    answers = ROOT / "tests" / "live" / "answers.py"
    proxy = mitmdump("--mode", f"reverse:{asked.url}", scripts=(ADDON, answers))
    return Host(asked, proxy, proxy.url)
