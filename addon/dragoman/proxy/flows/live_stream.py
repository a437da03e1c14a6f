"""What mitmproxy calls for a streamed reply: the part that all such streams share.

A stream takes the pieces of the upstream's body and returns what is to be sent; it may
also have something to say when no piece comes (`http_stream` asks).  Whatever happens in a
stage, nothing may escape from here (mitmproxy would cut the stream), and what passes is
recorded on both sides.
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
    """The stream callable of one reply."""

    def __init__(self, name: str, record: FlowRecorder, heartbeat: float) -> None:
        """`name` stands for the flow in the log; `heartbeat` is the silence in seconds
        after which the client hears something, or 0."""
        self._name = name
        self._record = record
        self._heartbeat = heartbeat
        self._sent_at = time.monotonic()
        self.timer: RequestWakeup | None = None
        """What wakes `http_stream` to look after this stream."""
        self.began = False
        """Whether any of the reply, or its end, has come."""

    def __call__(self, data: bytes) -> list[bytes]:
        """A piece of the upstream's body, ``b""`` at its end.  Returns no empty piece:
        mitmproxy would write it as the end of a chunked body."""
        self.began = True
        out = self._pass_on(data)
        self._record.left(out)
        if not out:
            return []
        self._sent_at = time.monotonic()
        return [out]

    def opening(self) -> bytes:
        """What is sent as soon as the upstream's headers have come."""
        self.began = True
        return self._say(self._open())

    def heartbeat(self) -> bytes:
        """What is sent now, because it is `due`, to keep the client waiting."""
        return self._say(self._beat())

    def last_word(self, error: str) -> bytes:
        """The upstream has gone in mid-stream: what is held, and what happened to it."""
        return self._say(self._give_up(error))

    @property
    def unread(self) -> bool:
        """Whether the reply is a document that has come, and has to be `reading`."""
        return False

    def reading(self) -> Slices[None]:
        """Read the document; see `what_was_read`."""
        yield from ()

    def what_was_read(self) -> bytes:
        """What is sent of the document."""
        return b""

    def end(self) -> bytes:
        """The end of a reply that has to be kept before it is sent; given out once."""
        return b""

    @property
    def broken(self) -> str:
        """Why the client's reply has to break off now; empty if it need not."""
        return ""

    @property
    def cancelled(self) -> bool:
        """Whether the reply was ended before the upstream's was."""
        return False

    def conclusion(self) -> bytes:
        """What is sent when the reply ends at `ends_at`: the rest of it, if any is left."""
        return self._say(self._conclude())

    @property
    def ends_at(self) -> float | None:
        """When the reply ends if its upstream does not end it, by `time.monotonic`; None: then
        it does not."""
        return None

    @property
    def due(self) -> float | None:
        """Seconds until a heartbeat is due if nothing is sent till then; None: never."""
        if not self._heartbeat:
            return None
        return self._sent_at + self._heartbeat - time.monotonic()

    def _say(self, said: bytes) -> bytes:
        self._sent_at = time.monotonic()
        if said:
            self._record.said(said)
        return said

    # None of these may raise.

    def _conclude(self) -> bytes:
        return b""

    @abstractmethod
    def _pass_on(self, data: bytes) -> bytes: ...

    @abstractmethod
    def _open(self) -> bytes: ...

    @abstractmethod
    def _beat(self) -> bytes: ...

    @abstractmethod
    def _give_up(self, error: str) -> bytes: ...


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
    """What a piece of the body holds; raises `DecodingError` and nothing else."""
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
