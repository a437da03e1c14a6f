"""The kept responses, as hooks get at them: without holding up mitmproxy's event loop.

A store is read and written in one thread of its own, in the order of the calls; so what
was kept is there for whoever asks next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mitmproxy import http

from ..bridge.errors import Refused
from ..state.going_on import Earlier, go_on, not_found, previous_id, referenced
from ..state.keeping import owner
from ..state.kept import Json, Kept, Unreadable
from ..state.store import Store
from .addresses import base_path

T = TypeVar("T")
_CREDENTIALS = ("authorization", "x-api-key", "api-key")


class Archive:
    """Kept responses of all owners; `opened` says whether there is a store at all."""

    def __init__(self) -> None:
        self._store: Store | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._secret: bytes | None = None

    @property
    def opened(self) -> bool:
        return self._store is not None

    def use(self, store: Store | None) -> None:
        """Keep responses in `store` from now on, or not at all."""
        self.close()
        self._store, self._secret = store, None
        if store is not None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-store")

    def close(self) -> None:
        """Wait for what is being written, and let go of the store."""
        store, thread = self._store, self._thread
        self._store = self._thread = None
        if thread is not None and store is not None:
            thread.submit(store.close)
            thread.shutdown(wait=True)

    async def owner(self, request: http.Request) -> str:
        """Whose the responses of this request are; before its path is changed."""
        store = self._opened_store()
        if self._secret is None:
            self._secret = await self._run(store.secret)
        credentials = [request.headers.get(name, "") for name in _CREDENTIALS]
        upstream = f"{request.scheme}://{request.host}:{request.port}{base_path(request)}"
        return owner(self._secret, credentials, upstream)

    async def get(self, owner: str, ids: Sequence[str]) -> list[Kept | None]:
        """What is kept of each.  Raises `StoreError`."""
        store = self._opened_store()
        now = time.time()
        return await self._run(lambda: _decoded(store.get(owner, ids, now)))

    async def chain(self, owner: str, response_id: str, *, previous: bool = False) -> list[Kept]:
        """A response, behind all those it goes on from.  Raises `Refused` (see `not_found`)
        if one of them is not there, and `StoreError`."""
        (kept,) = await self.get(owner, [response_id])
        if kept is None:
            raise not_found(response_id, previous=previous)
        before = await self.get(owner, kept.before) if kept.before else []
        chain = [found for found in before if found is not None]
        if len(chain) < len(before):
            raise not_found(response_id, previous=previous)
        return [*chain, kept]

    async def earlier(self, owner: str, body: Json) -> Earlier:
        """What a request goes on from.  Raises `Refused` and `StoreError`."""
        previous = previous_id(body)
        chain = await self.chain(owner, previous, previous=True) if previous else []
        ids = sorted(referenced(body))
        found = await self.get(owner, ids) if ids else []
        others = {name: kept for name, kept in zip(ids, found, strict=True) if kept is not None}
        return go_on(body, chain, others)

    async def keep(self, owner: str, kept: Kept) -> None:
        """Safe when this returns.  Raises `StoreError`."""
        store = self._opened_store()
        now = time.time()
        response_id: str = kept.response["id"]
        await self._run(lambda: store.put(owner, response_id, kept.encoded(), now, kept.before))

    async def delete(self, owner: str, response_id: str) -> bool:
        """Whether it was there.  Raises `StoreError`."""
        store = self._opened_store()
        return await self._run(lambda: store.delete(owner, response_id))

    def _opened_store(self) -> Store:
        if self._store is None:
            raise Refused("Responses are not kept any more.", status=503)
        return self._store

    async def _run(self, call: Callable[[], T]) -> T:
        if self._thread is None:
            raise Refused("Responses are not kept any more.", status=503)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _decoded(blobs: Iterable[bytes | None]) -> list[Kept | None]:
    return [None if blob is None else _readable(blob) for blob in blobs]


def _readable(blob: bytes) -> Kept | None:
    """Kept by another version of this program: as good as not there."""
    try:
        return Kept.decoded(blob)
    except Unreadable:
        return None
