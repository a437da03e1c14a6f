"""The store in trouble: no turn is broken, nothing that a client heard the end of is lost."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dragoman.proxy.stored.open_store import FILE
from fixtures.server import Upstream
from tests.live import wire
from tests.live.chat import CONTROLS
from tests.live.mitmdump import ADDON, ROOT, Mitmdump, make_confdir
from tests.live.responses import JSON
from tests.live.stored import (
    ASK,
    HELD,
    Client,
    called,
    item_not_found,
    not_found,
    outputs_of,
    said,
)
from tests.stored.redis_server import RedisServer
from tests.waiting import eventually

NOT_KEPT = "this response is not kept: "
SHORT_PAUSE = "test_constants=proxy.stored.store_thread.PAUSE=2"
"""An option of `CONTROLS`: a store in trouble is called again after two seconds, not five."""
FOR_EVER = [
    f"test_constants=proxy.stored.{constant}=3600"
    for constant in ("store_thread.PATIENCE", "sqlite.BUSY", "redis.ANSWER")
]
"""Options of `CONTROLS`: a turn waits for its store as long as that does not answer."""
WITHOUT_SQLITE = ROOT / "tests" / "live" / "without_sqlite.py"
WITHOUT_LAYER = ROOT / "tests" / "live" / "without_layer.py"
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture
def start(plain_upstream: Upstream, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Gives a client of a mitmdump of its own, which keeps responses in `tmp_path`."""
    with contextlib.ExitStack() as stack:
        make_confdir(tmp_path)
        started = []

        def get(*options: str, scripts: tuple[Path, ...] = (ADDON, CONTROLS)) -> Client:
            arguments = ["--mode", f"reverse:{plain_upstream.url}"]
            for option in ("dragoman_bridge=~all", *options):
                arguments += ["--set", option]
            proxy = stack.enter_context(Mitmdump(tmp_path, *arguments, scripts=scripts))
            started.append(proxy)
            return Client(plain_upstream, proxy)

        yield get
        for proxy in started:
            proxy.check_log()


def set_options(client: Client, **options: str) -> wire.Reply:
    body = json.dumps(options).encode()
    return wire.exchange(f"{client.proxy.url}/controls/options", body, headers=(JSON,))


# Killed


class Turns(threading.Thread):
    """Takes turns, each going on from the last, until the proxy has gone."""

    def __init__(self, client: Client, ended: list[str]) -> None:
        super().__init__()
        self._client = client
        self._ended = ended
        """The ids of the responses whose end has been heard of."""

    def run(self) -> None:
        previous = None
        path = f"/{self._client.name}{self._client.options}/v1/responses"
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self._client.proxy.port)
            while True:
                body = ASK | {"input": "x" * 5000, "stream": True}
                body |= {"previous_response_id": previous} if previous else {}
                headers = dict([JSON, ("authorization", f"Bearer {self._client.key}")])
                connection.request("POST", path, json.dumps(body), headers)
                response = connection.getresponse()
                while line := response.readline():
                    if line.startswith(b'data: {"type":"response.completed"'):
                        previous = json.loads(line[6:])["response"]["id"]
                        self._ended.append(previous)


@pytest.mark.parametrize("moment", [20, 60])
def test_a_killed_proxy_has_lost_nothing_that_a_client_heard_the_end_of(
    start: Callable[..., Client], tmp_path: Path, moment: int
) -> None:
    client = start().but(options=";cut=event;pace=0.002")
    client.upstream.replies[client.name] = said("A story. " * 200, thought="Hm. " * 50)
    ended: list[str] = []
    threads = [Turns(client, ended) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(ended) >= moment)
    client.proxy.kill()
    for thread in threads:
        thread.join()

    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    again = client.but(proxy=start().proxy)
    assert len(ended) >= moment
    for response_id in ended:
        kept = again.get(response_id)
        assert (kept.reply.status, kept.json["status"]) == (200, "completed")
    assert again.response(said("On."), "Go on.", previous_response_id=ended[-1])


# SQLite in trouble


