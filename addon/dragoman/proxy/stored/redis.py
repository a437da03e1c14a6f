"""Responses in a Redis, which several instances share.

One key for each response, which Redis itself expires.  Redis also bounds the size: ``maxmemory``
with ``maxmemory-policy volatile-lru`` (or another of the volatile ones, for the secret must not
expire).  Whether responses outlive Redis depends on its configuration.  The package redis
(redis-py) is used if it is installed.  A broken connection is made anew by the next call.  No
message names the password.
"""

from __future__ import annotations

import contextlib
import importlib
import secrets
from collections.abc import Sequence
from typing import Any

from ...stored.store import Limits, StoreError
from .evictions import QUIET, EvictionLog

SCHEMES = ("redis://", "rediss://")
CONNECT, ANSWER = 0.5, 1.0
"""Seconds to wait: a client may be waiting."""
SECRET = b"dragoman:secret"
_ADDRESS = "address"
"""The first word of the names of entries that no owner has; their keys begin with it, too."""


class Redis:
    def __init__(self, url: str, limits: Limits) -> None:
        """Does not connect. Raises `StoreError` without redis-py, or for an invalid URL."""
        self.limits = limits
        try:
            redis = importlib.import_module("redis")
            retry = importlib.import_module("redis.retry")
            backoff = importlib.import_module("redis.backoff")
        except ImportError:
            raise StoreError(
                "a redis:// URL needs a package that is not here: "
                "pip install redis (into mitmproxy's environment)."
            ) from None
        broken = (redis.ConnectionError,)
        try:
            self._client = redis.Redis.from_url(
                url,
                socket_connect_timeout=CONNECT,
                socket_timeout=ANSWER,
                # Once: the connection may have broken since it was last used.
                retry=retry.Retry(backoff.NoBackoff(), 1, supported_errors=broken),
                retry_on_error=list(broken),
            )
            kwargs = self._client.connection_pool.connection_kwargs
            self._client.connection_pool.connection_class(**kwargs)
        except (ValueError, TypeError, AttributeError, redis.RedisError):
            raise StoreError(
                "that is no URL of a Redis; set it to one such as redis://host:6379/0 "
                "or rediss://user:password@host:6379/0."
            ) from None
        self._where = f"{kwargs.get('host', 'localhost')}:{kwargs.get('port', 6379)}"
        self._password = str(kwargs.get("password") or "")
        self._faults = (redis.RedisError, OSError, ValueError)
        self._evictions = EvictionLog(
            f"The Redis at {self._where} is full: it has evicted %d keys (maxmemory)."
        )
        self._evicted: int | None = None
        """Keys that Redis had evicted when it was last asked."""
        self._asked = float("-inf")

    def secret(self) -> bytes:
        # Read each time: a Redis that lost everything has another one for all.
        _, secret = self._run(("SET", SECRET, secrets.token_bytes(32), "NX"), ("GET", SECRET))
        if not isinstance(secret, bytes):
            raise StoreError(f"the Redis at {self._where} keeps nothing: is its memory full?")
        return secret

    def put(
        self, owner: str, name: str, blob: bytes, now: float, keeps: Sequence[str] = ()
    ) -> None:
        # Keys expire by the clock of Redis, the same for all who share it.
        expiry = max(1, int(self.limits.seconds * 1000))
        renewed = (("PEXPIRE", _key(owner, kept), expiry) for kept in keeps)
        self._run(*renewed, ("SET", _key(owner, name), blob, "PX", expiry))
        self._log_evictions(now)

    def get(self, owner: str, names: Sequence[str], now: float) -> list[bytes | None]:
        del now
        return list(self._run(("MGET", *(_key(owner, name) for name in names)))[0]) if names else []

    def delete(self, owner: str, name: str) -> bool:
        deleted: int = self._run(("DEL", _key(owner, name)))[0]
        return deleted > 0

    def close(self) -> None:
        with contextlib.suppress(*self._faults):
            self._client.close()

    def _log_evictions(self, now: float) -> None:
        """Log how many keys were evicted, be they ours or others': Redis does not say more."""
        if abs(now - self._asked) < QUIET:
            return
        self._asked = now
        with contextlib.suppress(StoreError, ValueError, TypeError):
            evicted = int(self._run(("INFO", "stats"))[0].get("evicted_keys", 0))
            if self._evicted is not None:
                self._evictions.add(max(0, evicted - self._evicted), now)
            self._evicted = evicted

    def _run(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send them at once; their replies. Raises `StoreError`, without the password."""
        try:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            # Raised here: redis-py's own error would hold the command, blob and all.
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        except self._faults as error:
            # A server that does not know a command repeats what came with it.
            text = str(error).partition(", with args")[0][:200]
            if self._password:
                text = text.replace(self._password, "***")
            raise StoreError(f"the Redis at {self._where}: {text}") from None
        return replies


def _key(owner: str, name: str) -> bytes:
    """An owner is a hash, or none for an address; the name of a response is any text a client
    sent."""
    kind, _, rest = name.partition(":")
    if kind != _ADDRESS or owner:
        kind, rest = "response", name
    holder = f"{owner}:" if owner else ""
    return f"dragoman:{kind}:{holder}{rest}".encode("utf-8", "surrogatepass")
