"""The streams of mitmproxy's HTTP layer, replaced by ones that do what hooks cannot.

mitmproxy calls an addon when something arrives.  A `Stream` also acts when nothing does, or
when all is over:

* it sends the opening of a reply with its headers, and heartbeats during a silence;
* it ends a reply that is complete although its upstream's is not;
* it has a response kept before the client receives its end;
* after the upstream's connection has broken, or been silent for too long, it sends the rest
  of the reply, and ends it or breaks it off;
* it sends a request once more, bridged, after its host has said that it has no such address;
* it keeps the option ``stream_large_bodies`` off what has to be converted as a whole, which
  would pass every hook, and bounds such a reply.

This uses internals of mitmproxy, in this folder alone; where one is missing (`private`) its modules
cannot be imported, and all else works without them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from mitmproxy import flow
from mitmproxy.connection import Connection
from mitmproxy.net.http import status_codes
from mitmproxy.net.http.http1 import expected_http_body_size
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpStream, SendHttp, _events
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)

from ...wire.reply_bounds import MAX_REPLY
from ..flow_state import known_state
from ..flows.live_stream import NEVER, Break, Command, End, Keep, LiveStream, Pause
from ..options import OptionsOverlay
from .interpreter import (
    DragomanKeepHook,
    DragomanPauseHook,
    DragomanRefusedHook,
    Interpreter,
)
from .private import LAYERS, require

require(LAYERS)

LONG = 0.01
"""Seconds of work on a reply after which other flows run: a pause after each step would have what
comes meanwhile wait in mitmproxy, which has no bound for it."""
LOOK_AGAIN = 5.0
"""Seconds after which a stream without heartbeats is looked at: mitmproxy's timers cannot be
cancelled, so they are short. The one for an answer then serves for the first heartbeat, too, at the
usual interval: each timer is a task of mitmproxy's."""
PATIENCE = 600.0
"""Seconds of silence after which mitmproxy gives a connection up, where no option says."""
# mitmproxy 11 has statuses for these.
_CODES: Any = getattr(_events, "ErrorCode", None)
_CANCEL: Any = _CODES.CANCEL if _CODES else status_codes.CLIENT_CLOSED_REQUEST
# That with which mitmproxy resets the client's stream of HTTP/2.
_BROKEN: Any = _CODES.GENERIC_SERVER_ERROR if _CODES else status_codes.BAD_GATEWAY
_FROM_UPSTREAM = (ResponseHeaders, ResponseData, ResponseTrailers, ResponseEndOfMessage)


@dataclass
class _Commands(_events.HttpEvent):
    """What is left to do for a piece of a reply.  It is an event of its own, because pieces pass by
    the layers that wait for a hook."""

    commands: Iterable[Command]
    began: float
    """When the work on it began."""


