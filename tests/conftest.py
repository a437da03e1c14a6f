"""What tests against real processes share: upstreams and proxies, started once a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from fixtures.server import Upstream
from tests.live import forking
from tests.live.clients import Clients, not_run
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, Mitmdumps

Mitmdump.forked = forking.available()

settings.register_profile("untimed", settings.default, deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def tls_upstream() -> Iterator[Upstream]:
    """The replaying upstream over TLS, with HTTP/1.1 and HTTP/2."""
    with Upstream(tls=True) as upstream:
        yield upstream


@pytest.fixture(scope="session")
def plain_upstream() -> Iterator[Upstream]:
    """The replaying upstream without TLS."""
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="session")
def mitmdumps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mitmdumps]:
    running = Mitmdumps(tmp_path_factory.mktemp("mitmdump"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def clients() -> Iterator[Clients]:
    """Official clients, by script: `clients.get("openai_python.py", environment).ask(…)`."""
    running = Clients()
    yield running
    running.stop()


@pytest.fixture
def mitmdump(mitmdumps: Mitmdumps) -> Iterator[Callable[..., Mitmdump]]:
    """Gives a running mitmdump for some arguments, shared by all tests that ask for the same.

    `mitmdump("--set", "dragoman_kimi_text=field")`.  At the end of the test its log must
    hold as many tracebacks as the test expected: none, unless it set `expected_tracebacks`.
    """
    used: list[Mitmdump] = []

    def get(*arguments: str, **options: object) -> Mitmdump:
        proxy = mitmdumps.get(*arguments, **options)
        if proxy not in used:
            proxy.mark()
            used.append(proxy)
        return proxy

    yield get
    for proxy in used:
        # pytest shows it where a test failed.
        print(f"log of the mitmdump at {proxy.url}:\n{proxy.log}")
        proxy.check_log()


@pytest.fixture
def rerouted(mitmdump: Callable[..., Mitmdump]) -> Callable[..., Mitmdump]:
    """Gives a mitmdump for which every host name is an upstream: `rerouted(upstream)`."""

    def get(upstream: Upstream, *arguments: str) -> Mitmdump:
        scripts = (ADDON, ROOT / "tests" / "live" / "reroute.py")
        address = f"{upstream.host}:{upstream.port}"
        return mitmdump("--set", f"reroute={address}", *arguments, scripts=scripts)

    return get


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Under xdist, hand what could not run to the process that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["not_run"] = not_run


def pytest_testnodedown(node: object) -> None:
    not_run.extend(getattr(node, "workeroutput", {}).get("not_run", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for missing, count in Counter(not_run).items():
        terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
        terminalreporter.line(f"{count} tests: {missing}", red=True)
