"""What several of these files start: a bridge, and upstreams of which nothing is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live.claude_code import CLAUDE, CLAUDE_BEFORE, Claude
from tests.live.clients import need
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


@pytest.fixture(params=[CLAUDE, CLAUDE_BEFORE], ids=["newest", "before"])
def claude(
    request: pytest.FixtureRequest,
    tls_upstream: Upstream,
    rerouted: Callable[..., Mitmdump],
    tmp_path: Path,
) -> Claude:
    program = next(request.param.glob("claude-code-*/claude"), request.param / "claude-code-*")
    need(program, "install npm, then `make test-clients` sets up Claude Code")
    (tmp_path / "work").mkdir()
    key = re.sub(r"\W", "", f"{request.module.__name__}{request.node.name}")
    return Claude(tls_upstream, rerouted(tls_upstream), tmp_path, key, program)
