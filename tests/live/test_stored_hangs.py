"""A store that hangs, and a proxy that is stopped, loaded anew or set otherwise: nobody waits
for the one, and nothing that a client was told is lost by the other."""

from __future__ import annotations

import contextlib
import http.client
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.proxy.stored.open_store import FILE
from dragoman.proxy.stored.sqlite import VERSION
from fixtures.server import Reply, Upstream
from tests.live.chat import CONTROLS
from tests.live.mitmdump import ADDON, Mitmdump, make_confdir
from tests.live.stored import HELD, Client, messages_of, said
from tests.live.test_stored_faults import FOR_EVER, NOT_KEPT, Turns, set_options
from tests.repair.streams import chunk, sse
from tests.stored.redis_server import RedisServer
from tests.waiting import eventually

SLOW = Reply(sse([chunk({"content": f"word{number} "}) for number in range(100)]))
SCRIPT = f"""
import sys
sys.path.insert(0, {str(ADDON.parent)!r})
from dragoman.proxy.addon import Dragoman
addons = [Dragoman()]
"""


class Proxies:
    """Gives clients of mitmdumps whose script can be loaded anew."""

    def __init__(self, stack: contextlib.ExitStack, upstream: Upstream, folder: Path) -> None:
        self._stack = stack
        self._upstream = upstream
        self.folder = folder
        self.script = folder / "main.py"
        self.script.write_text(SCRIPT)
        make_confdir(folder)

    def client(self, *options: str) -> Client:
        words = ["--mode", f"reverse:{self._upstream.url}"]
        for option in ("dragoman_bridge=~all", *options):
            words += ["--set", option]
        proxy = Mitmdump(self.folder, *words, scripts=(self.script, CONTROLS))
        return Client(self._upstream, self._stack.enter_context(proxy))

    def load_anew(self, client: Client) -> None:
        client.proxy.mark()
        now = time.time() + 5
        os.utime(self.script, (now, now))
        client.proxy.wait_for_log("Loading script")


@pytest.fixture
def proxies(plain_upstream: Upstream, tmp_path: Path) -> Iterator[Proxies]:
    with contextlib.ExitStack() as stack:
        yield Proxies(stack, plain_upstream, tmp_path)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as server:
        yield server


# The end of mitmproxy


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_proxy_that_is_stopped_has_lost_nothing_that_a_client_heard_the_end_of(
    proxies: Proxies, redis: RedisServer, store: str
) -> None:
    option = f"dragoman_store={redis.url if store == 'redis' else ''}"
    client = proxies.client(option).but(options=";cut=event;pace=0.002")
    client.upstream.replies[client.name] = said("A story. " * 80, thought="Hm. " * 20)
    ended: list[str] = []
    for _ in range(2):
        threads = [Turns(client, ended) for _ in range(12)]
        for thread in threads:
            thread.start()
        wanted = len(ended) + 24
        eventually(lambda wanted=wanted: len(ended) >= wanted)  # type: ignore[misc]
        client.proxy.stop()
        for thread in threads:
            thread.join()
        assert NOT_KEPT not in client.proxy.log
        client = client.but(proxy=proxies.client(option).proxy)
        assert [name for name in ended if client.get(name).reply.status != 200] == []


@contextlib.contextmanager
def hung_turns(client: Client, redis: RedisServer, count: int = 40) -> Iterator[None]:
    """Within it so many turns wait for a store that hangs."""
    client.upstream.replies[client.name] = said("Hello.")
    body = {"model": "kimi-k2.5", "input": "Hi."}

    def turn() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException, AssertionError):
            client.call("POST", "", body)

    with ThreadPoolExecutor(count) as pool, redis.paused():
        for _ in range(count):
            pool.submit(turn)
        eventually(lambda: client.proxy.log.count("client connect") >= count)
        yield


def test_the_end_does_not_wait_for_a_store_that_hangs(proxies: Proxies, redis: RedisServer) -> None:
    client = proxies.client(f"dragoman_store={redis.url}", *FOR_EVER)
    with hung_turns(client, redis):
        assert client.proxy.stop()