class Stream(HttpStream):
    """One request and its response."""

    def __init__(
        self,
        context: Context,
        stream_id: int,
        interpreter: Interpreter,
        forget: Callable[[commands.RequestWakeup | None], None],
        renew: Callable[[Connection, int], None],
        *,
        http1: bool,
    ) -> None:
        """`forget` drops a timer, which would otherwise hold this until it is due.  `renew` lets
        another request of this stream be sent.  `http1`: the client speaks HTTP/1."""
        super().__init__(context, stream_id)
        self._interpreter = interpreter
        self._forget = forget
        self._renew = renew
        self._patience: float = getattr(context.options, "tcp_timeout", PATIENCE)
        self._received_at = 0.0
        self._timer: commands.RequestWakeup | None = None
        """The one that counts; earlier ones cannot be cancelled."""
        self._wakes_at = 0.0
        self._upstream_ended = False
        """Whether the upstream's part of this is over, by itself or ended here."""
        self._upstream_switched = False
        """Whether the upstream says that it speaks another protocol from now on (101)."""
        self._stores_body = False
        """Whether mitmproxy is to keep the body of a reply that is streamed."""
        self._http1 = http1
        self._chunked = False
        """Whether the client receives a streamed reply as chunks of HTTP/1."""
        self._over = False
        """Whether both sides have had all, and the flow is not held any more."""
        self.live: LiveStream | None = None
        """The stream of the reply while it runs."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """The generator is returned: a piece of a reply that runs, as nearly all events are, passes
        through none but its own."""
        if type(event) is ResponseData and self.live is not None:
            return self.deliver(event.data)
        return self._other_event(event)

    def _other_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Wakeup):
            yield from self._wake(event)
        elif isinstance(event, _Commands):
            yield from self._execute(event.commands, event.began)
        elif self._upstream_ended and isinstance(event, _FROM_UPSTREAM):
            pass  # it had come before, while a hook was waited for
        elif not self._over:  # else it waited for a hook, as the last ones did
            if isinstance(event, ResponseHeaders):
                self._upstream_switched = event.response.status_code == 101
            yield from super()._handle_event(event)
            yield from self._after(event)
        self._find_live()

    def _after(self, event: events.Event) -> layer.CommandGenerator[None]:
        """`event` was handled. The silence is measured from here: hooks and a connection may have
        been waited for."""
        if isinstance(event, (ResponseData, RequestEndOfMessage, ResponseHeaders)):
            self._received_at = time.monotonic()
        if isinstance(event, ResponseData):
            return
        if isinstance(event, ResponseHeaders) and self._cannot_be_read:
            yield from self._give_up_whole()
        if self.server_state in (self.state_done, self.state_errored):
            self._forget(self._timer)
        elif isinstance(event, RequestEndOfMessage) and self._unanswered:
            yield from self._wait()

    def passthrough(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does, but ignores the timer."""
        if not (isinstance(event, events.Wakeup) and event.command is self._timer):
            yield from super().passthrough(event)

    def flow_done(self) -> layer.CommandGenerator[None]:
        """As its parent does; but a connection that has switched protocols, of which the client
        learns nothing, serves no other request: it is closed. Then the flow goes with its bodies,
        which may be megabytes: streams are in cycles, and would hold it until Python's next full
        collection."""
        assert self.flow.response
        upgraded = self.flow.response.status_code == 101
        if self._upstream_switched and not upgraded:
            yield from self._end_upstream("The upstream has switched protocols.")
        yield from super().flow_done()
        if not upgraded:
            self._over = True
            del self.flow

    # Silence

    @property
    def _unanswered(self) -> bool:
        """Whether the client waits for a reply of which nothing was sent."""
        return (
            self.client_state == self.state_done
            and self.server_state
            in (self.state_wait_for_response_headers, self.state_consume_response_body)
            and self._interpreter.converts_reply(self.flow)
        )

    def _wake(self, event: events.Wakeup) -> layer.CommandGenerator[None]:
        """Nothing has come for a while."""
        live = self.live
        if event.command is not self._timer or not (live or self._unanswered):
            return
        self._wakes_at = 0.0
        if self._patience_left <= 0:
            error = f"nothing came from the upstream for {self._patience:.0f} seconds"
            if (yield from self._send_error(error)):
                yield from self._end_upstream(error)
        elif live is not None and live.wakes_at <= time.monotonic():
            yield from self._execute(live.wake())
        else:
            yield from self._wait()

    def _end_upstream(self, reason: str) -> layer.CommandGenerator[None]:
        """No more of the upstream's is wanted."""
        if not self._upstream_ended:
            self._upstream_ended = True
            error = RequestProtocolError(self.stream_id, reason, _CANCEL)
            yield SendHttp(error, self.context.server)

    @property
    def _patience_left(self) -> float:
        return self._received_at + self._patience - time.monotonic()

    def _wait(self) -> layer.CommandGenerator[None]:
        """Set a timer. mitmproxy takes its event for activity, so its own idle timeout never fires;
        it is enforced here, where the client can be sent an error."""
        now, wakes_at = time.monotonic(), self.live.wakes_at if self.live else NEVER
        delay = LOOK_AGAIN if wakes_at == NEVER else wakes_at - now
        delay = min(delay, self._patience_left, self._patience / 2)
        if self._timer is None or not now < self._wakes_at <= now + delay:
            self._forget(self._timer)
            self._timer = commands.RequestWakeup(max(0.0, delay))
            self._wakes_at = now + delay
            yield self._timer

    # A reply that is streamed

    def _find_live(self) -> None:
        """To be called when a state may have changed."""
        runs = self.server_state == self.state_stream_response_body
        stream = None
        if runs and self.client_state != self.state_errored and self.flow.response:
            stream = self.flow.response.stream
        self.live = stream if isinstance(stream, LiveStream) else None

    def start_response_stream(self) -> layer.CommandGenerator[None]:
        """As its parent does; then the opening, and a timer for the first heartbeat."""
        yield from super().start_response_stream()
        self._find_live()
        if (live := self.live) is not None:
            # Asked once: mitmproxy copies the value of an option each time.  Version 11 has none.
            self._stores_body = getattr(self.context.options, "store_streamed_bodies", False)
            headers = self.flow.response.headers if self.flow.response else {}
            encoding = headers.get("transfer-encoding", "")
            self._chunked = self._http1 and "chunked" in encoding.lower()
            yield from self._execute(live.opening())

    def deliver(self, piece: bytes) -> layer.CommandGenerator[None]:
        """A piece of a reply that runs: the path of nearly every event, as the parent's without its
        detours."""
        live = self.live
        assert live is not None
        began = time.monotonic()
        todo = live.receive(piece)
        self._received_at = time.monotonic()
        if not isinstance(todo, list):
            yield ReceiveHttp(_Commands(self.stream_id, todo, began))
            return
        for chunk in todo:
            if self._stores_body:
                self.response_body_buf += chunk
            if self._chunked:
                yield commands.SendData(self.context.client, b"%x\r\n%s\r\n" % (len(chunk), chunk))
            else:
                yield SendHttp(ResponseData(self.stream_id, chunk), self.context.client)
        if self._received_at - began > LONG:
            yield ReceiveHttp(_Commands(self.stream_id, [Pause()], began))

    def state_stream_response_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does, but the end of the upstream's is that of the client's only where the
        stream says so."""
        if isinstance(event, ResponseEndOfMessage) and self.live is not None:
            self._upstream_ended = True
            yield from self._execute(self.live.receive(b""))
        else:
            yield from super().state_stream_response_body(event)

    def _execute(
        self, todo: Iterable[Command], began: float | None = None
    ) -> layer.CommandGenerator[None]:
        """`began`: when the work on the first of them did, if not now."""
        began = began or time.monotonic()
        for command in todo:
            match command:
                case bytes():
                    if self._stores_body:
                        self.response_body_buf += command
                    yield SendHttp(ResponseData(self.stream_id, command), self.context.client)
                case Pause():
                    if time.monotonic() - began > LONG:
                        yield DragomanPauseHook(self.flow)
                        began = time.monotonic()
                case Keep():
                    yield DragomanKeepHook(self.flow)
                case Break(why):
                    # As if the upstream's connection had broken: HTTP/1 has no last chunk then,
                    # HTTP/2 a reset.
                    yield from self._end_upstream(why)
                    error = ResponseProtocolError(self.stream_id, why, _BROKEN)
                    yield from super().handle_protocol_error(error)
                case End():
                    yield from self._end_upstream("The reply is complete.")
                    if self._stores_body and self.flow.response:
                        self.flow.response.data.content = bytes(self.response_body_buf)
                        self.response_body_buf.clear()
                    yield from self.send_response(already_streamed=True)
        self._find_live()
        if self.live is not None:
            yield from self._wait()

    def send_response(self, already_streamed: bool = False) -> layer.CommandGenerator[None]:
        """As its parent does, unless the request is to be sent once more."""
        is_received = self.server_state == self.state_consume_response_body
        if is_received and self._interpreter.may_ask_again(self.flow):
            yield DragomanRefusedHook(self.flow)
            if self.flow.response is None:
                yield from self._send_again()
                return
        yield from super().send_response(already_streamed)

    def _send_again(self) -> layer.CommandGenerator[None]:
        """Send the flow's request, which is another now, in the place of one that was refused."""
        if (yield from self.check_killed(True)):
            return
        self.server_state = self.state_wait_for_response_headers
        self._received_at = time.monotonic()
        if not (yield from self.make_server_connection()):
            return
        request, stream_id, server = self.flow.request, self.stream_id, self.context.server
        self._renew(server, stream_id)
        yield SendHttp(RequestHeaders(stream_id, request, end_stream=False), server)
        yield SendHttp(RequestData(stream_id, request.raw_content or b""), server)
        yield SendHttp(RequestEndOfMessage(stream_id), server)

    # An upstream that fails

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        """As its parent does, unless the client can be sent an error of the upstream."""
        if isinstance(event, RequestProtocolError):
            if (state := known_state(self.flow)) is not None:
                state.client_left = self.client_state == self.state_done
        else:
            if self.client_state == self.server_state == self.state_done:
                return  # a second fault of a connection, while the first was being sent
            self._upstream_ended = True
            # mitmproxy's words for a reset by either side.
            event.message = event.message.replace("reset by client", "reset by server")
            if (yield from self._send_error(event.message)):
                return
        yield from super().handle_protocol_error(event)

    def _send_error(self, error: str) -> layer.CommandGenerator[bool]:
        """Send the client the upstream's error; False if it cannot be sent."""
        live = self.live
        if live is None and not self._unanswered:
            return False
        self.flow.error = flow.Error(error)
        if live is not None:
            yield from self._execute(live.fail(error))
        else:
            self.flow.response = self._interpreter.answer_for(self.flow, error)
            yield from self.send_response()
        return True

    # A body that is large

    def check_body_size(self, request: bool) -> layer.CommandGenerator[bool]:
        """As its parent does, which starts to stream unless it sees no such option: what is read as
        a whole has a bound of ours."""
        options = self.context.options
        choice = self._interpreter
        reads_whole = choice.reads_request_whole if request else choice.reads_reply_whole
        needs_whole = reads_whole(self.flow)
        if needs_whole:
            self.context.options = cast(Options, OptionsOverlay(options, stream_large_bodies=None))
        try:
            ended = yield from super().check_body_size(request)
        finally:
            self.context.options = options
        if needs_whole and not (request or ended) and len(self.response_body_buf) > MAX_REPLY:
            yield from self._give_up_whole()
        return ended

    @property
    def _cannot_be_read(self) -> bool:
        """Whether the headers of a response that is to be read whole say that it is too large, or
        compressed."""
        if self.server_state != self.state_consume_response_body:
            return False
        if self._interpreter.is_unreadable(self.flow):
            return True
        try:
            size = expected_http_body_size(self.flow.request, self.flow.response) or 0
        except ValueError:
            return False
        return size > MAX_REPLY and self._interpreter.reads_reply_whole(self.flow)

    def _give_up_whole(self) -> layer.CommandGenerator[None]:
        received = bytes(self.response_body_buf)
        self.response_body_buf.clear()
        self._interpreter.give_up_whole(self.flow)
        if self.flow.response and self.flow.response.stream:
            yield from self.start_response_stream()
            if received:
                yield from self.server_state(ResponseData(self.stream_id, received))
        else:
            yield from self._end_upstream("The reply is too large.")
            yield from self.send_response()
