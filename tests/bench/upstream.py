"""The upstream of the benchmark: a process that sends streams made beforehand.

    python -m tests.bench.upstream

It prints its port.  What is sent, and how, stands in the address that is asked for:
``/<pace>/<stream>/v1/chat/completions``.  The pace is a number of events a second, each
in a write of its own; ``0``: all at once; ``hold``: all at once, but never the end.
Some replies are documents, see `replies`.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time

from tests.bench.replies import document
from tests.bench.streams import STAMP, chunked

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EMPTY = STAMP % 0


class Connection(asyncio.Protocol):
    """One connection of a proxy, for one stream after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._expected = 0
        """The bytes of the request, once its head has come."""
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._expected:
            end = self._received.find(b"\r\n\r\n")
            length = _LENGTH.search(self._received, 0, end + 2)
            if end < 0 or length is None:
                return
            self._expected = end + 4 + int(length[1])
        if len(self._received) < self._expected:
            return
        pace, stream = self._received[:2000].split(b" ", 2)[1].decode().split("/")[1:3]
        self._received, self._expected = bytearray(), 0
        if found := document(stream):
            label, body = found
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: {label}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)
            return
        self._transport.write(_HEAD)
        events = chunked(stream)
        if pace == "hold":
            self._transport.write(b"".join(events[:-3]))
        elif pace == "0":
            self._transport.write(_stamped(b"".join(events)) + _END)
        else:
            self._send(events, 0, self._loop.time(), 1 / float(pace))

    def connection_lost(self, _: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()

    def _send(self, events: tuple[bytes, ...], index: int, began: float, pause: float) -> None:
        """Send what is due, and come again."""
        while index < len(events):
            due = began + index * pause
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self._send, events, index, began, pause)
                return
            self._transport.write(_stamped(events[index]))
            index += 1
        self._transport.write(_END)


def _stamped(data: bytes) -> bytes:
    """The data with the time in it, if there is a place for that."""
    return data.replace(_EMPTY, STAMP % time.monotonic_ns())


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.disable()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
