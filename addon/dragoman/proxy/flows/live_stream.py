"""What mitmproxy calls for a streamed reply: the part that all such streams share.

A stream takes the pieces of the upstream's body and returns what is to be sent.  It may also
send something when no piece comes (`http_stream` asks).  No exception may escape from here
(mitmproxy would cut the stream), and both sides are recorded.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

from mitmproxy import http

from ..http_headers import EVENT_STREAM, encoding_of, is_encoded, media_type
from ..observe.recorder import FlowRecorder
from ..routes import is_replayed


@dataclass(frozen=True, slots=True)
class ReplyContext:
    """What a stream needs of its flow."""

    name: str
    """The flow's, in the log."""
    record: FlowRecorder
    heartbeat: float = 0
    """Seconds of silence after which the client is sent something; 0: never."""
    labelled: bool = True
    """Whether the reply says that it is an event stream."""
    waits: bool = True
    """Whether the client's reply can wait until it is kept."""
    breaks: bool = True
    """Whether the client's reply can break off."""

    @classmethod
    def of(
        cls,
        flow: http.HTTPFlow,
        response: http.Response,
        record: FlowRecorder,
        name: str,
        *,
        heartbeat: float,
        has_layer: bool,
    ) -> ReplyContext:
        """`has_layer`: whether our stream layer is there, which makes it wait and break off."""
        waits = has_layer and not is_replayed(flow)
        return cls(
            name,
            record,
            heartbeat,
            labelled=media_type(response) == EVENT_STREAM,
            waits=waits,
            # How a body ends says nothing to a client of HTTP/1.0.
            breaks=waits and flow.request.http_version != "HTTP/1.0",
        )


class LiveStream(ABC):
    """The stream callable of one reply.  What its methods return is sent at once."""

    started = False
    """Whether any of the reply, or its end, has come."""
    needs_attention = False
    """Whether a piece may leave more to do than to send what the call returned: `waits`, an end
    that is held, `broken`, `ends_at`.  False for nearly all: it is asked after each."""
    broken = ""
    """Why the client's reply has to break off now; empty if it need not."""
    ends_at: float | None = None
    """When the reply ends if its upstream does not end it, by `time.monotonic`; None: never."""

    def __init__(self, context: ReplyContext) -> None:
        self._name = context.name
        self._record = context.record
        self._heartbeat = context.heartbeat
        self._waits = context.waits
        self._over = False
        """Whether what still comes is ignored."""
        self._sent_at = time.monotonic()

    def __call__(self, data: bytes) -> list[bytes]:
        """A piece of the upstream's body, ``b""`` at its end.  Returns no empty piece:
        mitmproxy would write it as the end of a chunked body."""
        self.started = True
        if self._over:
            data = sent = b""
        else:
            sent = self._feed(data) if data else self._close()
        self._record.reply.add(data, sent)
        if not sent:
            return []
        self._sent_at = time.monotonic()
        return [sent]

    @abstractmethod
    def _feed(self, data: bytes) -> bytes:
        """A piece of the body."""

    @property
    @abstractmethod
    def waits(self) -> bool:
        """Whether some of what has come waits for `go_on`: it is large, and other flows run first.
        Nothing waits where our layer does not ask."""

    def go_on(self) -> bytes:
        """What more work on what `waits` has brought."""
        return self._recorded(self._feed(b""))

    @abstractmethod
    def _close(self) -> bytes:
        """The end of the body."""

    def opening(self) -> bytes:
        """Sent as soon as the upstream's headers have come."""
        self.started = True
        return self._recorded(b"")

    @abstractmethod
    def heartbeat(self) -> bytes:
        """Sent after a silence, to keep the client waiting."""

    @abstractmethod
    def break_off(self, error: str) -> bytes:
        """The upstream broke off: what is held; `broken` says whether the client's reply breaks off
        then, too."""

    def conclude(self) -> bytes:
        """The rest of a reply that ends at `ends_at`."""
        return b""

    @property
    @abstractmethod
    def holds_end(self) -> bool:
        """Whether there is an end of the reply that has to be kept before it is sent."""

    @abstractmethod
    def release_end(self) -> bytes:
        """The end of the reply that was held, now that it is kept."""

    @property
    def heartbeat_in(self) -> float | None:
        """Seconds until a heartbeat is due if nothing is sent till then; None: never."""
        if not self._heartbeat:
            return None
        return self._sent_at + self._heartbeat - time.monotonic()

    def _recorded(self, sent: bytes) -> bytes:
        """What is sent while the upstream is silent."""
        self._sent_at = time.monotonic()
        if sent:
            self._record.reply.add_sent_in_silence(sent)
        return sent


class WatchedStream:
    """A stream that passes as it comes, in its content encoding, and is recorded."""

    def __init__(self, record: FlowRecorder, response: http.Response) -> None:
        self._reply = record.reply
        self._reply.encoding = encoding_of(response) if is_encoded(response) else ""

    def __call__(self, data: bytes) -> list[bytes]:
        self._reply.add(data, data)
        return [data] if data else []
