"""`dragoman.selftest` and `dragoman.hosts`, and the line at the start."""

from __future__ import annotations

import json
import sqlite3
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import __version__
from fixtures.server import Upstream
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.responses import REQUEST
from tests.live.wire import exchange

SCRIPTS = (ADDON, ROOT / "tests" / "live" / "controls.py")
ENDED = r"The self-test has ended: .*\.\n.*\n.*\n"
Start = Callable[..., Mitmdump]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running = []

    def new(*arguments: str) -> Mitmdump:
        make_confdir(tmp_path)
        proxy = Mitmdump(tmp_path, *arguments, scripts=SCRIPTS)
        running.append(proxy)
        return proxy

    yield new
    for proxy in running:
        proxy.check_log()
        proxy.stop()


def command(proxy: Mitmdump, name: str, *, direct: bool = False) -> Any:
    proxies = {} if direct else {"http": proxy.url}
    host = proxy.url if direct else "http://controls.test"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    with opener.open(f"{host}/controls/commands/{name}", timeout=30) as reply:
        return json.load(reply)


def verdicts(proxy: Mitmdump, *, direct: bool = False) -> list[str]:
    """What the self-test says of repair and bridge."""
    command(proxy, "dragoman.selftest", direct=direct)
    log = proxy.wait_for_log(ENDED)
    return log[log.index("The self-test has ended") :].splitlines()[1:3]


def test_both_jobs_work_in_regular_mode(start: Start) -> None:
    repair, bridge = verdicts(start())
    assert repair.startswith("repair: works")
    assert bridge.startswith("bridge: works")


def test_the_verdicts_come_first_as_a_status_line_is_short(start: Start) -> None:
    proxy = start("--set", "dragoman_bridge=off")
    verdicts(proxy)
    assert "The self-test has ended: repair works, bridge FAILED." in proxy.log


def test_both_jobs_work_in_front_of_a_host_that_is_not_asked(
    start: Start, plain_upstream: Upstream
) -> None:
    asked = len(plain_upstream.requests)
    proxy = start("--mode", f"reverse:{plain_upstream.url}")
    assert all("works" in verdict for verdict in verdicts(proxy, direct=True))
    assert len(plain_upstream.requests) == asked


def test_the_self_test_leaves_no_host_and_no_call_behind(start: Start, tmp_path: Path) -> None:
    proxy = start()
    before = [command(proxy, name) for name in ("dragoman.hosts", "dragoman.stats")]
    verdicts(proxy)
    assert [command(proxy, name) for name in ("dragoman.hosts", "dragoman.stats")] == before
    proxy.stop()
    with sqlite3.connect(tmp_path / "dragoman.sqlite3") as stored:
        assert not stored.execute("select * from blobs").fetchall()


def test_what_is_switched_off_is_named(start: Start) -> None:
    repair, bridge = verdicts(start("--set", "dragoman_repair=off", "--set", "dragoman_bridge=off"))
    assert "FAILED: the call arrived as text" in repair
    assert "dragoman_repair" in repair
    assert bridge == "bridge: FAILED: HTTP 404; dragoman_bridge is 'off'"


def test_hosts_lists_the_known_and_the_learned(start: Start, plain_upstream: Upstream) -> None:
    proxy = start()
    url = f"{plain_upstream.url}/clean_text/v1/responses"
    assert (
        exchange(f"{url}?key=secret", json.dumps(REQUEST).encode(), proxy=proxy.url).status == 200
    )
    rows = command(proxy, "dragoman.hosts")
    assert ["api.moonshot.ai", "chat (built-in)"] in rows
    assert [url, "chat"] in rows


def test_the_start_says_what_is_on(start: Start, tmp_path: Path) -> None:
    log = start("--set", "dragoman_repair=off").wait_for_log("Dragoman ")
    assert f"Dragoman {__version__}: repair off, cure auto, bridge auto (19 hosts known)" in log
    assert f"responses kept in {tmp_path / 'dragoman.sqlite3'}" in log


def test_the_start_never_shows_the_password_of_a_store(start: Start) -> None:
    log = start("--set", "dragoman_store=redis://:hunter2@127.0.0.1:1/0").wait_for_log("Dragoman ")
    assert "Redis at 127.0.0.1" in log
    assert "hunter2" not in log
