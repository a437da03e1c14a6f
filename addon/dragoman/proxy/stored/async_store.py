"""The kept responses for hooks, without blocking mitmproxy's event loop.

A store is used in one thread of its own, in the order of the calls; so what was kept is there for
the next call.  What is read of it is put together here, one response at a time, so that no flow
waits for another's long conversation.
"""

from __future__ import annotations

import asyncio
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
    found_items,
    not_found,
    previous_id,
    referred_ids,
    response_ids_of,
    too_long,
)
from ...stored.save_context import owner
from ...stored.store import Limits, Store, StoreError, StoreFull
from ...stored.stored_response import OtherVersion, StoredResponse, Unreadable
from ...wire.errors import Refused
from ...wire.json_codec import Json
from ...wire.request_bounds import MAX_BODY
from ..observe.flow_name import host_of
from ..response_owner import is_anonymous
from .open_store import open_store, place_of
from .store_thread import StoreThread

logger = logging.getLogger(__name__)

T = TypeVar("T")
AT_ONCE = 8
TURNS_AT_ONCE = 100
AT_START, AT_RUN_TIME = 5.0, 0.2
"""Seconds to wait for a store to open: at run time all streams wait."""
_ADDRESS = "address:"
"""The beginning of an entry's name that says which API an upstream speaks; it has no owner."""


class AsyncStore:
    """Kept responses of all owners; `opened` says whether they are kept at all. What is awaited
    raises `StoreError` and `Refused`."""

    def __init__(self) -> None:
        self._thread: StoreThread | None = None
        self._choice: tuple[str, Path] | None = None
        """The value of ``dragoman_store``, and mitmproxy's confdir."""
        self._memory: StoreThread | None = None
        """The memory store, which loses nothing while another is in use."""
        self._warned = False
        self._full = False
        """Whether the log has said that the disk is full."""

    @property
    def opened(self) -> bool:
        return self._thread is not None

    @property
    def place(self) -> str:
        """``in memory``, without a password."""
        if self._choice is None or self._thread is None:
            return "nowhere"
        return f"in {place_of(*self._choice)}"

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
        if before is not None and before is not thread and before is not self._memory:
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

    # Responses

    async def has(self, asker: bytes, response_id: str) -> bool:
        (blob,) = await self._get(asker, [response_id])
        return blob is not None and _readable(blob) is not None

    async def one(self, asker: bytes, response_id: str) -> StoredResponse:
        """A whole response, which is requested itself."""
        (blob,) = await self._get(asker, [response_id])
        kept = None if blob is None else _readable(blob, whole=True)
        if kept is None:
            raise not_found(response_id)
        return kept

    async def chain(self, asker: bytes, ids: Sequence[str]) -> AsyncIterator[StoredResponse]:
        """The responses of one conversation, oldest first, without tools and instructions."""
        size = 0
        for begin in range(0, len(ids), AT_ONCE):
            some = ids[begin : begin + AT_ONCE]
            for name, blob in zip(some, await self._get(asker, some), strict=True):
                kept = None if blob is None else _readable(blob)
                if kept is None:
                    raise previous_not_found(name)
                size += kept.size
                if size > MAX_BODY:
                    raise too_long(MAX_BODY)
                yield kept
                await asyncio.sleep(0)

    async def earlier(self, asker: bytes, body: Json) -> Continuation:
        """What the request with this body continues."""
        items, ancestors = list[Json](), tuple[str, ...]()
        if previous := previous_id(body):
            (latest,) = [kept async for kept in self.chain(asker, [previous])]
            ancestors = (*latest.ancestors, previous)
            async for kept in self.chain(asker, ancestors):
                items += kept.turn_items()
        item_ids = referred_ids(body)
        ids = sorted(response_ids_of(item_ids))
        found = zip(ids, await self._get(asker, ids) if ids else [], strict=True)
        others = {name: each for name, blob in found if blob and (each := _readable(blob))}
        return Continuation(items, ancestors, found_items(item_ids, others))

    async def keep(self, asker: bytes, kept: StoredResponse, used: Sequence[str] = ()) -> None:
        """Safe when this returns; the time of what it has `used` begins anew."""
        now, name, blob = time.time(), kept.response["id"], kept.packed()
        await self._run(asker, lambda store, me: store.put(me, name, blob, now, used))
        self._full = False

    async def delete(self, asker: bytes, response_id: str) -> bool:
        """Whether it was there."""
        return await self._run(asker, lambda store, owner: store.delete(owner, response_id))

    # The reasoning of past turns

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
        self._full = False

    def level_of(self, error: Exception) -> int:
        """At which level the log says that something was not kept: a full disk costs one line, not
        one a turn."""
        if not isinstance(error, StoreFull):
            return logging.ERROR
        told, self._full = self._full, True
        return logging.DEBUG if told else logging.ERROR

    # Which API an upstream speaks

    async def speaks(self, address: str) -> tuple[str, float]:
        """The API that the upstream at this address (a hash) speaks, "" if unknown; and when that
        was found out, in Unix seconds."""
        if self._thread is None:
            return "", 0.0
        now, name = time.time(), _ADDRESS + address
        (blob,) = await self._thread.ask(lambda store: store.get("", [name], now))
        at, _, speaks = (blob or b"0 ").decode().partition(" ")
        return speaks, float(at)

    def remember(self, address: str, speaks: str, at: float) -> None:
        """Forget it for an empty text.  `at` is when it was found out, in Unix seconds.  Not
        awaited: what is lost is found out again."""
        now, name = time.time(), _ADDRESS + address

        def write(store: Store) -> None:
            if speaks:
                store.put("", name, f"{at:.0f} {speaks}".encode(), now)
            else:
                store.delete("", name)

        if self._thread is not None:
            self._thread.later(write)

    async def _get(self, asker: bytes, names: Sequence[str]) -> list[bytes | None]:
        now = time.time()
        return await self._run(asker, lambda store, owner: store.get(owner, names, now))

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


def _readable(blob: bytes, *, whole: bool = False) -> StoredResponse | None:
    """None for a response that another version of this program kept. Raises `StoreError` for one
    that is damaged."""
    try:
        return StoredResponse.of(blob, whole=whole)
    except OtherVersion:
        return None
    except Unreadable as error:
        raise StoreError(f"A kept response cannot be read: {error}.") from None
