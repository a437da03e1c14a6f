"""A long conversation costs each of its turns what that adds, not the sum of all before."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.proxy.stored.open_store import FILE
from fixtures.server import Upstream
from tests.live.mitmdump import Mitmdump, make_confdir
from tests.live.stored import Client, Item, said
from tests.stored.redis_server import RedisServer

STORES = ("sqlite", "memory", "redis")
TURNS = 140
"""In a file: what a store of our own writes may grow for longer before it is seen.  Of all stores
tests/stored says that a chain is read at once."""
TEXT = "".join(random.Random(1).choices("abcdefghij klmnop", k=60_000))
TOOLS: list[Item] = [
    {
        "type": "function",
        "name": f"tool_{number}",
        "description": TEXT[number * 2000 : number * 2000 + 1500],
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
    for number in range(30)
]
FIELDS: dict[str, Any] = {"tools": TOOLS, "instructions": TEXT[:40_000]}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(store: str, plain_upstream: Upstream, tmp_path: Path) -> Iterator[Client]:
    make_confdir(tmp_path)
    with RedisServer(tmp_path) as redis:
        option = {"sqlite": "", "memory": "memory", "redis": redis.url}[store]
        words = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
        with Mitmdump(tmp_path, *words, "--set", f"dragoman_store={option}") as proxy:
            yield Client(plain_upstream, proxy)
            proxy.check_log()


def cpu_seconds(proxy: Mitmdump) -> float:
    """What the process has used: of what others do at the time it knows nothing."""
    fields = Path(f"/proc/{proxy.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("store", ["sqlite"])
def test_the_last_of_many_turns_costs_what_the_first_ones_cost(client: Client) -> None:
    whole = client.but(name=f"{client.name}-whole")
    history: list[Item] = []
    used = []
    previous = None
    for number in range(TURNS):
        before = cpu_seconds(client.proxy)
        asked = [{"role": "user", "content": f"Question {number}."}]
        exchange = client.ask(
            said(f"Answer {number}."), asked, previous_response_id=previous, stream=True, **FIELDS
        )
        used.append(cpu_seconds(client.proxy) - before)
        response = exchange.story().response
        previous = response["id"]
        history += [*asked, *response["output"]]
    assert sum(used[-40:]) <= 3 * max(sum(used[:40]), 0.2), used
    last = client.ask(said("Bye."), "Bye.", previous_response_id=previous, **FIELDS)
    history.append({"role": "user", "content": "Bye."})
    expected = whole.ask(said("Bye."), history, store=False, **FIELDS)
    assert last.sent[0].body == expected.sent[0].body
    kept = client.get(str(previous)).json
    assert (kept["instructions"], len(kept["tools"])) == (FIELDS["instructions"], len(TOOLS))
    assert client.get(str(previous), "?stream=true").reply.body == exchange.reply.body


def test_the_tools_of_a_turn_are_gone_with_it(client: Client) -> None:
    first = client.response(said("One."), "1", **FIELDS)
    second = client.response(said("Two."), "2", previous_response_id=first["id"], **FIELDS)
    assert client.call("DELETE", f"/{first['id']}").json["deleted"] is True
    assert client.get(second["id"]).json == second
    client.call("DELETE", f"/{second['id']}")
    stored = b"".join(path.read_bytes() for path in client.proxy.confdir.glob(f"{FILE}*"))
    assert TEXT[100:200].encode() not in stored
    third = client.response(said("Three."), "3", stream=True, **FIELDS)
    assert client.get(third["id"]).json == third


def test_what_is_like_the_tools_stays_where_it_is_in_a_conversation(client: Client) -> None:
    """Tools may be in the input, and an input may be what the instructions are."""
    extra = {"type": "additional_tools", "role": "developer", "tools": TOOLS}
    asked = [extra, {"role": "user", "content": FIELDS["instructions"]}]
    first = client.response(said("One."), asked, **FIELDS)
    second = client.ask(said("Two."), "2", previous_response_id=first["id"], **FIELDS)
    history = [*asked, *first["output"], {"role": "user", "content": "2"}]
    whole = client.but(name=f"{client.name}-whole")
    expected = whole.ask(said("Two."), history, store=False, **FIELDS)
    assert second.sent[0].body == expected.sent[0].body
    third = client.ask(said("3"), "3", previous_response_id=second.json["id"], **FIELDS)
    assert [message["role"] for message in third.chat["messages"]][-2:] == ["assistant", "user"]
    items = client.get(second.json["id"], "/input_items?order=asc").json["data"]
    assert items[0]["tools"] == TOOLS
    assert items[1]["content"][0]["text"] == FIELDS["instructions"]
