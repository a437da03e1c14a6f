"""A long conversation costs each of its turns what that adds, not the sum of all before."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.proxy.stores import FILE
from fixtures.server import Upstream
from tests.live.mitmdump import Mitmdump, make_confdir
from tests.live.stored import Client, Item, said
from tests.state.redis_server import RedisServer

TURNS = 300
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


@pytest.fixture(params=["sqlite", "memory", "redis"])
def client(
    request: pytest.FixtureRequest, plain_upstream: Upstream, tmp_path: Path
) -> Iterator[Client]:
    make_confdir(tmp_path)
    with RedisServer(tmp_path) as redis:
        store = {"sqlite": "", "memory": "memory", "redis": redis.url}[request.param]
        words = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
        with Mitmdump(tmp_path, *words, "--set", f"dragoman_store={store}") as proxy:
            yield Client(plain_upstream, proxy)
            proxy.check_log()


def test_time(client: Client) -> None:
    took = []
    previous = None
    for number in range(TURNS):
        begun = time.monotonic()
        ex = client.ask(said(f"Answer {number}."), f"Q {number}", previous_response_id=previous, stream=True, **FIELDS)
        took.append(time.monotonic() - begun)
        previous = ex.story().response["id"]
    print([round(1000 * sum(took[i:i+10])/10, 1) for i in range(0, 300, 20)])
    f = client.proxy.confdir / FILE
    print(f.exists() and f.stat().st_size, len(json.dumps(FIELDS)))
