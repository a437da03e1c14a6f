"""What mitmproxy calls for a streamed reply: the part that all such streams share.

A stream takes the pieces of the upstream's body and returns what is to be sent.  It may also
send something when no piece comes (`http_stream` asks).  No exception may escape from here
(mitmproxy would cut the stream), and both sides are recorded.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from mitmproxy.proxy.commands import RequestWakeup

from ...wire.slices import Slices
from ..content_decoding import Decoder, DecodingError
from ..observe.recorder import FlowRecorder

logger = logging.getLogger(__name__)


class LiveStream(ABC):
    """The stream callable of one reply.  What its methods return is sent at once."""

    broken = ""
    """Why the client's reply has to break off now; empty if it need not."""
    cancelled = False
    """Whether the client's reply was ended before the upstream's."""
    ends_at: float | None = None
    """When the reply ends if its upstream does not end it, by `time.monotonic`; None: never."""

    def __init__(
        self, name: str, record: FlowRecorder, heartbeat: float, decoder: Decoder | None
    ) -> None:
        """`name` is the flow's in the log; `heartbeat` is the silence in seconds
        after which the client is sent something, or 0."""
        self._name = name
        self._record = record
        self._heartbeat = heartbeat
        self._decoder = decoder
        self._document: bytes | None = None
        """The whole reply, where that is no event stream: to be read."""
        self._sent_at = time.monotonic()
        self.timer: RequestWakeup | None = None
        """What wakes `http_stream` to look after this stream."""
        self.began = False
        """Whether any of the reply, or its end, has come."""

    def __call__(self, data: bytes) -> list[bytes]:
        """A piece of the upstream's body, ``b""`` at its end.  Returns no empty piece:
        mitmproxy would write it as the end of a chunked body."""
        self.began = True
        out = self._feed(data)
        self._record.left(out)
        if not out:
            return []
        self._sent_at = time.monotonic()
        return [out]

    @abstractmethod
    def _feed(self, data: bytes) -> bytes: ...

    def opening(self) -> bytes:
        """Sent as soon as the upstream's headers have come."""
        self.began = True
        return self._recorded(b"")

    @abstractmethod
    def heartbeat(self) -> bytes:
        """Sent when it is `due`, to keep the client waiting."""

    @abstractmethod
    def last_word(self, error: str) -> bytes:
        """The upstream broke off: what is held, and the error."""

    def conclusion(self) -> bytes:
        """The rest of a reply that ends at `ends_at`."""
        return b""

    @property
    @abstractmethod
    def unread(self) -> bool:
        """Whether there is work in slices before anything else can be sent: `reading`."""

    @abstractmethod
    def reading(self) -> Slices[None]:
        """Read a document, or write what takes long: as much as is sent at once."""

    @abstractmethod
    def what_was_read(self) -> bytes:
        """What `reading` made, which is sent now."""

    @abstractmethod
    def leave(self) -> None:
        """The client has left: what is `unread` is not wanted."""

    @property
    @abstractmethod
    def unkept(self) -> bool:
        """Whether there is an end of the reply that has to be kept before it is sent."""

    @abstractmethod
    def end(self) -> bytes:
        """That end, or as much of it as is sent at once; the rest is `unread`."""

    @property
    def due(self) -> float | None:
        """Seconds until a heartbeat is due if nothing is sent till then; None: never."""
        if not self._heartbeat:
            return None
        return self._sent_at + self._heartbeat - time.monotonic()

    def _recorded(self, sent: bytes) -> bytes:
        """What is sent while the upstream is silent."""
        self._sent_at = time.monotonic()
        if sent:
            self._record.left_in_silence(sent)
        return sent


class WatchedStream:
    """A stream that passes as it comes, and is recorded."""

    def __init__(self, record: FlowRecorder, decoder: Decoder | None, name: str) -> None:
        self._record = record
        self._decoder = decoder
        self._name = name
        self._readable = True

    def __call__(self, data: bytes) -> list[bytes]:
        try:
            for plain in decoded(self._decoder, data, self._name) if self._readable else ():
                self._record.came(plain)
        except DecodingError:
            self._readable = False
        self._record.left(data)
        return [data] if data else []


def decoded(decoder: Decoder | None, data: bytes, name: str) -> Iterable[bytes]:
    """A piece of the body without its content encoding; raises `DecodingError` and nothing else."""
    if decoder is None:
        return (data,) if data else ()
    return _decoded(decoder, data, name)


def _decoded(decoder: Decoder, data: bytes, name: str) -> Iterator[bytes]:
    try:
        yield from decoder.feed(data)
    except DecodingError:
        raise
    except Exception:
        logger.exception("%s: decoding failed", name)
        raise DecodingError("Dragoman cannot decode it") from None
