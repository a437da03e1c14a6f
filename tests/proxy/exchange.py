"""A client, the addon on mitmproxy's HTTP layer, and an upstream, in this process: no socket,
no mitmdump, and a clock that a test sets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Self

import pytest
from mitmproxy import connection, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.test import taddons, tflow

from dragoman.proxy.addon import Dragoman
from dragoman.proxy.flows import bridge_reply, live_stream
from dragoman.proxy.mitm import http_stream
from dragoman.proxy.mitm.http_layer import adopt

EVENT_STREAM = "content-type: text/event-stream"


class Clock:
    """The time of a reply's stream, as a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class Exchange:
    """One connection of a client to one host: `with Exchange(monkeypatch, …) as exchange:`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        """`options` are mitmproxy's and the addon's."""
        self.clock = Clock()
        for module in (http_stream, live_stream, bridge_reply):
            monkeypatch.setattr(module, "time", self.clock)
        self.flow: http.HTTPFlow | None = None
        self.hooks: list[str] = []
        self.addon = Dragoman()
        self._loop = asyncio.new_event_loop()
        self._options = {"dragoman_store": "off", **options}
        self._timers: list[tuple[float, commands.RequestWakeup]] = []
        self._sent: dict[connection.Connection, bytes] = {}
        self._closed: set[connection.Connection] = set()

    def __enter__(self) -> Self:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._set_up())
        return self

    async def _set_up(self) -> None:
        self._proxy = taddons.context(Proxyserver(), self.addon)
        self._proxy.configure(self.addon, **self._options)
        self.client = tflow.tclient_conn()
        self.client.state = connection.ConnectionState.OPEN
        self._context = context.Context(self.client, self._proxy.options)
        self.server = self._context.server
        """The connection to the host that was opened last."""
        self.server.address = ("llm.example", 80)
        self._layer = HttpLayer(self._context, HTTPMode.transparent)
        adopt(layer.NextLayer(self._context), self.addon)
        await self._handle(events.Start())

    def __exit__(self, *_: object) -> None:
        self.addon.done()
        asyncio.set_event_loop(None)
        self._loop.close()

    # What the client and the upstream do

    def ask(
        self, body: object, path: str = "/v1/chat/completions", *, version: str = "HTTP/1.1"
    ) -> dict[str, Any]:
        """The client sends a request; returns what the upstream is sent, as JSON, if anything."""
        content = json.dumps(body).encode()
        head = f"POST {path} {version}\r\nhost: llm.example\r\ncontent-type: application/json\r\n"
        self._feed(self.client, f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        sent: dict[str, Any] = json.loads(self.to_server().partition(b"\r\n\r\n")[2] or b"{}")
        return sent

    def answer(self, *headers: str, status: str = "200 OK", body: bytes | None = None) -> None:
        """The upstream sends the head of a reply; with the body, if it is given, else chunked."""
        length = "transfer-encoding: chunked" if body is None else f"content-length: {len(body)}"
        head = "\r\n".join([f"HTTP/1.1 {status}", *headers, length, "", ""])
        self._feed(self.server, head.encode() + (body or b""))

    def piece(self, data: bytes) -> bytes:
        """The upstream sends some of a chunked body; returns what the client gets at once."""
        self._feed(self.server, b"%x\r\n%s\r\n" % (len(data), data))
        return unchunked(self.to_client())

    def pieces(self, *data: bytes) -> bytes:
        """Some reads, each with a piece; all come before any hook ends that one of them calls."""
        reads = [b"%x\r\n%s\r\n" % (len(each), each) for each in data]
        self._run(*(events.DataReceived(self.server, each) for each in reads))
        return unchunked(self.to_client())

    def end(self) -> bytes:
        """The upstream ends its body."""
        self._feed(self.server, b"0\r\n\r\n")
        return self.to_client()

    def leave(self, side: connection.Connection) -> bytes:
        """One side closes; returns what the client gets."""
        side.state = connection.ConnectionState.CLOSED
        self._run(events.ConnectionClosed(side))
        return self.to_client()

    def wait(self, seconds: float) -> bytes:
        """Nothing comes for so long: the timers that are due by then; what the client gets."""
        until = self.clock.now + seconds
        while due := [each for each in self._timers if each[0] <= until]:
            self._timers.remove(earliest := min(due, key=lambda each: each[0]))
            self.clock.now = earliest[0]
            self._run(events.Wakeup(earliest[1]))
        self.clock.now = until
        return self.to_client()

    def to_client(self) -> bytes:
        """What the client was sent since this was asked last."""
        return self._sent.pop(self.client, b"")

    def to_server(self) -> bytes:
        return self._sent.pop(self.server, b"")

    def is_closed(self, side: connection.Connection) -> bool:
        """Whether the proxy has closed it."""
        return side in self._closed

    # What mitmproxy's server does

    def _feed(self, side: connection.Connection, data: bytes) -> None:
        self._run(events.DataReceived(side, data))

    def _run(self, *arrived: events.Event) -> None:
        self._loop.run_until_complete(self._handle(*arrived))

    async def _handle(self, *arrived: events.Event) -> None:
        waiting = [*arrived]
        while waiting:
            for command in list(self._layer.handle_event(waiting.pop(0))):
                waiting += await self._do(command)

    async def _do(self, command: commands.Command) -> Iterable[events.Event]:
        if isinstance(command, commands.StartHook):
            (flow, *_) = command.args()
            if isinstance(flow, http.HTTPFlow):
                self.flow = flow
                self.hooks.append(command.name)
            await self._proxy.master.addons.invoke_addon(self.addon, command)
            return [events.HookCompleted(command, None)] if command.blocking else []
        if isinstance(command, commands.OpenConnection):
            assert isinstance(command.connection, connection.Server)
            self.server = command.connection
            self.server.state = connection.ConnectionState.OPEN
            return [events.OpenConnectionCompleted(command, None)]
        if isinstance(command, commands.SendData):
            sent = self._sent.get(command.connection, b"")
            self._sent[command.connection] = sent + command.data
        elif isinstance(command, commands.CloseConnection):
            self._closed.add(command.connection)
            command.connection.state = connection.ConnectionState.CLOSED
        elif isinstance(command, commands.RequestWakeup):
            self._timers.append((self.clock.now + command.delay, command))
        return []


def unchunked(sent: bytes) -> bytes:
    """The chunks of HTTP/1 in it, joined; a head before them is left out."""
    if sent.startswith(b"HTTP/1.1 "):
        sent = sent.partition(b"\r\n\r\n")[2]
    joined = b""
    while sent:
        size, _, rest = sent.partition(b"\r\n")
        length = int(size, 16)
        joined, sent = joined + rest[:length], rest[length + 2 :]
    return joined
