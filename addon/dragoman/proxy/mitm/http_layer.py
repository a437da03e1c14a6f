"""A client's connection, and the HTTP layer on it, whose streams are those of `http_stream`.

As `http_stream`, this knows internals of mitmproxy.
"""

from __future__ import annotations

import asyncio
from typing import cast
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import ctx
from mitmproxy.connection import Client, Connection, ConnectionState
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import GetHttpConnection, HttpLayer, RegisterHttpConnection
from mitmproxy.proxy.layers.http._http1 import Http1Server
from mitmproxy.proxy.layers.http._http2 import Http2Client
from mitmproxy.proxy.mode_specs import ReverseMode
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from ..options import OptionsOverlay
from .http1_client import UpstreamConnection
from .http_stream import Stream
from .interpreter import Interpreter


def connect_when_asked(client: Client) -> None:
    """Have every request of a client that has just connected answered, also through a reverse proxy
    to an upstream that cannot be reached.  By default (``connection_strategy=eager``) mitmproxy
    connects when a client does; if that fails, it closes the client's connection."""
    mode, handler = client.proxy_mode, _handler(client)
    if isinstance(mode, ReverseMode) and mode.scheme in ("http", "https") and handler is not None:
        context = handler.layer.context
        context.options = cast(Options, OptionsOverlay(context.options, connection_strategy="lazy"))


def adopt(next_layer: layer.NextLayer, interpreter: Interpreter) -> None:
    """Have the HTTP layers of a connection make `Stream`s. A script's `next_layer` hook runs before
    that of mitmproxy's own addon, which decides; so that one is called here first."""
    next_layer_addon = ctx.master.addons.get("nextlayer")
    if next_layer_addon is not None:
        next_layer_addon.next_layer(next_layer)
    for http_layer in next_layer.context.layers:
        if type(http_layer) is HttpLayer:
            http_layer.__class__ = _Layer
            adopted = cast(_Layer, http_layer)
            adopted.interpreter, adopted.ended = interpreter, WeakSet()
            _adopted.setdefault(http_layer.context.client, WeakSet()).add(adopted)


def close_what_is_left(ended: ServerConnectionHookData) -> None:
    """Close the socket of an upstream connection that has ended, and send its streams the event.
    mitmproxy does so, unless it cancels the connection's task while that waits for another event of
    the same client, such as a timer's: then the upstream would continue to send, and no stream
    would learn of the end."""
    handler = _handler(ended.client)
    if handler is None:
        return
    transport = handler.transports.get(ended.server)
    if transport is not None and transport.writer is not None:
        transport.writer.close()
    layers = _adopted.get(ended.client, ())
    if any(ended.server in each.connections and ended.server not in each.ended for each in layers):
        ended.server.state = ConnectionState.CLOSED
        _send(handler, events.ConnectionClosed(ended.server))


_adopted: WeakKeyDictionary[Client, WeakSet[_Layer]] = WeakKeyDictionary()
_sending: set[asyncio.Task[None]] = set()


def _handler(client: Client) -> ConnectionHandler | None:
    server = ctx.master.addons.get("proxyserver")
    handler: ConnectionHandler | None = server.connections.get(client.id) if server else None
    return handler


def _send(handler: ConnectionHandler, event: events.Event) -> None:
    task = asyncio.get_running_loop().create_task(handler.server_event(event))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


class _Layer(HttpLayer):
    interpreter: Interpreter
    ended: WeakSet[Connection]
    """The connections whose end was an event here."""

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does.  The generator is returned: each one that others pass through costs
        every event of a stream."""
        if type(event) is events.DataReceived and self._paused is None and self.debug is None:
            upstream = self.connections.get(event.connection)
            if upstream is not None and event.connection is not self.context.client:
                return self.event_to_child(upstream, event)
        return super().handle_event(event)

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does, but for timers that it does not know."""
        if isinstance(event, events.Wakeup) and event.command not in self.command_sources:
            return
        if isinstance(event, events.ConnectionClosed):
            self.ended.add(event.connection)
        yield from super()._handle_event(event)

    def forget(self, timer: commands.RequestWakeup | None) -> None:
        """Drop a timer, which mitmproxy cannot cancel."""
        if timer is not None:
            self.command_sources.pop(timer, None)

    def renew(self, connection: Connection, stream_id: int) -> None:
        """Have another request with this id sent as a new stream of a connection, if that speaks
        HTTP/2: mitmproxy would send it in the one that has ended."""
        *_, http_client = self.connections[connection].context.layers
        if isinstance(http_client, Http2Client):
            http_client.our_stream_id.pop(stream_id, None)

    def get_connection(
        self, event: GetHttpConnection, *, reuse: bool = True
    ) -> layer.CommandGenerator[None]:
        """As its parent does, but one that failed for an earlier request is tried again: clients
        retry over the same connection."""
        for connection in [each for each in self.connections if each.error]:
            del self.connections[connection]
        if self.context.server.error and self.context.server not in self.connections:
            self.context.server.error = None
        yield from super().get_connection(event, reuse=reuse)

    def register_connection(self, command: RegisterHttpConnection) -> layer.CommandGenerator[None]:
        if not command.err:
            UpstreamConnection.adopt(self.connections[command.connection], self.streams)
        yield from super().register_connection(command)

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        http1 = isinstance(self.connections[self.context.client], Http1Server)
        context, interpreter = self.context.fork(), self.interpreter
        stream = Stream(context, stream_id, interpreter, self.forget, self.renew, http1=http1)
        self.streams[stream_id] = stream
        yield from self.event_to_child(stream, events.Start())
