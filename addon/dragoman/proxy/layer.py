"""Between mitmproxy's HTTP layer and a flow: what hooks cannot decide.

mitmproxy calls an addon when something arrives.  The streams of its HTTP layer are
replaced by `Stream`, which also acts when nothing does, or when all is over:

* it sends the opening of a reply with its headers, and heartbeats during a silence;
* it sends a last word when the upstream's connection breaks, and ends the reply well;
* it keeps the option ``stream_large_bodies`` off what has to be converted as a whole,
  which that option would stream past every hook.

This uses internals of mitmproxy, the same from 11 to 12 but promised nowhere.  They are
used in this file alone; it cannot be imported where one is missing, and all else works
without it.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from mitmproxy import ctx, flow, http
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    RequestProtocolError,
    ResponseData,
    ResponseProtocolError,
)

from .stream import LiveStream

_USED = {
    HttpLayer: ("make_stream", "event_to_child"),
    HttpStream: (
        "check_body_size",
        "start_response_stream",
        "state_wait_for_response_headers",
        "state_stream_response_body",
        "state_consume_response_body",
        "state_done",
        "state_errored",
        "handle_protocol_error",
        "send_response",
        "_handle_event",
    ),
}
_MISSING = [
    f"{owner.__name__}.{name}"
    for owner, names in _USED.items()
    for name in names
    if not hasattr(owner, name)
]
if _MISSING:
    raise ImportError(f"mitmproxy has no {', '.join(_MISSING)}")


class Interpreter(Protocol):
    """The addon, as far as a `Stream` asks it."""

    def needs_whole(self, flow: http.HTTPFlow, request: bool) -> bool:
        """Whether a flow's request (True) or response (False) must be read to its end before
        any of it is sent on."""

    def answer_for(self, flow: http.HTTPFlow, error: str) -> http.Response | None:
        """The reply to a flow whose upstream failed before any of its reply was sent; None
        to leave it to mitmproxy."""


def adopt(next_layer: layer.NextLayer, interpreter: Interpreter) -> None:
    """Have the HTTP layers of a connection make `Stream`s.

    A script's `next_layer` hook runs before that of mitmproxy's own addon, which decides;
    so that one is asked here, and not again by mitmproxy.
    """
    decides = ctx.master.addons.get("nextlayer")
    if decides is not None:
        decides.next_layer(next_layer)
    for found in next_layer.context.layers:
        if type(found) is HttpLayer:
            found.__class__ = _Layer
            cast(_Layer, found).interpreter = interpreter


class _Layer(HttpLayer):
    interpreter: Interpreter

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        """As its parent does."""
        stream = Stream(self.context.fork(), stream_id, self.interpreter)
        self.streams[stream_id] = stream
        yield from self.event_to_child(stream, events.Start())


class Stream(HttpStream):
    """One request and its response."""

    def __init__(self, context: Context, stream_id: int, interpreter: Interpreter) -> None:
        super().__init__(context, stream_id)
        self._interpreter = interpreter

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Wakeup):
            yield from self._keep_waiting()
        else:
            yield from super()._handle_event(event)

    # A reply that is streamed

    @property
    def _live(self) -> LiveStream | None:
        """The stream of the reply while it runs."""
        if self.server_state != self.state_stream_response_body:
            return None
        if self.client_state == self.state_errored:
            return None
        stream = self.flow.response.stream if self.flow.response else None
        return stream if isinstance(stream, LiveStream) else None

    def start_response_stream(self) -> layer.CommandGenerator[None]:
        """As its parent does; then the opening, and a timer for the first heartbeat."""
        yield from super().start_response_stream()
        live = self._live
        if live is not None:
            yield from self._send(live.opening())
            yield from self._wait(live)

    def _keep_waiting(self) -> layer.CommandGenerator[None]:
        live = self._live
        if live is None:
            return
        if live.due is not None and live.due <= 0:
            yield from self._send(live.heartbeat())
        yield from self._wait(live)

    @staticmethod
    def _wait(live: LiveStream) -> layer.CommandGenerator[None]:
        if live.due is not None:
            yield commands.RequestWakeup(max(0.0, live.due))

    def _send(self, data: bytes) -> layer.CommandGenerator[None]:
        if data:
            body = ResponseData(self.stream_id, data)
            yield SendHttp(body, self.context.client)

    # An upstream that fails

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        """As its parent does, unless the upstream has failed and the client can be told."""
        told = isinstance(event, ResponseProtocolError) and (yield from self._tell(event.message))
        if not told:
            yield from super().handle_protocol_error(event)

    def _tell(self, error: str) -> layer.CommandGenerator[bool]:
        """Tell the client what happened to the upstream; False if it cannot be told."""
        live = self._live
        if live is not None:
            self.flow.error = flow.Error(error)
            yield from self._send(live.last_word(error))
            yield from self.send_response(already_streamed=True)
            return True
        unanswered = (self.state_wait_for_response_headers, self.state_consume_response_body)
        if self.server_state not in unanswered or self.client_state != self.state_done:
            return False
        answer = self._interpreter.answer_for(self.flow, error)
        if answer is None:
            return False
        self.flow.error = flow.Error(error)
        self.flow.response = answer
        yield from self.send_response()
        return True

    # A body that is large

    def check_body_size(self, request: bool) -> layer.CommandGenerator[bool]:
        """As its parent does, which starts the streaming unless it sees no such option."""
        options = self.context.options
        if self._interpreter.needs_whole(self.flow, request):
            self.context.options = cast(Options, _Unstreamed(options))
        try:
            return (yield from super().check_body_size(request))
        finally:
            self.context.options = options


class _Unstreamed:
    """The user's options, but for one."""

    stream_large_bodies = None

    def __init__(self, options: Options) -> None:
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._options, name)
