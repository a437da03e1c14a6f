"""Joins the chunks that one read of an upstream's socket brings of a reply. mitmproxy makes an
event of each chunk of HTTP/1, and hosts send each event of a stream as a chunk: joined they cost a
fraction.

As `http_stream`, this knows internals of mitmproxy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ResponseData, ResponseEndOfMessage


class CoalescingConnection:
    """Wraps a connection to an upstream; all but `handle_event` is the connection's."""

    def __init__(self, connection: layer.Layer, is_live: Callable[[int], bool]) -> None:
        """`is_live`: whether the reply of a stream id may be joined."""
        self._connection = connection
        self._is_live = is_live

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        """The commands of the connection, those with data of the same reply joined."""
        pieces: list[ReceiveHttp] = []
        of = -1  # no stream
        try:
            for command in self._connection.handle_event(event):
                piece = self._live_piece(command)
                if pieces and (piece is None or piece.event.stream_id != of):
                    yield _joined(pieces)
                    pieces = []
                if isinstance(command, ReceiveHttp):
                    of = command.event.stream_id
                if piece is None:
                    yield command
                else:
                    pieces.append(piece)
        except NotImplementedError:
            # mitmproxy has no trailers of HTTP/1, and crashes where a body ends with some.
            if of < 0 or not isinstance(event, events.ConnectionEvent):
                raise
            if pieces:
                yield _joined(pieces)
            yield ReceiveHttp(ResponseEndOfMessage(of))
            yield commands.CloseConnection(event.connection)
        else:
            if pieces:
                yield _joined(pieces)

    def _live_piece(self, command: commands.Command) -> ReceiveHttp | None:
        if type(command) is not ReceiveHttp or type(command.event) is not ResponseData:
            return None
        return command if self._is_live(command.event.stream_id) else None


def _joined(pieces: list[ReceiveHttp]) -> ReceiveHttp:
    if len(pieces) == 1:
        return pieces[0]
    data = b"".join(cast(ResponseData, piece.event).data for piece in pieces)
    return ReceiveHttp(ResponseData(pieces[0].event.stream_id, data))
