"""A store that is opened when it is used, and by the next use if that failed.

So a store in trouble (locked, damaged, on a disk that does not answer) stops neither
mitmproxy's start nor its streams, and serves as soon as the trouble is over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from mitmproxy import exceptions

from ...stored.store import NO_PARTS, NotOpened, Parts, Store, StoreError
from .open_store import open_store

logger = logging.getLogger(__name__)


class Opening:
    """A `Store` that `open_store` gives, sooner or later."""

    def __init__(self, value: str, *, confdir: Path, days: float, max_bytes: int) -> None:
        """Opens nothing yet.  `value` is not ``off``; see `open_store`."""
        self._value = value
        self._confdir = confdir
        self._days = days
        self._max_bytes = max_bytes
        self._store: Store | None = None
        self._failed = False

    def open(self) -> Store:
        """The store itself.  Raises `NotOpened`."""
        if self._store is None:
            bounds = (self._days, self._max_bytes)
            try:
                self._store = open_store(
                    self._value, confdir=self._confdir, days=self._days, max_bytes=self._max_bytes
                )
            except exceptions.OptionsError as error:
                self._failed = True
                raise NotOpened(str(error)) from None
            if self._store is None:
                raise StoreError("responses are not kept")
            if bounds != (self._days, self._max_bytes):  # changed meanwhile
                self._store.limit(self._days, self._max_bytes)
            if self._failed:
                logger.info("The store of responses can be used now.")
        return self._store

    def limit(self, days: float, max_bytes: int) -> None:
        self._days, self._max_bytes = days, max_bytes
        if self._store is not None:
            self._store.limit(days, max_bytes)

    def secret(self) -> bytes:
        return self.open().secret()

    def put(
        self,
        owner: str,
        response_id: str,
        blob: bytes,
        now: float,
        keeps: Sequence[str] = (),
        *,
        parts: Parts = NO_PARTS,
    ) -> None:
        self.open().put(owner, response_id, blob, now, keeps, parts=parts)

    def get(self, owner: str, ids: Sequence[str], now: float) -> list[bytes | None]:
        return self.open().get(owner, ids, now)

    def parts(self, owner: str, digests: Sequence[str]) -> list[bytes | None]:
        return self.open().parts(owner, digests)

    def count(self, owner: str, ids: Sequence[str], now: float) -> int:
        return self.open().count(owner, ids, now)

    def delete(self, owner: str, response_id: str, parts: Sequence[str] = ()) -> bool:
        return self.open().delete(owner, response_id, parts)

    def remember(self, address: str, speaks: str, now: float) -> None:
        self.open().remember(address, speaks, now)

    def remembered(self, address: str, now: float) -> str:
        return self.open().remembered(address, now)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
