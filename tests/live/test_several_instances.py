"""Several mitmdumps behind HAProxy: one of them can go, and no stream notices."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live import wire
from tests.live.chat import REQUEST as CHAT
from tests.live.chat import fixture_bytes
from tests.live.clients import need_command
from tests.live.haproxy import HAProxy
from tests.live.mitmdump import ROOT, Mitmdump, make_confdir
from tests.live.responses import JSON, Exchange, calls_of
from tests.live.responses import REQUEST as RESPONSES
from tests.waiting import eventually

FIXTURE = "kimi_specification"
HELD = ";cut=event;hold=5;key=drained"
"""The stream then waits for `Upstream.release`."""
STREAMS = 20


@dataclass(frozen=True, slots=True)
class Setup:
    """Two instances of Dragoman behind one HAProxy."""

    first: Mitmdump
    second: Mitmdump
    balancer: HAProxy
    upstream: Upstream

    def chat(self, options: str = "", watch: Callable[[bytes], object] | None = None) -> wire.Reply:
        """A repaired stream, through whichever instance."""
        return self._ask(f"{FIXTURE}{options}/v1/chat/completions", CHAT, watch)

    def responses(self, options: str = "") -> wire.Reply:
        """A bridged stream, through whichever instance."""
        return self._ask(f"{FIXTURE}{options}/v1/responses", RESPONSES)

    def stop(self, instance: Mitmdump) -> None:
        """Or see it stopped.  What mitmproxy 11 then logs of connections that HAProxy kept says
        nothing: no traceback of it goes through this project."""
        instance.stop()
        assert "dragoman/proxy" not in instance.log
        instance.mark()

    def _ask(
        self,
        path: str,
        request: dict[str, object],
        watch: Callable[[bytes], object] | None = None,
    ) -> wire.Reply:
        body = json.dumps(request).encode()
        return wire.exchange(f"{self.balancer.url}/{path}", body, headers=(JSON,), watch=watch)


@pytest.fixture
def setup(plain_upstream: Upstream, tmp_path: Path) -> Iterator[Setup]:
    make_confdir(tmp_path)
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    with ExitStack() as stack:
        first, second = (stack.enter_context(Mitmdump(tmp_path, *arguments)) for _ in range(2))
        balancer = stack.enter_context(HAProxy(tmp_path, first, second))
        yield Setup(first, second, balancer, plain_upstream)
        for instance in (first, second):
            instance.check_log()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(STREAMS) as pool:
        yield pool


def check_chat(reply: wire.Reply) -> None:
    assert (reply.status, reply.complete) == (200, True)
    assert reply.body == fixture_bytes(FIXTURE, "chat.sse")


def check_responses(reply: wire.Reply) -> None:
    calls = calls_of(Exchange(reply, []).story().response)
    assert [name for name, _ in calls] == ["bash", "read"]


def draining(balancer: HAProxy) -> str:
    """What docs/stored-responses.md says to type, for the first instance."""
    need_command("socat", install="apt-get install socat")
    page = (ROOT / "docs" / "stored-responses.md").read_text()
    (block,) = re.findall(r"^```sh\n(admin.*?)^```", page, re.S | re.M)
    typed = block.replace("/tmp/dragoman-haproxy.sock", str(balancer.admin))
    assert typed != block
    return str(typed)


def test_streams_end_whole_while_their_instance_is_drained_as_documented(
    setup: Setup, pool: ThreadPoolExecutor
) -> None:
    balancer = setup.balancer
    chats: list[Future[wire.Reply]] = []
    responses: list[Future[wire.Reply]] = []
    for _ in range(STREAMS // 2):
        chats.append(pool.submit(setup.chat, HELD))
        responses.append(pool.submit(setup.responses, HELD))
    balancer.wait_until(lambda: balancer.running("first") + balancer.running("second") == STREAMS)
    eventually(lambda: len(setup.upstream.requests_of(FIXTURE, "drained")) == STREAMS)
    on_first = balancer.running("first")
    assert on_first == STREAMS // 2, "half of the streams each"

    drains = subprocess.Popen(
        ["bash", "-ec", draining(balancer)], env=os.environ | {"PID_OF_FIRST": str(setup.first.pid)}
    )
    balancer.wait_until(lambda: balancer.status("first").startswith("DRAIN"))
    served = balancer.served("first"), balancer.served("second")
    check_chat(setup.chat())
    check_responses(setup.responses())
    assert balancer.running("first") == on_first, "its streams still run"
    assert (balancer.served("first"), balancer.served("second")) == (served[0], served[1] + 2)

    setup.upstream.release(FIXTURE)
    assert drains.wait(60) == 0
    setup.stop(setup.first)
    for chat in chats:
        check_chat(chat.result())
    for response in responses:
        check_responses(response.result())
    check_chat(setup.chat())
    check_responses(setup.responses())


def test_events_are_not_collected_on_their_way(setup: Setup) -> None:
    def watch(body: bytes) -> None:
        if b"I need" in body:
            setup.upstream.release(FIXTURE)

    check_chat(setup.chat(";cut=event;hold=5", watch))


def test_the_next_request_of_a_kept_connection_leaves_a_drained_instance(setup: Setup) -> None:
    balancer = setup.balancer
    connection = http.client.HTTPConnection("127.0.0.1", balancer.port)

    def ask() -> bytes:
        path = f"/{FIXTURE}/v1/chat/completions"
        connection.request("POST", path, json.dumps(CHAT), dict([JSON]))
        return connection.getresponse().read()

    expected = fixture_bytes(FIXTURE, "chat.sse")
    assert ask() == expected
    (used,) = (name for name in ("first", "second") if balancer.served(name))
    (other,) = {"first", "second"} - {used}
    balancer.drain(used)
    assert ask() == expected
    assert (balancer.served(used), balancer.served(other)) == (1, 1)
    connection.close()


def test_an_instance_that_has_died_is_passed_over(setup: Setup) -> None:
    setup.stop(setup.first)
    for _ in range(6):
        check_chat(setup.chat())
    setup.balancer.wait_until(lambda: setup.balancer.status("first").startswith("DOWN"))
    check_responses(setup.responses())
