"""The HTTP layer of a connection, whose streams are those of `http_stream`.

As that, this knows internals of mitmproxy.
"""

from __future__ import annotations

import asyncio
from typing import cast
from weakref import WeakKeyDictionary, WeakSet

from mitmproxy import ctx, http
from mitmproxy.connection import Client, Connection, ConnectionState
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import GetHttpConnection, HttpLayer
from mitmproxy.proxy.server import ConnectionHandler
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from ..flows.live_stream import LiveStream
from .coalesce import CoalescingConnection
from .http_stream import Interpreter, Stream


def adopt(next_layer: layer.NextLayer, interpreter: Interpreter) -> None:
    """Have the HTTP layers of a connection make `Stream`s. A script's `next_layer` hook runs before
    that of mitmproxy's own addon, which decides; so that one is called here first."""
    decides = ctx.master.addons.get("nextlayer")
    if decides is not None:
        decides.next_layer(next_layer)
    for found in next_layer.context.layers:
        if type(found) is HttpLayer:
            found.__class__ = _Layer
            adopted = cast(_Layer, found)
            adopted.interpreter, adopted.ended = interpreter, WeakSet()
            _adopted.setdefault(found.context.client, WeakSet()).add(adopted)


def wake(flow: http.HTTPFlow, live: LiveStream) -> None:
    """Have the `Stream` of a flow look at its reply now, not when its timer is due."""
    server = ctx.master.addons.get("proxyserver")
    handler = server.connections.get(flow.client_conn.id) if server else None
    if handler is not None and live.timer is not None:
        _bring(handler, events.Wakeup(live.timer))


def _bring(handler: ConnectionHandler, event: events.Event) -> None:
    task = asyncio.get_running_loop().create_task(handler.server_event(event))
    _bringing.add(task)
    task.add_done_callback(_bringing.discard)


_bringing: set[asyncio.Task[None]] = set()


def close_what_is_left(ended: ServerConnectionHookData) -> None:
    """Close the socket of an upstream connection that has ended, and send its streams the event.
    mitmproxy does so, unless it cancels the connection's task while that waits for another event of
    the same client, such as a timer's: then the upstream would continue to send, and no stream
    would learn of the end."""
    proxyserver = ctx.master.addons.get("proxyserver")
    handler = proxyserver.connections.get(ended.client.id) if proxyserver else None
    left = handler.transports.get(ended.server) if handler else None
    if left is not None and left.writer is not None:
        left.writer.close()
    layers = _adopted.get(ended.client, ())
    if handler and any(each.has_missed_end(ended.server) for each in layers):
        ended.server.state = ConnectionState.CLOSED
        _bring(handler, events.ConnectionClosed(ended.server))


_adopted: WeakKeyDictionary[Client, WeakSet[_Layer]] = WeakKeyDictionary()


def _nothing() -> layer.CommandGenerator[None]:
    yield from ()


class _Layer(HttpLayer):
    interpreter: Interpreter
    ended: WeakSet[Connection]
    """The connections whose end was an event here."""

    def has_missed_end(self, connection: Connection) -> bool:
        """Whether it uses a connection whose end it has missed."""
        return connection in self.connections and connection not in self.ended

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does, but for timers that it does not know. Here and in `event_to_child`
        generators are returned: each one that others pass through costs every event of a stream."""
        if isinstance(event, events.DataReceived):
            child = self.connections.get(event.connection)
            if child is not None:
                return self.event_to_child(child, event)
        elif isinstance(event, events.Wakeup) and event.command not in self.command_sources:
            return _nothing()
        elif isinstance(event, events.ConnectionClosed):
            self.ended.add(event.connection)
        handled: layer.CommandGenerator[None] = super()._handle_event(event)
        return handled

    def event_to_child(
        self, child: layer.Layer, event: events.Event
    ) -> layer.CommandGenerator[None]:
        """As its parent does, but the chunks of one read of an upstream's socket come as one."""
        if isinstance(event, events.DataReceived) and event.connection is not self.context.client:
            child = cast(layer.Layer, CoalescingConnection(child, self._is_live))
        return super().event_to_child(child, event)

    def _is_live(self, stream_id: int) -> bool:
        stream = self.streams.get(stream_id)
        return isinstance(stream, Stream) and stream.live is not None

    def forget(self, timer: commands.RequestWakeup | None) -> None:
        """Drop a timer, which mitmproxy cannot cancel."""
        if timer is not None:
            self.command_sources.pop(timer, None)

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

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        stream = Stream(self.context.fork(), stream_id, self.interpreter, self.forget)
        self.streams[stream_id] = stream
        yield from self.event_to_child(stream, events.Start())
