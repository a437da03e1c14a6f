"""The kept responses for hooks, without blocking mitmproxy's event loop.

A store is used in one thread of its own, in the order of the calls; so what was kept is there for
the next call.  The turns that were continued last are in memory; whether they are still kept is
checked each time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from mitmproxy import exceptions, http

from ...bridge.request.validation import previous_not_found
from ...stored import turn_reasoning
from ...stored.continuation import (
    Continuation,
    ReadyTurns,
    continuing,
    not_found,
    previous_id,
    reading_turns,
    referring,
    response_ids_of,
    writing_turn,
)
from ...stored.save_context import owner
from ...stored.store import Limits, Parts, Store, StoreError
from ...stored.stored_response import StoredResponse, Unreadable, parts_of
from ...wire.errors import Refused
from ...wire.json_codec import Json
from ...wire.json_slices import writing
from ...wire.slices import Slices
from ..observe.monitor import host_of
from ..response_owner import is_anonymous
from ..run_slices import in_slices
from .open_store import open_store, place_of
from .store_thread import StoreThread

logger = logging.getLogger(__name__)

T = TypeVar("T")
AT_ONCE = 8
TURNS_AT_ONCE = 100
AT_START, AT_RUN_TIME = 5.0, 0.2
"""Seconds to wait for a store to open: at run time all streams wait."""


class AsyncStore:
    """Kept responses of all owners; `opened` says whether they are kept at all. What is awaited
    raises `StoreError` and `Refused`, and `ClientLeft` where it is for a flow."""

    def __init__(self) -> None:
        self._thread: StoreThread | None = None
        self._choice: tuple[str, Path] | None = None
        """The value of ``dragoman_store``, and mitmproxy's confdir."""
        self._memory: StoreThread | None = None
        """The memory store, which loses nothing while another is in use."""
        self._ready = ReadyTurns()
        self._warned = False

    @property
    def opened(self) -> bool:
        return self._thread is not None

    @property
    def place(self) -> str:
        """In words, without a password."""
        if self._choice is None or self._thread is None:
            return "nowhere"
        return place_of(*self._choice)

    def choose(self, value: str, *, confdir: Path, limits: Limits, running: bool) -> None:
        """Keep responses where ``dragoman_store`` says; see `open_store`. Raises `OptionsError`,
        and changes nothing then. A store in use is not opened again, and the default one may be
        opened later."""
        choice = (value, confdir)
        thread = self._memory if value == "memory" else None
        if choice == self._choice:
            thread = self._thread
        if thread is not None:
            thread.limit(limits)
        elif value != "off":
            thread = StoreThread(partial(open_store, value, confdir=confdir), limits)
            _wait_for(thread, AT_RUN_TIME if running else AT_START, named=bool(value))
        if value == "memory":
            self._memory = thread
        before, self._thread, self._choice = self._thread, thread, choice
        if before is not None and before is not thread:
            self._ready.clear()
            if before is not self._memory:
                before.close()

    def close(self) -> None:
        """Wait a moment for what is being written, and close the store."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close(wait=True)

    def warn_if_anonymous(self, request: http.Request) -> None:
        """Warn once of responses that everybody may read."""
        if is_anonymous(request) and not self._warned:
            self._warned = True
            logger.warning(
                "%s: responses are kept for requests without any credential: whoever asks this "
                "host without one can read them, go on from them and delete them.",
                host_of(request),
            )

    async def get(self, asker: bytes, ids: Sequence[str]) -> list[StoredResponse | None]:
        """Without long tools and instructions, which no conversation needs."""
        now = time.time()
        blobs = await self._run(asker, lambda store, owner: store.get(owner, ids, now))
        return [await in_slices(_readable(blob, None), None) for blob in blobs]

    async def one(self, asker: bytes, response_id: str) -> StoredResponse:
        """A whole response, which is requested itself."""
        now = time.time()

        def get(store: Store, owner: str) -> tuple[bytes | None, dict[str, bytes]]:
            (blob,) = store.get(owner, [response_id], now)
            return blob, _parts(store, owner, blob)

        kept = await in_slices(_readable(*await self._run(asker, get)), None)
        if kept is None:
            raise not_found(response_id)
        return kept

    async def chain(self, asker: bytes, response_id: str) -> list[StoredResponse]:
        """A response after all those before it."""
        kept = await self.one(asker, response_id)
        return [*[found async for found in self._each(asker, kept.ancestors)], kept]

    async def _each(self, asker: bytes, ids: Sequence[str]) -> AsyncIterator[StoredResponse]:
        """All of these, which a request continues, some at a time."""
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            for name, found in zip(some, await self.get(asker, some), strict=True):
                if found is None:
                    raise previous_not_found(name)
                yield found

    async def earlier(self, asker: bytes, body: Json, flow: http.HTTPFlow) -> Continuation:
        """What the request of a flow continues."""
        previous, items = None, list[Json]()
        if previous_name := previous_id(body):
            (previous,) = [found async for found in self._each(asker, [previous_name])]
            items = await self.items(asker, previous.ancestors, flow)
            latest = await in_slices(previous.turn_items(), flow)
            self._ready.add(asker, previous_name, await in_slices(writing(latest), flow))
            items += latest
        item_ids = await in_slices(referring(body), flow)
        ids = sorted(response_ids_of(item_ids))
        found = await self.get(asker, ids) if ids else []
        others = {name: kept for name, kept in zip(ids, found, strict=True) if kept is not None}
        return await in_slices(continuing(previous, items, item_ids, others), flow)

    async def items(self, asker: bytes, ids: Sequence[str], flow: http.HTTPFlow) -> list[Json]:
        """What these responses, of one conversation and oldest first, add to it."""
        now, texts = time.time(), dict[str, bytes]()
        for name in ids:
            if (text := self._ready.find(asker, name)) is not None:
                texts[name] = text
        if texts:
            count = await self._run(asker, lambda store, owner: store.count(owner, ids, now))
            texts = texts if count == len(ids) else {}  # then one is not found
        async for kept in self._each(asker, [name for name in ids if name not in texts]):
            name = kept.response["id"]
            texts[name] = await in_slices(writing_turn(kept), flow)
            self._ready.add(asker, name, texts[name])
        return await in_slices(reading_turns(texts[name] for name in ids), flow)

    async def keep(self, asker: bytes, kept: StoredResponse) -> None:
        """Safe when this returns."""
        now = time.time()
        response_id: str = kept.response["id"]
        self._ready.drop(asker, response_id)
        needed = [*kept.ancestors, *sorted(response_ids_of(kept.references))]
        inherited: Parts = dict.fromkeys(kept.inherited)
        written = await in_slices(kept.writing(), None)

        def put(store: Store, owner: str) -> None:
            blob, parts = kept.packed(written)
            store.put(owner, response_id, blob, now, needed, parts={**inherited, **parts})

        await self._run(asker, put)

    async def delete(self, asker: bytes, response_id: str) -> bool:
        """Whether it was there."""

        def delete(store: Store, owner: str) -> bool:
            (blob,) = store.get(owner, [response_id], time.time())
            return store.delete(owner, response_id, parts_of(blob) if blob else ())

        self._ready.drop(asker, response_id)
        return await self._run(asker, delete)

    async def recall(
        self, asker: bytes, names: Sequence[Sequence[str]]
    ) -> list[turn_reasoning.Remembered | None]:
        """The reasoning of the messages with these names; None where none is kept."""
        now, found = time.time(), list[turn_reasoning.Remembered | None]()
        for begin in range(0, len(names), TURNS_AT_ONCE):
            some = names[begin : begin + TURNS_AT_ONCE]
            found += await self._run(asker, partial(turn_reasoning.recall, names=some, now=now))
        return found

    async def keep_reasoning(
        self, asker: bytes, names: Sequence[str], text: str, *, used: Sequence[str]
    ) -> None:
        """Safe when this returns; `used` are the names of the reasonings in its request."""
        keep = partial(turn_reasoning.keep, names=names, text=text, now=time.time(), used=used)
        await self._run(asker, keep)

    async def speaks(self, address: str) -> str:
        """Which API the upstream at an address speaks; "" if unknown."""
        now = time.time()
        return await self._run(b"", lambda store, _owner: store.remembered(address, now))

    def remember(self, address: str, speaks: str) -> None:
        """Not awaited: what is lost is found out again."""
        now = time.time()
        if self._thread is not None:
            self._thread.later(lambda store: store.remember(address, speaks, now))

    async def _run(self, asker: bytes, call: Callable[[Store, str], T]) -> T:
        """In the store's thread; see `StoreThread.ask`. The secret is read each time: a store that
        lost everything has another."""
        if self._thread is None:
            raise Refused("Responses are not kept any more.", status=503)
        return await self._thread.ask(lambda store: call(store, owner(store.secret(), asker)))


def _wait_for(thread: StoreThread, seconds: float, *, named: bool) -> None:
    """Wait for the store to open, for so many seconds at most. Raises `OptionsError` for a store
    that the user `named` and that cannot be opened."""
    try:
        thread.later(lambda _: None).result(seconds)
    except StoreError as error:
        if named:
            thread.close()
            raise exceptions.OptionsError(str(error)) from None
        logger.warning(
            "%s Until it can be used no response is kept, and what needs one is refused (503).",
            error,
        )
    except TimeoutError:
        logger.warning("The store of responses does not answer yet; it is used as soon as it does.")


def _parts(store: Store, owner: str, blob: bytes | None) -> dict[str, bytes]:
    digests = parts_of(blob) if blob is not None else []
    found = zip(digests, store.parts(owner, digests), strict=True)
    return {digest: part for digest, part in found if part is not None}


def _readable(blob: bytes | None, parts: dict[str, bytes] | None) -> Slices[StoredResponse | None]:
    """None for a response that another version of this program kept."""
    if blob is None:
        return None
    try:
        return (yield from StoredResponse.decoding(blob, parts))
    except Unreadable:
        return None
