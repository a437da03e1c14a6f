"""The kept responses for hooks, without blocking mitmproxy's event loop.

A store is used in one thread of its own, in the order of the calls; so what was kept is there for
the next call.  The last conversations are in memory; whether they are still kept is checked each
time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from mitmproxy import exceptions, http

from ...stored import turn_reasoning
from ...stored.continuation import (
    MAX_BYTES,
    Continuation,
    Conversation,
    Conversations,
    continuing,
    not_found,
    previous_id,
    referring,
    response_ids_of,
)
from ...stored.save_context import owner
from ...stored.store import Limits, Parts, Store, StoreError
from ...stored.stored_response import StoredResponse, Unreadable, parts_of
from ...stored.turn_reasoning import Remembered, TurnNames
from ...wire.errors import Refused
from ...wire.json_codec import Json
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
        self._ready = Conversations()
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

    async def get(
        self, asker: bytes, ids: Sequence[str], *, whole: bool = False
    ) -> list[StoredResponse | None]:
        """Unless `whole`, tools and instructions may be null."""
        now = time.time()

        def get(store: Store, owner: str) -> list[tuple[bytes | None, dict[str, bytes] | None]]:
            blobs = store.get(owner, ids, now)
            return [(blob, _parts(store, owner, blob) if whole else None) for blob in blobs]

        found = await self._run(asker, get)
        return [await in_slices(_readable(blob, parts), None) for blob, parts in found]

    async def one(
        self, asker: bytes, response_id: str, *, previous: bool = False
    ) -> StoredResponse:
        """A whole response, or the `previous` one of a request, which is refused without it."""
        (kept,) = await self.get(asker, [response_id], whole=not previous)
        if kept is None:
            raise not_found(response_id, previous=previous)
        return kept

    async def chain(self, asker: bytes, response_id: str) -> list[StoredResponse]:
        """A response after all those before it."""
        kept = await self.one(asker, response_id)
        return [*[found async for found in self._each(asker, kept.ancestors)], kept]

    async def _each(self, asker: bytes, ids: Sequence[str]) -> AsyncIterator[StoredResponse]:
        """All of these, some at a time."""
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            for name, found in zip(some, await self.get(asker, some), strict=True):
                if found is None:
                    raise not_found(name, previous=True)
                yield found

    async def earlier(self, asker: bytes, body: Json, flow: http.HTTPFlow) -> Continuation:
        """What the request of a flow continues."""
        previous = previous_id(body)
        chain, conversation, items = [], None, list[Json]()
        if previous:
            chain = [await self.one(asker, previous, previous=True)]
            conversation, items = await self._conversation_before(asker, chain[0], flow)
        item_ids = await in_slices(referring(body), flow)
        ids = sorted(response_ids_of(item_ids))
        found = await self.get(asker, ids) if ids else []
        others = {name: kept for name, kept in zip(ids, found, strict=True) if kept is not None}
        earlier = await in_slices(continuing(item_ids, chain, others, items), flow)
        if conversation is not None:
            added = earlier.items[len(items) :]
            conversation = await in_slices(conversation.continued(added), flow)
            self._ready.add(asker, earlier.ancestors, conversation)
        return earlier

    async def _conversation_before(
        self, asker: bytes, kept: StoredResponse, flow: http.HTTPFlow
    ) -> tuple[Conversation | None, list[Json]]:
        """The conversation before this response, unless it is too large to be kept ready, and its
        items."""
        ids, now = kept.ancestors, time.time()
        if not ids:
            return Conversation(), []
        ready = self._ready.find(asker, ids)
        if ready is not None:
            count = await self._run(asker, lambda store, owner: store.count(owner, ids, now))
            if count == len(ids):
                return ready, await in_slices(ready.items(), flow)

        items: list[Json] = []
        size = 0
        async for found in self._each(asker, ids):
            items += await in_slices(found.turn_items(), flow)
            size += found.size
        if size > MAX_BYTES:
            return None, items
        return await in_slices(Conversation().continued(items), flow), items

    async def keep(self, asker: bytes, kept: StoredResponse) -> None:
        """Safe when this returns."""
        now = time.time()
        response_id: str = kept.response["id"]
        self._ready.changed(asker, response_id)
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

        self._ready.changed(asker, response_id)
        return await self._run(asker, delete)

    async def recall(self, asker: bytes, turns: Sequence[TurnNames]) -> list[Remembered | None]:
        """The reasoning of each of these turns."""
        now, found = time.time(), list[Remembered | None]()
        for begin in range(0, len(turns), TURNS_AT_ONCE):
            some = turns[begin : begin + TURNS_AT_ONCE]
            found += await self._run(asker, partial(turn_reasoning.recall, turns=some, now=now))
        return found

    async def keep_reasoning(
        self, asker: bytes, names: TurnNames, text: str, *, used: Sequence[str]
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
