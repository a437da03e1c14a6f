"""Hosts that speak only Chat Completions: the known ones, and those that say so when asked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest

from fixtures.server import Reply, Upstream
from tests.live import wire
from tests.live.clients import Client, Clients
from tests.live.mitmdump import Mitmdump
from tests.live.responses import JSON, REQUEST, Bridge, calls_of, text_of

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


def ask(bridge: Bridge, path: str) -> int:
    """Ask once, below a path that is the same each time; the status."""
    body = json.dumps(REQUEST).encode()
    return wire.exchange(f"{bridge.proxy.url}/{path}/responses", body, headers=(JSON,)).status


def test_only_the_base_path_that_answered_is_learned(bridge: Bridge) -> None:
    key = f"learned{next(_keys)}"
    assert [ask(bridge, f"clean_text;key={key}/one/v1") for _ in range(3)] == [200] * 3
    assert [ask(bridge, f"clean_text;key={key}/two/v1") for _ in range(2)] == [200] * 2
    paths = endpoints(bridge.upstream, "clean_text", key)
    assert (
        paths == ["responses"] + ["chat/completions"] * 3 + ["responses"] + ["chat/completions"] * 2
    )


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_another_error_teaches_nothing(bridge: Bridge, status: int) -> None:
    path = f"clean_text;responses={status}/v1"
    assert [ask(bridge, path) for _ in range(2)] == [status, status]


@pytest.mark.parametrize("error", [{"code": "model_not_found"}, {"param": "model"}])
def test_a_404_about_the_model_teaches_nothing(bridge: Bridge, error: dict[str, str]) -> None:
    body = json.dumps({"error": {"message": "The model does not exist.", **error}}).encode()
    for _ in range(2):
        bridge.upstream.replies["no-model/v1/responses"] = Reply(body, "application/json", 404)
        reply = wire.exchange(
            f"{bridge.proxy.url}/no-model/v1/responses",
            json.dumps(REQUEST).encode(),
            headers=(JSON,),
        )
        assert (reply.status, reply.body) == (404, body)


def test_a_host_without_chat_completions_either_is_forgotten(bridge: Bridge) -> None:
    bridge.upstream.replies["neither"] = Reply(b"{}", "application/json", 404)
    assert [ask(bridge, "neither/v1") for _ in range(2)] == [404, 404]
    paths = endpoints(bridge.upstream, "neither", "")
    assert paths == ["responses", "chat/completions"] * 2


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


def test_an_unknown_host_is_asked_for_responses_first(
    tls_upstream: Upstream, rerouted: Callable[..., Mitmdump]
) -> None:
    bridge = Bridge(tls_upstream, rerouted(tls_upstream), "https://api.openai.test")
    exchange = bridge.ask("clean_text", options=";responses=401")
    assert exchange.reply.status == 401
    assert [sent.path.rpartition("/v1/")[2] for sent in exchange.sent] == ["responses"] * 2
