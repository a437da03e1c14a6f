"""Several mitmdumps share what they keep: what began on one goes on on another.

Behind the HAProxy of the example, by a Redis; and by the one file of a confdir.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live.haproxy import SERVERS, HAProxy
from tests.live.mitmdump import Mitmdump, make_confdir
from tests.live.responses import to_last_message
from tests.live.stored import Client, called, not_found, outputs_of, said
from tests.stored.redis_server import RedisServer

Pair = tuple[Client, Client]


def pair(stack: ExitStack, upstream: Upstream, confdirs: list[Path], *options: str) -> Pair:
    """The same client behind two instances."""
    arguments = ["--mode", f"reverse:{upstream.url}"]
    for option in ("dragoman_bridge=~all", "connection_strategy=lazy", *options):
        arguments += ["--set", option]
    for confdir in set(confdirs):
        make_confdir(confdir)
    first, second = (stack.enter_context(Mitmdump(path, *arguments)) for path in confdirs)
    for proxy in (first, second):
        stack.callback(proxy.check_log)
    client = Client(upstream, first)
    return client, client.but(proxy=second)


@pytest.fixture(params=["redis", "one file"])
def instances(
    request: pytest.FixtureRequest, plain_upstream: Upstream, tmp_path: Path
) -> Iterator[Pair]:
    with ExitStack() as stack:
        if request.param == "redis":
            redis = stack.enter_context(RedisServer(tmp_path))
            confdirs = [tmp_path / "first", tmp_path / "second"]
            yield pair(stack, plain_upstream, confdirs, f"dragoman_store={redis.url}")
        else:
            yield pair(stack, plain_upstream, [tmp_path / "both"] * 2)


def test_what_began_on_one_goes_on_on_the_other(instances: Pair) -> None:
    here, there = instances
    waiting = here.response(called("ls", thought="Hm."), "Hi.", stream=True)
    resumed = there.submit(said("One."), waiting, outputs_of(waiting), stream=True)
    first = resumed.story(prior=waiting["output"]).response
    assert here.get(first["id"]).json == there.get(first["id"]).json == first
    second = here.ask(said("Two."), "2", previous_response_id=first["id"])
    third = there.ask(said("Three."), "3", previous_response_id=second.json["id"])
    assert second.sent[0].body.startswith(to_last_message(resumed.sent[0]))
    assert third.sent[0].body.startswith(to_last_message(second.sent[0]))
    reference = {"type": "item_reference", "id": third.json["output"][0]["id"]}
    assert here.ask(said("Four."), [reference]).reply.status == 200
    not_found(there.but(key="sk-other").get(first["id"]), first["id"])
    assert there.call("DELETE", f"/{first['id']}").json["deleted"] is True
    not_found(here.get(first["id"]), first["id"])
    for client in (here, there):
        exchange = client.ask(said("No."), "4", previous_response_id=third.json["id"])
        not_found(exchange, first["id"], previous=True)


def test_many_turns_on_both_at_once(instances: Pair) -> None:
    """Chains that change the instance at every turn."""
    instances[0].upstream.replies[instances[0].name] = said("Yes.")

    def chain(number: int) -> list[str]:
        ids: list[str] = []
        for turn in range(6):
            client = instances[(number + turn) % 2]
            previous = {"previous_response_id": ids[-1]} if ids else {}
            body = {"model": "kimi-k2.5", "input": f"{number}.{turn}"} | previous
            ids.append(client.call("POST", "", body).json["id"])
        return ids

    with ThreadPoolExecutor(8) as pool:
        chains = list(pool.map(chain, range(8)))
    for number, ids in enumerate(chains):
        items = instances[number % 2].get(ids[-1], "/input_items?order=asc&limit=100").json["data"]
        asked = [item["content"][0]["text"] for item in items if item["role"] == "user"]
        assert asked == [f"{number}.{turn}" for turn in range(6)]


def test_a_conversation_behind_haproxy_outlives_an_instance(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path))
        confdirs = [tmp_path / "first", tmp_path / "second"]
        here, there = pair(stack, plain_upstream, confdirs, f"dragoman_store={redis.url}")
        balancer = stack.enter_context(HAProxy(tmp_path, here.proxy, there.proxy))
        client = here.but(front=balancer.url)
        exchange = client.ask(said("Yes."), "Begin.")
        for _ in range(4):
            before, previous = exchange.sent[0], exchange.json["id"]
            exchange = client.ask(said("Yes."), "Go on.", previous_response_id=previous)
            assert exchange.sent[0].body.startswith(to_last_message(before))
        assert min(balancer.served(name) for name in SERVERS) > 0, "both have served"

        balancer.drain("first")
        here.proxy.check_log()
        here.proxy.stop()
        here.proxy.mark()
        before, previous = exchange.sent[0], exchange.json["id"]
        exchange = client.ask(said("Yes."), "Go on.", previous_response_id=previous)
        assert exchange.sent[0].body.startswith(to_last_message(before))
