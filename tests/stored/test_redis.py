"""The store in a Redis: away, late, restarted, full, with a password; and no secret told."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.exceptions import OptionsError

from dragoman.proxy.stored.open_store import open_store
from dragoman.stored.store import Limits, Store, StoreError
from tests.stored.backends import Backend
from tests.stored.redis_server import RedisServer

OWNER = "a" * 64
NOW = 1_700_000_000.0
PASSWORD = "hunter2-and-more"


def redis_store(url: str, days: float = 30) -> Store:
    return open_store(url, confdir=Path("/nonexistent"), limits=Limits(days, 1000))


def test_a_redis_that_restarts_between_two_calls_is_not_noticed(own_redis: RedisServer) -> None:
    own_redis.start()
    store = redis_store(own_redis.url)
    store.put(OWNER, "resp_1", b"one", NOW)
    own_redis.stop()
    own_redis.start()
    store.put(OWNER, "resp_2", b"two", NOW)
    assert store.get(OWNER, ["resp_1", "resp_2"], NOW) == [None, b"two"]
    store.close()


def test_a_redis_that_comes_later_than_the_proxy_is_found(own_redis: RedisServer) -> None:
    store = redis_store(own_redis.url)
    for use in (
        store.secret,
        lambda: store.put(OWNER, "resp_1", b"one", NOW),
        lambda: store.get(OWNER, ["resp_1"], NOW),
        lambda: store.delete(OWNER, "resp_1"),
    ):
        with pytest.raises(StoreError, match=f"the Redis at 127.0.0.1:{own_redis.port}: "):
            use()
    own_redis.start()
    store.put(OWNER, "resp_1", b"one", NOW)
    assert store.get(OWNER, ["resp_1"], NOW) == [b"one"]
    store.close()


def test_a_redis_that_lost_everything_has_one_secret_for_all(own_redis: RedisServer) -> None:
    own_redis.start()
    first, second = redis_store(own_redis.url), redis_store(own_redis.url)
    before = first.secret()
    own_redis.stop()
    own_redis.start()
    assert second.secret() == first.secret() != before


def test_a_redis_that_hangs_is_not_waited_for(own_redis: RedisServer) -> None:
    own_redis.start()
    store = redis_store(own_redis.url)
    store.put(OWNER, "resp_1", b"one", NOW)
    with own_redis.paused(), pytest.raises(StoreError, match=r"[Tt]imeout"):
        store.get(OWNER, ["resp_1"], NOW)
    assert store.get(OWNER, ["resp_1"], NOW) == [b"one"]


def test_the_password_is_used_and_never_told(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--requirepass", PASSWORD) as server:
        address = f"127.0.0.1:{server.port}"
        store = redis_store(f"redis://:{PASSWORD}@{address}/0")
        store.put(OWNER, "resp_1", b"one", NOW)
        assert store.get(OWNER, ["resp_1"], NOW) == [b"one"]
        for credentials in (f":wrong-{PASSWORD}@", f"user:{PASSWORD}@", ""):
            with pytest.raises(StoreError, match=f"the Redis at {address}: ") as caught:
                redis_store(f"redis://{credentials}{address}/0").get(OWNER, ["resp_1"], NOW)
            assert PASSWORD not in str(caught.value)
    with pytest.raises(StoreError) as caught:
        store.get(OWNER, ["resp_1"], NOW)
    assert PASSWORD not in str(caught.value)


def test_a_server_that_repeats_what_it_is_sent_does_not_make_us_tell(tmp_path: Path) -> None:
    """So does a Redis with a command that it does not know, if with its beginning only."""
    with RedisServer(tmp_path, "--rename-command", "AUTH", "") as server:
        store = redis_store(f"redis://:{PASSWORD * 20}@127.0.0.1:{server.port}/0?protocol=2")
        with pytest.raises(StoreError, match="unknown command") as caught:
            store.get(OWNER, ["resp_1"], NOW)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    "rest",
    [
        f":{PASSWORD}@host:port/0",
        f":{PASSWORD}@host:99999999/0",
        f":{PASSWORD}@[host/0",
        f":{PASSWORD}@host/0?no_such_option=1",
        f":{PASSWORD}@host/0?socket_timeout=soon",
    ],
)
@pytest.mark.usefixtures("redis_backend")
def test_a_wrong_url_is_said_without_the_password(rest: str) -> None:
    with pytest.raises((OptionsError, StoreError)) as caught:
        redis_store(f"redis://{rest}").get(OWNER, ["resp_1"], NOW)
    assert PASSWORD not in str(caught.value)
    assert "host" in str(caught.value)


def test_a_full_redis_is_an_error_that_does_not_tell_what_was_put(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction") as server:
        store = redis_store(server.url)
        with pytest.raises(StoreError, match=r"OOM|maxmemory") as caught:
            store.put(OWNER, "resp_1", b"said in confidence " * 100_000, NOW)
    assert "confidence" not in str(caught.value)
    assert OWNER not in str(caught.value)


def test_what_a_full_redis_evicts_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = ("--maxmemory", "3mb", "--maxmemory-policy", "volatile-lru")
    with RedisServer(tmp_path, *options) as server:
        store = redis_store(server.url)
        store.secret()
        for number in range(200):
            store.put(OWNER, f"resp_{number}", bytes(50_000), NOW + number)
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 4
    assert all("has evicted" in line and "maxmemory" in line for line in lines)


def test_each_response_is_a_key_with_an_end_and_the_secret_has_none(
    redis_backend: Backend, redis_server: RedisServer
) -> None:
    store = redis_backend.open(days=2)
    store.secret()
    store.put(OWNER, "resp_1", b"one", NOW)
    client: Any = importlib.import_module("redis").Redis.from_url(redis_server.url)
    ends = {key: client.ttl(key) for key in client.keys("*")}
    assert set(ends) == {b"dragoman:secret", f"dragoman:response:{OWNER}:resp_1".encode()}
    assert ends[b"dragoman:secret"] == -1
    assert 2 * 86400 - 60 < ends[f"dragoman:response:{OWNER}:resp_1".encode()] <= 2 * 86400


def test_without_the_package_it_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(OptionsError, match="pip install redis") as caught:
        redis_store(f"redis://:{PASSWORD}@host:6379/0")
    assert PASSWORD not in str(caught.value)
