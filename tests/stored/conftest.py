"""The back-ends of the store, and the redis-server of the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stored.backends import Backend, MemoryBackend, RedisBackend, SqliteBackend
from tests.stored.redis_server import RedisServer, find_redis

_USES_REDIS = ("redis_server", "redis_backend", "own_redis")


def pytest_runtest_setup(item: pytest.Function) -> None:
    """Without Redis each test counts as not run, not only the first of the session."""
    callspec = getattr(item, "callspec", None)
    wanted = callspec is not None and callspec.params.get("backend") == "redis"
    if wanted or any(name in item.fixturenames for name in _USES_REDIS):
        find_redis()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The one that stays up."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """One that a test may start and stop; it is not running yet."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def redis_backend(redis_server: RedisServer, tmp_path: Path) -> Iterator[Backend]:
    backend = RedisBackend(redis_server.url, tmp_path)
    yield backend
    backend.clear()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """Each in turn, and empty."""
    if request.param == "redis":
        yield request.getfixturevalue("redis_backend")
        return
    made = {"memory": MemoryBackend, "sqlite": SqliteBackend}[request.param](tmp_path)
    yield made
    made.clear()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SqliteBackend]:
    backend = SqliteBackend(tmp_path)
    yield backend
    backend.clear()
