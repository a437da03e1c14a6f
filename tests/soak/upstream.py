"""The upstream of the soak test: sends many planned streams at once, each at its pace.

It is written for little CPU time per event, so that what is measured is the proxy; so it
knows only as much of HTTP/1.1 as mitmproxy needs from it.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from array import array

from tests.soak.plan import PAUSE, Plan

RATE = 30
"""Events a second of each stream."""
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Feed:
    """One stream, from the moment it is announced to its end."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.body = plan.body
        self.sent = array("d", bytes(8 * len(plan.frames)))
        """When the last byte of each event was written; 0: it was not."""
        self.gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """When the proxy's connection was closed in mid-stream, or the stream's end came."""
        self.ended = False
        """Whether all of it has been sent."""
        self.wrong = ""
        """What is not as it must be in the request that came."""
        self._ends: list[int] = []
        end = 0
        for frame in plan.frames:
            end += len(frame)
            self._ends.append(end)
        self._index = 0
        self._written = 0
        self._whole = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def closed(self) -> bool:
        """Whether the connection it was sent over is closed."""
        return self._connection.closing

    def begin(self, connection: Connection) -> None:
        """Answer the request that has come."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        connection.write(_HEAD)
        self._began = self._loop.time()
        self._tick()

    def stop(self) -> None:
        """The connection is closed."""
        if self._timer:
            self._timer.cancel()
        self._over()

    def _over(self) -> None:
        if not self.gone.done():
            self.gone.set_result(self._loop.time())

    def _tick(self) -> None:
        plan = self.plan
        while self._index < len(plan.cuts) and not self._connection.closing:
            pauses = 0 <= plan.pause_at <= self._index
            due = self._began + self._index / RATE + (PAUSE if pauses else 0)
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self._tick)
                return
            if plan.fate in ("reset", "close") and self._index == plan.fate_at:
                self._write(self._written + plan.torn)
                self._connection.die(reset=plan.fate == "reset")
                return
            for cut in plan.cuts[self._index]:
                self._write(cut)
            self._index += 1
        if self._connection.closing:
            return
        self._connection.write(b"0\r\n\r\n")
        self._connection.feed = None
        self.ended = True
        self._over()

    def _write(self, upto: int) -> None:
        piece = self.body[self._written : upto]
        if not piece:
            return
        self._connection.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self._written = upto
        now = self._loop.time()
        while self._whole < len(self._ends) and self._ends[self._whole] <= upto:
            self.sent[self._whole] = now
            self._whole += 1


class Connection(asyncio.Protocol):
    """One connection of a proxy; it may be used for one stream after the other."""

    def __init__(self, feeds: dict[str, Feed]) -> None:
        self._feeds = feeds
        self._received = b""
        self.feed: Feed | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.write = transport.write

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not blank or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        path = head.split(b" ", 2)[1].decode()
        self.feed = feed = self._feeds[path.split("/")[1]]
        if not path.endswith("/v1/chat/completions") or feed.plan.name.encode() not in body:
            feed.wrong = f"the upstream was asked {path} with {body!r}"
        feed.begin(self)

    @property
    def closing(self) -> bool:
        return self._transport.is_closing()

    def die(self, *, reset: bool) -> None:
        """End in mid-stream: at once, or behind what has been written."""
        if reset:
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self._transport.abort()
        else:
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        if self.feed:
            self.feed.stop()
            self.feed = None


class Upstream:
    """Listens on a free port; `feeds` are the streams it will be asked for, by name."""

    def __init__(self) -> None:
        self.feeds: dict[str, Feed] = {}

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self.feeds), "127.0.0.1", 0, backlog=1000
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """To be called when the proxies have gone."""
        await asyncio.sleep(0.1)
        self._server.close()