def test_the_end_does_not_wait_for_a_lock(proxies: Proxies) -> None:
    client = proxies.client(*FOR_EVER)
    client.response(said("Hello."), "Hi.")
    with closing(sqlite3.connect(proxies.folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with client.running(reply=said("Hello.")) as (_, stream):
            while b"output_text.done" not in stream.readline():
                pass
            assert client.proxy.stop()


# Loaded anew, and other options


@pytest.mark.parametrize("how", ["loaded anew", "another store", "other bounds"])
def test_no_stream_waits_for_a_store_that_hangs(
    proxies: Proxies, redis: RedisServer, how: str
) -> None:
    client = proxies.client(f"dragoman_store={redis.url}", *FOR_EVER)
    slow = client.but(name="ticker", options=";cut=event;pace=0.1")
    other = {"dragoman_store": "memory"} if how == "another store" else {"dragoman_store_days": "2"}
    with slow.running(reply=SLOW) as (_, stream), hung_turns(client, redis):
        if how == "loaded anew":
            proxies.load_anew(client)
        else:
            assert set_options(client, **other).status == 200
        for _ in range(40):
            assert stream.readline()


def test_what_runs_and_what_is_in_memory_is_there_after_a_load(proxies: Proxies) -> None:
    client = proxies.client("dragoman_store=memory")
    kept = client.response(said("Hello."), "Hi.")
    slow = client.but(options=HELD)
    with slow.running(reply=SLOW) as (response_id, stream):
        proxies.load_anew(client)
        assert slow.get(response_id).json["status"] == "in_progress"
        assert client.get(kept["id"]).json == kept
        slow.release()
        assert b'"status":"completed"' in stream.read()
    assert slow.get(response_id).json["status"] == "completed"
    then = client.ask(said("Yes."), "Still?", previous_response_id=kept["id"])
    assert [message["content"] for message in messages_of(then)] == ["Hi.", "Hello.", "Still?"]


def test_what_runs_and_what_is_in_memory_is_there_after_other_options(proxies: Proxies) -> None:
    client = proxies.client("dragoman_store=memory")
    kept = client.response(said("Hello."), "Hi.")
    slow = client.but(options=HELD)
    with slow.running(reply=SLOW) as (response_id, stream):
        for options in (
            {"dragoman_store_days": "3"},
            {"dragoman_store_max": "1m"},
            {"dragoman_store": str(proxies.folder / "other.sqlite3")},
            {"dragoman_store": "off"},
            {"dragoman_bridge": "off"},
        ):
            assert set_options(client, **options).status == 200
            assert slow.get(response_id).json["status"] == "in_progress"
        assert slow.but(key="sk-mallory").get(response_id).reply.status == 404
        slow.release()
        assert b'"status":"completed"' in stream.read()
    assert set_options(client, dragoman_store="memory", dragoman_bridge="~all").status == 200
    assert client.get(kept["id"]).json == kept


# One turn waits, not every turn


def test_a_file_that_is_locked_is_left_alone_after_one_turn_has_waited(proxies: Proxies) -> None:
    client = proxies.client("test_constants=proxy.stored.store_thread.PAUSE=3600")
    first = client.response(said("Hello."), "Hi.")
    path = proxies.folder / FILE
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        client.response(said("Hello."), "Hi.")
        other.execute("ROLLBACK")
    client.response(said("Hello."), "Hi.")
    assert client.get(first["id"]).error(503)["code"] == "store_unavailable"


# A default store that cannot be opened


def foreign(path: Path) -> None:
    path.write_bytes(b"These are my notes. " * 99)


def torn(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "PRAGMA journal_mode = WAL; CREATE TABLE x (y); PRAGMA application_id = 0x44524147; "
            f"PRAGMA user_version = {VERSION};"
        )
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize("make", [foreign, torn])
def test_a_default_store_that_cannot_be_opened_stops_nothing(
    proxies: Proxies, make: Callable[[Path], None]
) -> None:
    path = proxies.folder / FILE
    make(path)
    before = path.read_bytes()
    client = proxies.client()
    response = client.response(said("Hello."), "Hi.")
    client.response(said("Hello."), "Hi.", stream=True)
    exchanges = [
        client.get(response["id"]),
        client.ask(said("No."), "Hi.", previous_response_id=response["id"]),
        client.ask(said("No."), [{"type": "item_reference", "id": response["output"][0]["id"]}]),
    ]
    for exchange in exchanges:
        assert exchange.error(503)["code"] == "store_unavailable"
        assert exchange.sent == []
    assert client.proxy.log.count("] dragoman_store: ") == 1
    assert "Until it can be used no response is kept" in client.proxy.log
    assert path.read_bytes() == before
    path.rename(proxies.folder / "away")
    kept = client.response(said("Hello."), "Hi.")
    assert client.get(kept["id"]).json == kept
