"""The kept responses, as hooks get at them: without holding up mitmproxy's event loop.

A store is read and written in one thread of its own, in the order of the calls; so what
was kept is there for whoever asks next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from mitmproxy import http

from ..bridge.errors import Refused
from ..state.going_on import Earlier, go_on, makers, not_found, previous_id, referenced
from ..state.keeping import owner
from ..state.kept import Json, Kept, Unreadable
from ..state.store import Store, StoreError
from .credentials import is_anonymous

logger = logging.getLogger(__name__)

T = TypeVar("T")
PATIENCE = 3.0
"""Seconds that a turn waits for the store, together with all that waits for it."""


class Archive:
    """Kept responses of all owners; `opened` says whether there is a store at all."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._warned = False

    @property
    def opened(self) -> bool:
        return self._store is not None

    def use(self, store: Store | None) -> None:
        """Keep responses in `store` from now on, or not at all."""
        self.close()
        self._store = store
        if store is not None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-store")

    def close(self) -> None:
        """Wait for what is being written, and let go of the store."""
        store, thread = self._store, self._thread
        self._store = self._thread = None
        if thread is not None and store is not None:
            thread.submit(store.close)
            thread.shutdown(wait=True)

    def warn_of_nobody(self, request: http.Request) -> None:
        """What is to be kept for a request may be for everybody; said once."""
        if is_anonymous(request) and not self._warned:
            self._warned = True
            logger.warning(
                "%s: responses are kept for requests without any credential: whoever asks this "
                "host without one can read them, go on from them and delete them.",
                request.pretty_host,
            )

    async def get(self, asker: bytes, ids: Sequence[str]) -> list[Kept | None]:
        """What is kept of each.  Raises `StoreError`."""
        now = time.time()
        return await self._run(asker, lambda store, owner: _decoded(store.get(owner, ids, now)))

    async def one(self, asker: bytes, response_id: str, *, previous: bool = False) -> Kept:
        """A response.  Raises `Refused` (see `not_found`) and `StoreError`."""
        (kept,) = await self.get(asker, [response_id])
        if kept is None:
            raise not_found(response_id, previous=previous)
        return kept

    async def chain(self, asker: bytes, response_id: str, *, previous: bool = False) -> list[Kept]:
        """A response, behind all those it goes on from.  Raises as `one` does, also if one
        of those is not there."""
        kept = await self.one(asker, response_id, previous=previous)
        before = await self.get(asker, kept.before) if kept.before else []
        chain = [found for found in before if found is not None]
        if len(chain) < len(before):
            raise not_found(response_id, previous=previous)
        return [*chain, kept]

    async def earlier(self, asker: bytes, body: Json) -> Earlier:
        """What a request goes on from.  Raises `Refused` and `StoreError`."""
        previous = previous_id(body)
        chain = await self.chain(asker, previous, previous=True) if previous else []
        ids = sorted(referenced(body))
        found = await self.get(asker, ids) if ids else []
        others = {name: kept for name, kept in zip(ids, found, strict=True) if kept is not None}
        return go_on(body, chain, others)

    async def keep(self, asker: bytes, kept: Kept) -> None:
        """Safe when this returns, but for the events, which are written behind it: a replay
        of them is not worth waiting for.  Raises `StoreError`."""
        now = time.time()
        response_id: str = kept.response["id"]
        needed = [*kept.before, *sorted(makers(kept.references))]
        bare = replace(kept, events=b"")
        await self._run(
            asker, lambda store, owner: store.put(owner, response_id, bare.encoded(), now, needed)
        )
        if kept.events:
            self._later(
                asker, lambda store, owner: store.put(owner, response_id, kept.encoded(), now)
            )

    def _later(self, asker: bytes, call: Callable[[Store, str], None]) -> None:
        """In the store's thread, in front of all that is asked from now on."""
        store, thread = self._store, self._thread
        if store is not None and thread is not None:
            thread.submit(lambda: call(store, owner(store.secret(), asker))).add_done_callback(
                _told_if_failed
            )

    async def delete(self, asker: bytes, response_id: str) -> bool:
        """Whether it was there.  Raises `StoreError`."""
        return await self._run(asker, lambda store, owner: store.delete(owner, response_id))

    async def speaks(self, address: str) -> str:
        """Which API the upstream at an address is remembered to speak; nothing if that is not
        known.  Raises `Refused` and `StoreError`."""
        now = time.time()
        return await self._run(b"", lambda store, _owner: store.remembered(address, now))

    def remember(self, address: str, speaks: str) -> None:
        """Nobody waits for it: what is not kept is found out again."""
        store, thread = self._store, self._thread
        if store is not None and thread is not None:
            thread.submit(store.remember, address, speaks, time.time())

    async def _run(self, asker: bytes, call: Callable[[Store, str], T]) -> T:
        """In the store's thread, but not for longer than `PATIENCE`: the end of a reply waits
        for this.  The store's secret is asked for each time: one that lost all it kept has
        another."""
        store, thread = self._store, self._thread
        if store is None or thread is None:
            raise Refused("Responses are not kept any more.", status=503)
        running = asyncio.get_running_loop().run_in_executor(
            thread, lambda: call(store, owner(store.secret(), asker))
        )
        try:
            return await asyncio.wait_for(running, PATIENCE)
        except TimeoutError:
            raise StoreError(f"it has not answered for {PATIENCE:.0f} seconds") from None


def _told_if_failed(written: Future[None]) -> None:
    if error := written.exception():
        logger.error("The events of a response are not kept: %s", error)


def _decoded(blobs: Iterable[bytes | None]) -> list[Kept | None]:
    return [None if blob is None else _readable(blob) for blob in blobs]


def _readable(blob: bytes) -> Kept | None:
    """Kept by another version of this program: as good as not there."""
    try:
        return Kept.decoded(blob)
    except Unreadable:
        return None
