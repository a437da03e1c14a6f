"""Hosts that speak only Chat Completions: the known ones, and those that say so when asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from fixtures.server import Reply, Upstream
from tests.live.clients import Client, Clients
from tests.live.mitmdump import Mitmdump
from tests.live.responses import Bridge, calls_of, text_of

ANSWER = "The answer is 6 < 7, as the table says: <b>yes</b>."
_keys = itertools.count()


@pytest.fixture
def bridge(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Bridge:
    return Bridge(plain_upstream, mitmdump("--mode", f"reverse:{plain_upstream.url}"))


def endpoints(upstream: Upstream, fixture: str, key: str) -> list[str]:
    paths = [request.path for request in upstream.requests_of(fixture, key)]
    return [path.rpartition("/v1/")[2] for path in paths]


@pytest.fixture(params=["openai_python.py", "openai_node.mjs"])
def client(
    request: pytest.FixtureRequest, mitmdump: Callable[..., Mitmdump], clients: Clients
) -> Client:
    return clients.get(request.param, mitmdump().client_environment())


@pytest.mark.parametrize("status", [404, 405])
@pytest.mark.parametrize("how", ["responses.create", "responses.stream"])
def test_the_first_request_is_bridged_with_the_retries_of_every_client(
    tls_upstream: Upstream, client: Client, how: str, status: int
) -> None:
    key = f"learned{next(_keys)}"
    base_url = f"{tls_upstream.url}/clean_text;responses={status};key={key}/v1"
    request = {"model": "kimi-k2.5", "input": "Say it."}

    result = client.ask(f"{how} with retries", base_url, request)
    assert result["text"] == ANSWER
    assert endpoints(tls_upstream, "clean_text", key) == ["responses", "chat/completions"]

    assert client.ask(how, base_url, request)["text"] == ANSWER
    assert endpoints(tls_upstream, "clean_text", key)[2:] == ["chat/completions"]


@pytest.mark.parametrize("status", [404, 405, 401, 501])
def test_a_host_without_websockets_says_so_in_the_clients_words(
    bridge: Bridge, status: int
) -> None:
    """Whether it knows the Responses API or not; other refusals are the host's own."""
    name = f"upgrade{status}"
    page = b"<html>" + b"x" * 100_000
    bridge.upstream.replies[f"{name}/v1/responses"] = Reply(page, "text/html", status)
    upgrade = ("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")
    exchange = bridge.ask(name, b"", *upgrade, method="GET")
    assert len(exchange.sent) == 1
    if status in (404, 405):
        assert "use HTTP" in exchange.error(426)["message"]
    else:
        assert (exchange.reply.status, exchange.reply.body) == (status, page)
    plain = bridge.ask(name, b"", method="GET")
    assert plain.reply.status == status


@pytest.mark.parametrize("host", ["api.moonshot.ai", "api.deepseek.com"])
def test_known_hosts_are_bridged_from_the_first_request(
    tls_upstream: Upstream, rerouted: Callable[..., Mitmdump], host: str
) -> None:
    bridge = Bridge(tls_upstream, rerouted(tls_upstream), f"https://{host}")
    exchange = bridge.ask("kimi_specification")
    assert exchange.sent[0].header("host") == host
    assert [name for name, _ in calls_of(exchange.story().response)] == ["bash", "read"]


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
def test_known_hosts_are_bridged_over_tls_in_both_versions_of_http(
    tls_upstream: Upstream, rerouted: Callable[..., Mitmdump], http2: bool
) -> None:
    bridge = Bridge(tls_upstream, rerouted(tls_upstream), "https://api.moonshot.cn", http2)
    assert text_of(bridge.ask("clean_text", options=";cut=bytes:50").story().response) == ANSWER
