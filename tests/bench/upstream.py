"""The upstream of the benchmark: a process that sends streams made beforehand.

    python -m tests.bench.upstream

It prints its port.  What is sent, and how, stands in the address that is asked for:
``/<pace>/<stream>/v1/chat/completions``.  The pace is a number of events a second, each
in a write of its own; ``0``: all at once; ``hold``: all at once, but never the end.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time

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
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not blank or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        pace, stream = head.split(b" ", 2)[1].decode().split("/")[1:3]
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
