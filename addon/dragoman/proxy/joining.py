"""What one read of an upstream's socket brings of a reply, in one piece.

mitmproxy makes an event of each chunk of HTTP/1, and hosts send each event of a stream as
a chunk; a stream that comes fast costs a fraction if what came together stays together.
As `layer`, this knows internals of mitmproxy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ResponseData, ResponseEndOfMessage


class Joining:
    """A connection to an upstream; otherwise it behaves as it does."""

    def __init__(self, connection: layer.Layer, is_live: Callable[[int], bool]) -> None:
        """`is_live` tells whether the reply of a stream id may be joined."""
        self._connection = connection
        self._is_live = is_live

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """The commands of the connection, joined where they belong to the same reply."""
        pieces: list[bytes] = []
        of = -1  # no stream
        try:
            for command in self._connection.handle_event(event):
                data = self._live_data(command)
                if pieces and (data is None or data.stream_id != of):
                    yield _joined(of, pieces)
                    pieces = []
                if isinstance(command, ReceiveHttp):
                    of = command.event.stream_id
                if data is None:
                    yield command
                else:
                    pieces.append(data.data)
        except NotImplementedError:
            # mitmproxy has no trailers of HTTP/1, and crashes where a body ends with some.
            if of < 0 or not isinstance(event, events.ConnectionEvent):
                raise
            if pieces:
                yield _joined(of, pieces)
            yield ReceiveHttp(ResponseEndOfMessage(of))
            yield commands.CloseConnection(event.connection)
        else:
            if pieces:
                yield _joined(of, pieces)

    def _live_data(self, command: commands.Command) -> ResponseData | None:
        data = command.event if isinstance(command, ReceiveHttp) else None
        return data if isinstance(data, ResponseData) and self._is_live(data.stream_id) else None


def _joined(stream_id: int, pieces: list[bytes]) -> ReceiveHttp:
    return ReceiveHttp(ResponseData(stream_id, b"".join(pieces)))
