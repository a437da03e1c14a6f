"""A response is that of the credential, the host and the base path that made it.

Whoever else asks for it gets the answer for what is not there, and learns nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.proxy.stored.open_store import FILE
from fixtures.server import Upstream
from tests.live.mitmdump import Mitmdump, make_confdir
from tests.live.responses import Exchange
from tests.live.stored import (
    HELD,
    Client,
    Item,
    called,
    item_not_found,
    not_found,
    outputs_of,
    said,
)

ALICE = "sk-alice-000111222333"


@pytest.fixture
def alice(plain_upstream: Upstream, mitmdump: Callable[..., Mitmdump]) -> Client:
    proxy = mitmdump("--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all")
    return Client(plain_upstream, proxy, key=ALICE)


OTHERS: dict[str, Callable[[Client], Client]] = {
    "another key": lambda alice: alice.but(key="sk-mallory"),
    "a key that begins the same": lambda alice: alice.but(key=ALICE + "4"),
    "a key in other letters": lambda alice: alice.but(key=ALICE.upper()),
    "an empty key": lambda alice: alice.but(key=""),
    "no key": lambda alice: alice.but(key=None),
    "another base path": lambda alice: alice.but(options=";key=other"),
}


def crossed(alice: Client, other: Client, response: Item) -> None:
    """Nothing that `other` asks for gets at the response, or changes it."""
    response_id = response["id"]
    submitted = other.submit(said("Stolen."), response, outputs_of(response))
    tried: list[Exchange] = [
        *other.about(response_id),
        other.call("POST", f"/{response_id}/cancel"),
        other.call("DELETE", f"/{response_id}"),
        submitted,
    ]
    for exchange in tried:
        not_found(exchange, response_id)
    not_found(
        other.ask(said("Stolen."), "Hi.", previous_response_id=response_id),
        response_id,
        previous=True,
    )
    for item in response["output"]:
        reference = {"type": "item_reference", "id": item["id"]}
        exchange = other.ask(said("Stolen."), [reference])
        item_not_found(exchange, item["id"])
    assert alice.get(response_id).json == response


@pytest.mark.parametrize("who", OTHERS)
def test_nobody_else_gets_at_a_response(alice: Client, who: str) -> None:
    other = OTHERS[who](alice)
    response = alice.response(called("secret", thought="Secret."), "Hi.")
    crossed(alice, other, response)
    own = other.response(said("Mine."), "Hi.")
    not_found(alice.get(own["id"]), own["id"])
    assert other.get(own["id"]).json == own


@pytest.mark.parametrize("key", ["sk-mallory", "", None])
def test_nobody_else_reads_or_cancels_one_that_runs(alice: Client, key: str | None) -> None:
    slow = alice.but(options=HELD)
    with slow.running(reply=said("Slow.")) as (response_id, stream):
        other = slow.but(key=key)
        not_found(other.get(response_id), response_id)
        not_found(other.call("POST", f"/{response_id}/cancel"), response_id)
        assert slow.get(response_id).json["status"] == "in_progress"
        slow.release()
        assert b'"status":"completed"' in stream.read()


@pytest.mark.parametrize("http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
def test_hosts_are_apart(
    tls_upstream: Upstream, rerouted: Callable[..., Mitmdump], http2: bool
) -> None:
    """Also if they are one address; the letters of a name may be large or small."""
    proxy = rerouted(tls_upstream, "--set", "dragoman_bridge=~all")
    alice = Client(tls_upstream, proxy, key=ALICE, origin="https://one.example", http2=http2)
    response = alice.response(called("ls"), "Hi.")
    for origin in ("https://two.example", "https://one.example.two.example"):
        crossed(alice, alice.but(origin=origin), response)
    upper = alice.but(origin="https://ONE.example")
    assert upper.get(response["id"]).json == response


def test_that_nobody_owns_what_is_kept_is_said_once(own: tuple[Client, Path]) -> None:
    client, _ = own
    warning = "requests without any credential"
    client.response(said("Hello."), "Hi.")
    nobody = client.but(key=None)
    nobody.response(said("Hello."), "Hi.", store=False)
    nobody.ask(said("Hello."), "Hi.", ("x-auth-token", "mine"))
    assert warning not in client.proxy.log
    for _ in range(3):
        nobody.response(said("Hello."), "Hi.")
    assert client.proxy.log.count(warning) == 1


@pytest.fixture
def own(plain_upstream: Upstream, tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    """With a store that nobody else writes to."""
    make_confdir(tmp_path)
    arguments = ["--mode", f"reverse:{plain_upstream.url}", "--set", "dragoman_bridge=~all"]
    with Mitmdump(tmp_path, *arguments) as proxy:
        yield Client(plain_upstream, proxy, key=ALICE), tmp_path / FILE
        proxy.check_log()


def test_the_credential_is_nowhere_in_the_store(own: tuple[Client, Path]) -> None:
    client, path = own
    response = client.response(said("Hello."), "Hi.", stream=True)
    client.response(said("Hello."), "Hi.", previous_response_id=response["id"])
    with closing(sqlite3.connect(path)) as db:
        assert len(db.execute("SELECT * FROM responses").fetchall()) == 2
    stored = b"".join(file.read_bytes() for file in path.parent.glob(f"{FILE}*"))
    assert b"Hello." in stored
    assert ALICE.encode() not in stored
    assert ALICE.encode().removeprefix(b"sk-") not in stored


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_what_is_deleted_is_gone_from_the_files(own: tuple[Client, Path], stream: bool) -> None:
    """Though another response continues it."""
    client, path = own
    response = client.response(said("Said in confidence."), "Asked in confidence.", stream=stream)
    client.response(said("Hello."), "Hi.", previous_response_id=response["id"])
    assert client.call("DELETE", f"/{response['id']}").json["deleted"] is True
    stored = b"".join(file.read_bytes() for file in path.parent.glob(f"{FILE}*"))
    assert b"Hello." in stored
    assert b"confidence" not in stored


def test_one_key_has_other_owners_in_other_stores(own: tuple[Client, Path], tmp_path: Path) -> None:
    """The hash is keyed: who has a copy of a store cannot look a key up in it."""
    client, path = own
    client.response(said("Hello."), "Hi.")
    make_confdir(tmp_path / "other")
    arguments = ["--mode", f"reverse:{client.upstream.url}", "--set", "dragoman_bridge=~all"]
    with Mitmdump(tmp_path / "other", *arguments) as proxy:
        client.but(proxy=proxy).response(said("Hello."), "Hi.")
    owners = set()
    for file in (path, tmp_path / "other" / FILE):
        with closing(sqlite3.connect(file)) as db:
            owners |= {row[0] for row in db.execute("SELECT owner FROM responses")}
    assert len(owners) == 2
