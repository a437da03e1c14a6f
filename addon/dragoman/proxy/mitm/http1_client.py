"""An HTTP/1 connection to an upstream, which mitmproxy reads chunk by chunk.

Hosts send each event of a stream as a chunk of its own.  Here the chunks that one read of the
socket brings are joined; and those of a reply that is repaired or bridged go to its `Stream` and
on to the client without the layers in between, which cost more than the work on them.

As `http_stream`, this uses internals of mitmproxy, and of the h11 that it reads bodies with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.http import HttpClient, HttpStream

# What mitmproxy reads bodies with, of h11; not imported from there, as only mitmproxy is needed.
from mitmproxy.proxy.layers.http._http1 import (  # type: ignore[attr-defined]
    ChunkedReader,
    Http1Client,
    ReceiveBuffer,
    h11,
)

from .http_stream import Stream

_HEADER = re.compile(rb"([0-9a-fA-F]{1,16})\r\n")
"""The line before a chunk without extensions: ``1a0`` and a line end."""
_FOOTER = b"\r\n"
_MAX_READ = 128 * 1024
"""Bytes of a buffer that are looked at: more than one read of a socket brings.  A header without an
end grows beyond them, and would be copied with each read."""


class JoiningReader(ChunkedReader):
    """As its parent, but all chunks of the buffer at once.  What is not plainly one is read by the
    parent: extensions, the end, a fault."""

    joins = False
    """Whether it does: not for replies with which nothing is to be done."""

    def __call__(self, buf: ReceiveBuffer) -> Any:
        """The next event of the body; None if there is none yet."""
        if self.joins and (data := self.take(buf)):
            return h11.Data(data=data)
        read = super().__call__(buf)
        # mitmproxy has no trailers of HTTP/1, and crashes where a body ends with some.
        return h11.EndOfMessage() if isinstance(read, h11.EndOfMessage) else read

    def take(self, buf: ReceiveBuffer) -> bytes:
        """Take the chunks, and the part of one, with which the buffer begins; returns their data,
        empty if the parent has to read on."""
        if self._reading_trailer or len(buf) > _MAX_READ:
            return b""
        received = bytes(buf)
        footer = self._bytes_to_discard  # of the chunk before; its length in h11 0.14
        at, missing = footer if isinstance(footer, int) else len(footer), self._bytes_in_chunk
        if received[:at] != _FOOTER[2 - at :]:
            return b""
        begin, size = at, missing
        chunks = []
        while True:
            if not size:
                header = _HEADER.match(received, at)
                size = int(header[1], 16) if header else 0
                if not (header and size):
                    break
                begin = header.end()
            end = begin + size
            if end > len(received):
                chunks.append(received[begin:])
                at, missing = len(received), end - len(received)
                break
            if received[end : end + 2] != _FOOTER:
                break
            chunks.append(received[begin:end])
            at, missing, size = end + 2, 0, 0
            begin = at
        self._bytes_in_chunk, self._bytes_to_discard = missing, type(footer)()
        buf.maybe_extract_at_most(at)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class UpstreamConnection(Http1Client):
    """An upstream's connection; mitmproxy's gets this class once it is connected: `adopt`."""

    streams: Mapping[int, HttpStream]

    @classmethod
    def adopt(cls, connected: layer.Layer, streams: Mapping[int, HttpStream]) -> None:
        """Replace the HTTP/1 layer of an upstream's connection, if it has one. `connected` is its
        outermost layer, `streams` are those of the HTTP layer."""
        *_, http_client, connection = connected.context.layers
        if type(connection) is Http1Client and isinstance(http_client, HttpClient):
            connection.__class__ = cls
            adopted = cast(UpstreamConnection, connection)
            adopted.streams = streams
            # That only passes events on from now on.
            http_client.handle_event = adopted.handle_event  # type: ignore[method-assign]

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does.  The generator is returned: a piece of a reply that runs, as nearly
        all events are, passes through none but that of its `Stream`."""
        stream = self.streams.get(self.stream_id or 0)
        if (
            type(event) is not events.DataReceived
            or not isinstance(stream, Stream)
            or stream.live is None
            or stream._paused is not None  # a hook is waited for
            or type(self.body_reader) is not JoiningReader
            or self.debug is not None
        ):
            return super().handle_event(event)
        self.buf += event.data
        piece = self.body_reader.take(self.buf)
        if self.buf or not piece:
            return self._deliver(stream, piece)
        return stream.deliver(piece)

    def read_body(self, event: events.Event) -> layer.CommandGenerator[None]:
        """As its parent does, with a reader that may join."""
        reader: object = self.body_reader
        if type(reader) is ChunkedReader:
            reader.__class__ = JoiningReader
        if isinstance(reader, JoiningReader):
            stream = self.streams.get(self.stream_id or 0)
            reader.joins = isinstance(stream, Stream) and stream.live is not None
        yield from super().read_body(event)

    def _deliver(self, stream: Stream, piece: bytes) -> layer.CommandGenerator[None]:
        """A piece, and what follows it in the buffer."""
        if piece:
            yield from stream.deliver(piece)
        yield from super().handle_event(events.DataReceived(self.conn, b""))
