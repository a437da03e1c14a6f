"""What tests against real processes share: upstreams and proxies, started once a session."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import settings

from fixtures.server import Upstream
from tests.live import forking
from tests.live.clients import Clients, not_run
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, Mitmdumps

Mitmdump.forked = forking.available()

FAILED = pytest.StashKey[bool]()
"""Whether the test of this item has failed."""

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
def mitmdump(
    request: pytest.FixtureRequest, mitmdumps: Mitmdumps
) -> Iterator[Callable[..., Mitmdump]]:
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
        if request.node.stash.get(FAILED, False):
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First the tests with processes, then those within this one.

    The first wait now and then: beside them another worker can compute.  They take longest, too,
    so no worker is left with many of them at the end.
    """
    first = tuple(ROOT / "tests" / folder for folder in ("live", "web"))
    items.sort(key=lambda item: not any(map(item.path.is_relative_to, first)))


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no garbage collection need look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell the fixtures of a test that it failed: only then a log is worth its lines."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


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
