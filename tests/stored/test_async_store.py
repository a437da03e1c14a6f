"""The store as hooks see it: nobody waits for another's conversation; what is known of hosts."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman.proxy.stored import async_store
from dragoman.proxy.stored.async_store import AsyncStore
from dragoman.stored.store import Limits, StoreError, StoreFull
from dragoman.stored.stored_response import StoredResponse
from dragoman.wire.errors import Refused
from dragoman.wire.json_codec import dumps
from tests.stored.backends import Backend

ME = b"me"
DAY = 86400.0


@pytest.fixture
def store(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[AsyncStore]:
    monkeypatch.setattr(async_store, "time", type("Clock", (), {"time": lambda: backend.now}))
    opened = AsyncStore()
    limits = Limits(30, 10**9)
    opened.choose(backend.value, confdir=backend.confdir, limits=limits, running=True)
    yield opened
    opened.close()


# Conversations


async def chain(store: AsyncStore, sizes: list[int]) -> str:
    """Keep a conversation of turns with so many items of a kilobyte; returns its last id."""
    ids: tuple[str, ...] = ()
    for size in sizes:
        name = f"resp_{len(ids):032x}"
        items = dumps([{"role": "user", "content": "word " * 200}] * size)
        output: list[Any] = [{"type": "message", "role": "assistant", "content": "Yes."}]
        kept = StoredResponse({"id": name, "output": output}, {}, items, ids)
        await store.keep(ME, kept, ids)
        ids = (*ids, name)
    return ids[-1]


def test_others_go_on_while_a_long_conversation_is_put_together(
    store: AsyncStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, at, read = 0, list[int](), StoredResponse.turn_items

    def turn_items(kept: StoredResponse) -> list[Any]:
        at.append(turns)
        return read(kept)

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def together() -> None:
        last = await chain(store, [1000] * 28)
        other = asyncio.create_task(others())
        earlier = await store.earlier(ME, {"previous_response_id": last})
        other.cancel()
        assert len(earlier.items) == 28 * 1001

    monkeypatch.setattr(StoredResponse, "turn_items", turn_items)
    asyncio.run(together())
    assert max(Counter(at).values()) == 1, "others have a turn after each response"


def test_a_conversation_that_is_too_long_is_refused(store: AsyncStore) -> None:
    async def refused() -> Refused:
        last = await chain(store, [12_000] * 3)
        with pytest.raises(Refused) as caught:
            await store.earlier(ME, {"previous_response_id": last})
        return caught.value

    error = asyncio.run(refused())
    assert (error.status, error.param) == (413, "previous_response_id")
    assert "more than 33,554,432 bytes" in str(error)


# What is known of hosts


async def known(store: AsyncStore, names: str) -> list[str]:
    return [(await store.speaks(letter * 64))[0] for letter in names]


def test_an_address_is_remembered_until_it_is_forgotten(store: AsyncStore) -> None:
    async def live() -> None:
        assert await known(store, "a") == [""]
        store.remember("a" * 64, "chat", 1e9)
        store.remember("b" * 64, "its own API", 2e9)
        assert await known(store, "abc") == ["chat", "its own API", ""]
        assert await store.speaks("b" * 64) == ("its own API", 2e9)
        store.remember("a" * 64, "its own API", 1e9)
        for letter in "bc":
            store.remember(letter * 64, "", 1e9)
        assert await known(store, "abc") == ["its own API", "", ""]

    asyncio.run(live())


def test_a_full_disk_costs_one_line_until_something_is_kept_again(store: AsyncStore) -> None:
    async def keep() -> None:
        await store.keep(ME, StoredResponse({"id": "resp_1", "output": []}, {}, b"[]", ()))

    full = StoreFull("database or disk is full")
    assert [store.level_of(full) for _ in range(3)] == [logging.ERROR, *[logging.DEBUG] * 2]
    assert store.level_of(StoreError("locked")) == logging.ERROR
    asyncio.run(keep())
    assert store.level_of(full) == logging.ERROR
