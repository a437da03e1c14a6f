"""A client of the soak test: asks for one stream after the other, and keeps all bytes.

Nothing is parsed while a stream runs but what tells its end; the bytes and the time of
each read go to the process that checks them.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from dataclasses import dataclass, field
from typing import Literal

End = Literal["complete", "broken", "left", "hung"]
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class Received:
    """A reply as it came, head and chunk sizes and all."""

    raw: bytearray = field(default_factory=bytearray)
    times: array[float] = field(default_factory=lambda: array("d"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    """For each read: when it was, and how much had then come."""
    end: End = "broken"


class Connection(asyncio.Protocol):
    """One connection to a proxy."""

    def __init__(self) -> None:
        self.closed = False
        self._reply: Received | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    async def ask(
        self, path: str, body: bytes, headers: str, leave: float | None, patience: float
    ) -> Received:
        """The reply to a request; it is left `leave` seconds after its beginning if it has
        not ended by then, and given up after `patience`."""
        self._reply = Received()
        self._ended: asyncio.Future[End] = self._loop.create_future()
        self._whole_size = -1
        self._transport.write(
            f"POST {path} HTTP/1.1\r\nHost: soak\r\nContent-Type: application/json\r\n"
            f"{headers}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        self._leave = leave
        self._timer = self._loop.call_later(patience, self._finish, "hung")
        self._reply.end = await self._ended
        self._timer.cancel()
        if self._reply.end in ("left", "hung"):
            self.closed = True
            self._transport.abort()
        return self._reply

    def close(self) -> None:
        self.closed = True
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        reply = self._reply
        if reply is None:
            return
        reply.raw += data
        reply.times.append(self._loop.time())
        reply.sizes.append(len(reply.raw))
        if self._whole_size < 0:
            self._read_head(reply.raw)
        if self._whole_size > 0:
            if len(reply.raw) >= self._whole_size:
                self._finish("complete")
        elif self._whole_size == 0 and reply.raw.endswith(b"\r\n0\r\n\r\n"):
            self._finish("complete")

    def _read_head(self, raw: bytearray) -> None:
        head, blank, _ = raw.partition(b"\r\n\r\n")
        if blank:
            length = _LENGTH.search(head)
            self._whole_size = len(head) + 4 + int(length[1]) if length else 0
            if self._leave is not None:
                self._timer.cancel()
                self._timer = self._loop.call_later(self._leave, self._finish, "left")

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        if self._reply is not None:
            self._finish("broken")

    def _finish(self, end: End) -> None:
        if not self._ended.done():
            self._ended.set_result(end)


async def connect(port: int) -> Connection:
    """A new connection to the proxy on a port of this machine."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    return connection
