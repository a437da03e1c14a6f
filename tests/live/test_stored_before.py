"""What an earlier version kept is served, and gone on from.

`version1.sql` is the dump of a file that Dragoman wrote before the schema had more than
three tables; `version1.json` is what it answered about each response then.  `version2.sql` and
`version2_redis_keys.json` were written when a response was kept with its request as it was sent,
long tools and instructions apart.
"""

from __future__ import annotations

import importlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from fixtures.server import Upstream
from tests.live import wire
from tests.live.mitmdump import ROOT, Mitmdump
from tests.live.responses import JSON, to_last_message
from tests.live.stored import Client, Item, messages_of, not_found, said
from tests.stored.redis_server import RedisServer

STATE = ROOT / "tests" / "state"
ANSWERS: dict[str, list[Item]] = json.loads((STATE / "version1.json").read_text())


@pytest.fixture
def client(tls_upstream: Upstream, rerouted: Callable[..., Mitmdump], tmp_path: Path) -> Client:
    path = tmp_path / "old.sqlite3"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((STATE / "version1.sql").read_text())
    options = ["dragoman_bridge=~all", "connection_strategy=lazy", "dragoman_store_days=36000"]
    options.append(f"dragoman_store={path}")
    proxy = rerouted(tls_upstream, *(word for option in options for word in ("--set", option)))
    key = "sk-alice-000111222333"
    return Client(tls_upstream, proxy, key=key, origin="https://old.example", name="old")


def test_what_was_kept_before_is_there_and_can_be_gone_on_from(client: Client) -> None:
    for response_id, (response, items) in ANSWERS.items():
        assert client.get(response_id).json == response
        listed = client.get(response_id, "/input_items?order=asc&limit=100").json
        assert listed == items
        not_found(client.but(key="sk-mallory").get(response_id), response_id)
    first, second, third, resumed = ANSWERS
    events = client.get(first, "?stream=true").reply.body
    assert events.count(b"event: response.completed\n") == 1
    fourth = client.ask(said("Bye."), "Thanks.", previous_response_id=second)
    assert [(m["role"], m.get("content")) for m in messages_of(fourth)][-3:] == [
        ("tool", "a.txt"),
        ("assistant", "One file."),
        ("user", "Thanks."),
    ]
    fifth = client.ask(said("Yes."), "Sure?", previous_response_id=fourth.json["id"])
    assert fifth.sent[0].body.startswith(to_last_message(fourth.sent[0]))
    for previous in (third, resumed):
        exchange = client.ask(said("Yes."), "Sure?", previous_response_id=previous)
        assert exchange.reply.status == 200
    reference = {"type": "item_reference", "id": ANSWERS[third][0]["output"][0]["id"]}
    assert messages_of(client.ask(said("So."), [reference]))[0]["content"] == "No more."
    assert client.call("DELETE", f"/{first}").json["deleted"] is True
    not_found(client.get(first), first)


# The second version


@pytest.fixture(params=["sqlite", "redis"])
def second(
    request: pytest.FixtureRequest,
    tls_upstream: Upstream,
    rerouted: Callable[..., Mitmdump],
    tmp_path: Path,
) -> Iterator[tuple[Client, dict[str, list[Item]]]]:
    with RedisServer(tmp_path) if request.param == "redis" else nullcontext() as redis:
        store = redis.url if redis else str(tmp_path / "old.sqlite3")
        if redis:
            fill(redis.url)
        else:
            with closing(sqlite3.connect(store)) as db:
                db.executescript((STATE / "version2.sql").read_text())
        options = ["dragoman_bridge=~all", "connection_strategy=lazy", "dragoman_store_days=36000"]
        options.append(f"dragoman_store={store}")
        proxy = rerouted(tls_upstream, *(word for option in options for word in ("--set", option)))
        key = "sk-alice-000111222333"
        client = Client(tls_upstream, proxy, key=key, origin="https://old.example", name="old")
        yield client, json.loads((STATE / f"version2_{request.param}.json").read_text())


def fill(url: str) -> None:
    """A Redis, with the keys that it had."""
    client: Any = importlib.import_module("redis").Redis.from_url(url)
    for key, value in json.loads((STATE / "version2_redis_keys.json").read_text()).items():
        if isinstance(value, str):
            client.set(key, bytes.fromhex(value))
        else:
            client.sadd(key, *value)


def test_what_the_second_version_kept_is_there_and_can_be_gone_on_from(
    second: tuple[Client, dict[str, list[Item]]],
) -> None:
    client, answers = second
    for response_id, (response, items) in answers.items():
        assert client.get(response_id).json == response
        listed = client.get(response_id, "/input_items?order=asc&limit=100").json
        assert listed == items
        not_found(client.but(key="sk-mallory").get(response_id), response_id)
    first, then, referring, resumed, short = answers
    for response_id in (first, then, resumed):
        events = client.get(response_id, "?stream=true").reply.body
        assert json.loads(events.rpartition(b"data: ")[2])["response"] == answers[response_id][0]
    client.get(short, "?stream=true").error(400)
    fourth = client.ask(said("Bye."), "Thanks.", previous_response_id=then)
    assert [(m["role"], m.get("content")) for m in messages_of(fourth)][-3:] == [
        ("tool", "a.txt"),
        ("assistant", "One file."),
        ("user", "Thanks."),
    ]
    for previous in (referring, resumed, short):
        assert client.ask(said("Yes."), "?", previous_response_id=previous).reply.status == 200
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    call = {"id": "functions.bash:0", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "a.txt"},
    ]
    body = json.dumps({"model": "kimi-k2.6", "messages": messages}).encode()
    headers = (("authorization", f"Bearer {client.key}"), JSON)
    url = f"{client.base}/chat/completions"
    wire.exchange(url, body, headers=headers, proxy=client.proxy.url)
    sent = json.loads(client.sent[-1].body)["messages"]
    assert sent[1]["reasoning_content"] == "I remember."
    assert client.call("DELETE", f"/{first}").json["deleted"] is True
    not_found(client.get(first), first)
    assert client.get(then).json == answers[then][0], "with tools that both had"
