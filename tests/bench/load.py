"""Many streams at once, and how long each of their events was under way.

The upstream writes the time into the text of an event; the clocks of all processes of a
machine are the same.
"""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from array import array
from collections.abc import Sequence

_STAMP = re.compile(rb"~0*(\d+)~")


class Client(asyncio.Protocol):
    """One request, and the times of its reply in milliseconds."""

    def __init__(self, asked: bytes) -> None:
        self.delays = array("d")
        """From the writing of an event to the reading of its text."""
        self.first = 0.0
        """From the request to the text of the first event."""
        self.last = 0.0
        """From the writing of the last event to the reading of the reply's end."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked = asked
        self._tail = b""
        self._latest = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._began = time.monotonic_ns()
        transport.write(self._asked)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._tail + data
        for stamp in _STAMP.findall(data):
            sent = int(stamp)
            if sent <= self._latest:
                break  # what was said is said again at the end of an item
            if not self._latest:
                self.first = (now - self._began) / 1e6
            self._latest = sent
            self.delays.append((now - sent) / 1e6)
        self._tail = data[-24:]
        if data.endswith(b"\r\n0\r\n\r\n"):
            self.last = (now - self._latest) / 1e6
            self._transport.close()
            self.ended.set_result(None)

    def leave(self) -> None:
        """Do not wait for the reply's end."""
        if not self.ended.done():
            self._transport.close()
            self.ended.set_result(None)

    def connection_lost(self, _: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(ConnectionError("the reply broke off"))


async def _begin(port: int, asked: bytes) -> Client:
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(lambda: Client(asked), "127.0.0.1", port)
    return client


async def _ask(port: int, asked: bytes) -> Client:
    client = await _begin(port, asked)
    await client.ended
    return client


def ask(port: int, asked: bytes) -> Client:
    """One stream alone."""
    return asyncio.run(_ask(port, asked))


def delays_until(port: int, asked: bytes, ended: threading.Event) -> Sequence[float]:
    """Those of all events of one stream, up to some time after `ended`."""

    async def one() -> Sequence[float]:
        client = await _begin(port, asked)
        while not ended.is_set() and not client.ended.done():
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        client.leave()
        await client.ended
        return client.delays

    return asyncio.run(one())


def delays(port: int, asked: bytes, streams: int, spread: float) -> Sequence[float]:
    """Those of all events of so many streams, whose beginnings are spread over `spread`
    seconds."""

    async def everything() -> list[Client]:
        async def one() -> Client:
            await asyncio.sleep(random.uniform(0, spread))
            return await _ask(port, asked)

        return await asyncio.gather(*(one() for _ in range(streams)))

    return [delay for client in asyncio.run(everything()) for delay in client.delays]