def test_the_end_is_heard_of_only_when_it_is_kept(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    client = start(*FOR_EVER)
    client.response(said("Hello."), "Hi.")
    with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with client.running(reply=said("Hello.")) as (response_id, stream):
            connection: Any = stream.fp.raw._sock  # type: ignore[union-attr]
            connection.settimeout(0.7)
            with pytest.raises(TimeoutError):
                stream.read()
        with client.running(reply=said("Hello.")) as (response_id, stream):
            while b"output_text.done" not in stream.readline():
                pass
            # All but the end comes at once; the end, without the lock.
            assert client.get(response_id).json["output"]
            other.execute("ROLLBACK")
            assert b"event: response.completed\n" in stream.read()
    assert client.get(response_id).json["status"] == "completed"


@STREAMED
def test_a_file_that_cannot_be_used_breaks_no_turn(
    start: Callable[..., Client], tmp_path: Path, stream: bool
) -> None:
    client = start()
    first = client.response(called("ls"), "Hi.", stream=stream)
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("ALTER TABLE blobs RENAME TO away")
    client.proxy.mark()
    assert client.response(said("Hello."), "Hi.", stream=stream)["status"] == "completed"
    assert client.proxy.wait_for_log(NOT_KEPT).count(NOT_KEPT) == 1
    needing = [
        client.ask(said("No."), "Hi.", previous_response_id=first["id"], stream=stream),
        client.ask(said("No."), [{"type": "item_reference", "id": first["output"][0]["id"]}]),
        client.submit(said("No."), first, outputs_of(first), stream=stream),
        client.get(first["id"]),
        client.get(first["id"], "/input_items"),
    ]
    for exchange in needing:
        assert exchange.error(503)["code"] == "store_unavailable"
        assert exchange.sent == []
        assert str(tmp_path) not in exchange.reply.body.decode()
    eventually(lambda: client.proxy.log.count("Stored responses cannot be had: ") == len(needing))
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("ALTER TABLE away RENAME TO blobs")
    assert client.get(first["id"]).json == first


def test_a_response_larger_than_the_store_is_not_kept(start: Callable[..., Client]) -> None:
    """Which is no trouble of the store."""
    client = start("dragoman_store_max=100k")
    small = client.response(said("Hello."), "Hi.")
    large = client.response(said("Hello. " * 50_000), "Hi.", stream=True)
    assert large["status"] == "completed"
    client.proxy.wait_for_log(NOT_KEPT + ".*larger than dragoman_store_max")
    not_found(client.get(large["id"]), large["id"])
    assert client.get(small["id"]).json == small


def test_an_ancestor_that_had_to_go_is_named(start: Callable[..., Client]) -> None:
    client = start("dragoman_store=memory", "dragoman_store_max=50k")
    first = client.response(said("Hello. " * 3000), "Hi.")
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    second = client.response(said("Hi."), "Hi.", previous_response_id=first["id"], store=True)
    assert second["previous_response_id"] == first["id"]
    for _ in range(3):
        client.response(said("Hello. " * 2000), "Hi.")
    gone = [name for name in (first["id"], second["id"]) if client.get(name).reply.status == 404]
    assert gone
    item_not_found(client.ask(said("No."), [reference]), reference["id"])
    exchange = client.ask(said("No."), "Hi.", previous_response_id=second["id"])
    assert exchange.error(400)["message"] == f"Previous response with id '{gone[-1]}' not found."
    assert client.proxy.log.count("forgotten before their time (dragoman_store_max)") == 1


def test_without_sqlite_nothing_is_kept_with_one_warning(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    client = start(scripts=(WITHOUT_SQLITE, ADDON))
    first = client.response(said("One."), "1")
    second = client.ask(said("Two."), "2", previous_response_id=first["id"])
    assert second.error(503)["code"] == "store_unavailable"
    lines = [line for line in client.proxy.log.splitlines() if "has no sqlite3" in line]
    assert [line for line in lines if "refused: dragoman_store" not in line] == lines[:1]
    assert not (tmp_path / FILE).exists()


# Redis in trouble


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """It is not running yet."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@STREAMED
def test_a_redis_that_is_away_breaks_no_turn(
    start: Callable[..., Client], own_redis: RedisServer, stream: bool
) -> None:
    # Streamed, the pause is as long as it is for everybody.
    client = start(f"dragoman_store={own_redis.url}", *([] if stream else [SHORT_PAUSE]))
    lost = client.response(said("Hello."), "Hi.", stream=stream)
    assert client.proxy.wait_for_log(NOT_KEPT).count(NOT_KEPT) == 1
    exchange = client.ask(said("No."), "Hi.", previous_response_id=lost["id"])
    assert exchange.error(503)["code"] == "store_unavailable"
    assert exchange.sent == []
    own_redis.start()
    not_found(client.get(lost["id"]), lost["id"])
    kept = client.response(said("Hello."), "Hi.", stream=stream)
    assert client.get(kept["id"]).json == kept
    with own_redis.paused():
        response = client.response(said("Hello."), "Hi.", stream=stream)
        assert response["status"] == "completed"
        assert client.get(kept["id"]).error(503)["code"] == "store_unavailable"
    own_redis.stop()
    own_redis.start()
    eventually(lambda: client.get(kept["id"]).reply.status != 503)
    not_found(client.get(kept["id"]), kept["id"])
    fresh = client.response(said("Hello."), "Hi.", stream=stream)
    other = client.but(proxy=start(f"dragoman_store={own_redis.url}").proxy)
    assert other.get(fresh["id"]).json == fresh == client.get(fresh["id"]).json


# Options


def test_where_responses_are_kept_can_change_at_any_time(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    client = start()
    kept = client.response(said("Hello."), "Hi.")
    slow = client.but(options=HELD)
    with slow.running(reply=said("Hello.")) as (response_id, stream):
        for where in ("memory", str(tmp_path / "other.sqlite3")):
            assert set_options(client, dragoman_store=where).status == 200
            not_found(client.get(kept["id"]), kept["id"])
            fresh = client.response(said("Hello."), "Hi.")
            assert client.get(fresh["id"]).json == fresh
        slow.release()
        assert b"event: response.completed\n" in stream.read()
    assert slow.get(response_id).json["status"] == "completed", "kept where it is now"
    assert stat.S_IMODE((tmp_path / "other.sqlite3").stat().st_mode) == 0o600
    assert set_options(client, dragoman_store="").status == 200
    assert client.get(kept["id"]).json == kept
    refused = set_options(client, dragoman_store="somewhere")
    assert (refused.status, b"there is no store" in refused.body) == (400, True)
    assert set_options(client, dragoman_heartbeat="1").status == 200
    assert client.get(kept["id"]).json == kept


def test_a_damaged_row_is_a_503_and_no_other_is_touched(
    start: Callable[..., Client], tmp_path: Path
) -> None:
    client = start()
    damaged, whole = (client.response(said("Hello."), "Hi.") for _ in range(2))
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        rows = "SELECT key, blob FROM blobs JOIN responses USING (key) ORDER BY key"
        (key, blob), _ = file.execute(rows).fetchall()
        file.execute("UPDATE blobs SET blob = ? WHERE key = ?", (blob.replace(b"m", b"\xff"), key))
    response_id = damaged["id"]
    for exchange in (
        *(client.get(response_id, path) for path in ("", "?stream=true", "/input_items")),
        client.submit(said("No."), damaged, []),
        client.ask(said("No."), "Go on.", previous_response_id=response_id),
    ):
        assert exchange.error(503)["code"] == "store_unavailable"
    assert "cannot be read: it is damaged" in client.proxy.log
    assert client.get(whole["id"]).json == whole
    assert client.call("DELETE", f"/{response_id}").reply.status == 200


@STREAMED
def test_switched_off_nothing_is_kept_and_all_else_works(
    start: Callable[..., Client], tmp_path: Path, stream: bool
) -> None:
    client = start("dragoman_store=off")
    response = client.response(called("ls"), "Hi.", stream=stream)
    exchange = client.ask(said("No."), "Hi.", previous_response_id=response["id"])
    not_found(exchange, response["id"], previous=True)
    reference = {"type": "item_reference", "id": response["output"][0]["id"]}
    item_not_found(client.ask(said("No."), [reference], stream=stream), reference["id"])
    assert "nothing at" in client.get(response["id"]).json["error"]["message"]
    assert "nothing at" in client.submit(said("No."), response, []).json["error"]["message"]
    assert not (tmp_path / FILE).exists()

    slow = client.but(options=HELD)
    with slow.running(reply=said("Hello.")) as (response_id, events):
        assert set_options(client, dragoman_store="memory").status == 200
        slow.release()
        assert b"event: response.completed\n" in events.read()
    not_found(slow.get(response_id), response_id)
    with slow.running(reply=said("Hello.")) as (response_id, events):
        assert set_options(client, dragoman_store="off").status == 200
        slow.release()
        assert b"event: response.completed\n" in events.read()
    client.proxy.wait_for_log(f"{NOT_KEPT}Responses are not kept any more")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "dragoman_store_max=0",
            "dragoman_store_max is '0'; set it to a number of bytes from 1 up",
        ),
        ("dragoman_store_max=-1", "dragoman_store_max is '-1'; set it to a number of bytes"),
        ("dragoman_store_max=much", "dragoman_store_max is 'much'; set it to a number of bytes"),
        ("dragoman_store_days=0", "dragoman_store_days is '0'; set it to a number of days"),
        ("dragoman_store_days=nan", "dragoman_store_days is 'nan'; set it to a number of days"),
        ("dragoman_store=of", "there is no store 'of'; set it to memory, off, a redis:// URL"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_what_to_change(
    plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump], option: str, message: str
) -> None:
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    client = Client(plain_upstream, mitmdump(*arguments, scripts=(ADDON, CONTROLS)))
    kept = client.response(said("Hello."), "Hi.")
    refused = set_options(client, **dict([option.split("=")]))
    assert refused.status == 400
    assert message in refused.body.decode()
    assert client.get(kept["id"]).json == kept


def test_mitmdump_does_not_start_with_such_an_option(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("mitmdump")
    settings = [f"confdir={tmp_path}", "listen_port=0", "dragoman_store_max=0"]
    words = itertools.chain(*(("--set", setting) for setting in settings))
    ended = subprocess.run(
        [program, "-s", ADDON, *words], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 1
    assert "dragoman_store_max is '0'" in re.sub(r"\s+", " ", ended.stdout + ended.stderr)


def test_where_the_end_cannot_be_held_responses_are_kept_all_the_same(
    start: Callable[..., Client],
) -> None:
    """As with a mitmproxy whose internals have changed: then the client may hear of the end a
    moment before it is kept."""
    client = start(scripts=(WITHOUT_LAYER, ADDON))
    first = client.response(called("ls"), "Hi.", stream=True)
    eventually(lambda: client.get(first["id"]).reply.status == 200)
    assert client.get(first["id"]).json == first
    assert client.get(first["id"], "?stream=true").reply.status == 200
    resumed = client.submit(said("Done."), first, outputs_of(first), stream=True)
    last = resumed.story(prior=first["output"]).response
    eventually(lambda: client.get(first["id"]).json == last)
