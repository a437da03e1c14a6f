"""What several of these files start: a bridge, and upstreams of which nothing is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fixtures.server import Upstream
from tests.live.mitmdump import Mitmdump
from tests.live.responses import Bridge
from tests.live.unknown_host import Host, UnknownHosts

GetMitmdump = Callable[..., Mitmdump]


@pytest.fixture
def bridge(plain_upstream: Upstream, mitmdump: GetMitmdump) -> Bridge:
    """The upstream behind its reverse proxy, which bridges everything."""
    arguments = "--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"
    return Bridge(plain_upstream, mitmdump(*arguments))


@pytest.fixture(scope="session")
def unknown() -> Iterator[UnknownHosts]:
    with UnknownHosts() as upstream:
        yield upstream


@pytest.fixture(scope="session")
def unknown_tls() -> Iterator[UnknownHosts]:
    with UnknownHosts(tls=True) as upstream:
        yield upstream


@pytest.fixture
def host(unknown: UnknownHosts, mitmdump: GetMitmdump) -> Host:
    """One of which nothing is known yet."""
    proxy = mitmdump("--mode", f"reverse:{unknown.url}")
    return Host(unknown, proxy, proxy.url)
