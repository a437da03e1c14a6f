"""What tests against real processes share: upstreams and proxies, started once a session."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fixtures.server import Upstream
from tests.live import forking
from tests.live.clients import Clients, not_run
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, Mitmdumps
from tests.repair import streams

gc.disable()
Mitmdump.forked = forking.available()

FAILED = pytest.StashKey[bool]()
"""Whether the test of this item has failed."""

settings.register_profile("enough", settings.default, deadline=None, max_examples=40)
settings.register_profile("thorough", settings.default, deadline=None, max_examples=400)
settings.load_profile("enough")
QUICK_ROWS = 12
"""Of a table, in `make quick`."""
_LONGEST = ("test_expressions.py", "test_command.py", "test_stores.py", "test_soak_streams.py")
LONGEST = {name: place for place, name in enumerate(_LONGEST)}
"""Files that take longest, in this order, of those that would come late by their names."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="fewer rows and cuts: `make quick`")
    parser.addoption("--thorough", action="store_true", help="every cut, and more generated input")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        streams.CUTS = 4
    if config.getoption("thorough"):
        settings.load_profile("thorough")
        streams.CUTS = 100_000


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Quick tests need no client's package, each of which takes seconds to import."""
    if config.getoption("quick") and collection_path.suffix == ".py":
        return "pytest.importorskip(" in collection_path.read_text() or None
    return None


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
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """First the tests with processes, then the longest files, then all others.

    The first wait now and then: beside them another worker can compute.  What takes longest is not
    left for the end, where one worker would be busy with it and the others with nothing.
    """
    if config.getoption("quick"):
        _keep_quick(config, items)
    processes = tuple(f"{ROOT / 'tests' / folder}/" for folder in ("live", "web"))
    items.sort(
        key=lambda item: (
            not str(item.path).startswith(processes),
            LONGEST.get(item.path.name, len(LONGEST)),
        )
    )


def _keep_quick(config: pytest.Config, items: list[pytest.Item]) -> None:
    """No generated input, and of each table some rows that lie far apart."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {row for rows in tables.values() for row in rows[:: -(-len(rows) // QUICK_ROWS)]}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: no garbage collection looks at them while they are
    made, or again."""
    gc.collect()
    gc.freeze()
    gc.enable()


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
