"""Nobody waits for another's long conversation to be read."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fixtures.server import Upstream
from tests.live import wire
from tests.live.mitmdump import ADDON, Mitmdump, make_confdir
from tests.live.stored import Client, said

HELD = Path(__file__).with_name("held_slices.py")
TURNS = 10
TEXT = "word " * 18_000
"""90 kB."""


def stopped(proxy: Mitmdump) -> int:
    return int(wire.exchange(f"{proxy.url}/held/count", b"", method="GET").body)


def lives(client: Client, previous: str) -> str:
    """All that one can do with responses; returns the id of a new one."""
    response = client.response(said("Yes."), TEXT, previous_response_id=previous, stream=True)
    fresh = client.response(said("Hello."), "Hello.")
    assert client.get(response["id"]).json == response
    items = client.get(response["id"], "/input_items?order=asc").json["data"]
    assert items[0]["content"][0]["text"] == TEXT
    assert client.call("DELETE", f"/{fresh['id']}").json["deleted"] is True
    return str(response["id"])


def test_others_go_on_wherever_a_long_chain_stands(
    plain_upstream: Upstream, tmp_path: Path
) -> None:
    """The work for a chain is stopped at each of its stages, and goes on only after another
    tenant has had all of a turn; were anything of it waited for, that turn would never end."""
    make_confdir(tmp_path)
    words = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    with Mitmdump(tmp_path, *words) as proxy:
        alice = Client(plain_upstream, proxy)
        bob = Client(plain_upstream, proxy, key="sk-bob")
        long = alice.response(said("Yes."), TEXT)["id"]
        for _ in range(TURNS):
            long = alice.response(said("Yes."), TEXT, previous_response_id=long)["id"]
        his = bob.response(said("Yes."), TEXT)["id"]
    # Nothing of it is ready in the memory of another process.
    with (
        Mitmdump(tmp_path, *words, scripts=(ADDON, HELD)) as proxy,
        ThreadPoolExecutor(1) as pool,
    ):
        alice, bob = alice.but(proxy=proxy), bob.but(proxy=proxy)
        hold = ("x-test-hold", "1")
        turn = pool.submit(alice.ask, said("At last."), "Well?", hold, previous_response_id=long)
        stages = 0
        while not turn.done():
            if stopped(proxy) == stages:
                time.sleep(0.01)  # it has not come to its next stage, or its end
                continue
            stages += 1
            his = lives(bob, his)
            assert not turn.done()
            assert stopped(proxy) == stages
            wire.exchange(f"{proxy.url}/held/next", b"", method="GET")
        assert stages > TURNS, "each response of the chain is work of its own"
        sent = turn.result().chat["messages"]
        assert [message["role"] for message in sent[-2:]] == ["assistant", "user"]
        assert len(sent) == 2 * TURNS + 3
        proxy.check_log()
