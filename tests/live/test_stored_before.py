"""What an earlier version kept is served, and gone on from.

`version1.sql` is the dump of a file that Dragoman wrote before the schema had more than
three tables; `version1.json` is what it answered about each response then.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.server import Upstream
from tests.live.mitmdump import ROOT, Mitmdump
from tests.live.responses import to_last_message
from tests.live.stored import Client, Item, messages_of, not_found, said

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
