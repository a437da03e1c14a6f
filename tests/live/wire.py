"""A client that sees the wire: exact body bytes, when each arrived, and how it ended.

`exchange` sends one request over HTTP/1.1 or HTTP/2, straight or through a proxy's
CONNECT, and keeps every piece of the body with the time at which it came.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.events

TIMEOUT = 60.0
"""Seconds of silence after which a reply counts as hanging, which is an error."""


@dataclass(slots=True)
class Reply:
    """A reply as it arrived; a body cut short has `complete` False."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Names in lower case."""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """(seconds since the request was sent, bytes): an HTTP/1.1 chunk or read, an HTTP/2 frame."""
    complete: bool = False
    """Whether the body's end was announced: last chunk, full length, END_STREAM."""
    watch: Callable[[bytes], object] | None = None
    """Called with the body so far whenever more of it has come."""

    def add(self, seconds: float, piece: bytes) -> None:
        self.pieces.append((seconds, piece))
        if self.watch:
            self.watch(self.body)

    @property
    def body(self) -> bytes:
        return b"".join(piece for _, piece in self.pieces)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def arrival(self, part: bytes) -> float:
        """Seconds until the body held `part` completely."""
        body = b""
        for seconds, piece in self.pieces:
            body += piece
            if part in body:
                return seconds
        raise AssertionError(f"{part!r} never arrived in {body!r}")


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    authority: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def exchange(
    url: str,
    body: bytes,
    *,
    method: str = "POST",
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),),
    proxy: str | None = None,
    http2: bool = False,
    watch: Callable[[bytes], object] | None = None,
) -> Reply:
    """Send one request and read its reply to the end.

    `proxy` is a proxy's URL, used with CONNECT.  TLS certificates are not verified.
    `watch` is that of the `ReplyConverter`.
    Raises TimeoutError for a reply that hangs; a connection that breaks gives a
    `ReplyConverter` that is not `complete`.
    """
    target = urlsplit(url)
    path = target.path + (f"?{target.query}" if target.query else "")
    request = _Request(method, target.netloc, path or "/", headers, body)
    with contextlib.closing(connect(url, proxy, http2)) as connection:
        speak = _http2 if http2 else _http1
        return speak(connection, request, Reply(watch=watch))


def connect(url: str, proxy: str | None, http2: bool) -> socket.socket:
    target = urlsplit(url)
    assert target.hostname
    port = target.port or (443 if target.scheme == "https" else 80)
    via = urlsplit(proxy) if proxy else target
    connection = socket.create_connection((via.hostname or "", via.port or port), TIMEOUT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy:
        authority = f"{target.hostname}:{port}"
        connection.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1) or b"\r\n\r\n"
        assert b" 200 " in head.split(b"\r\n")[0], head
    if target.scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"] if http2 else ["http/1.1"])
        connection = context.wrap_socket(connection, server_hostname=target.hostname)
    return connection


def _http1(connection: socket.socket, request: _Request, reply: Reply) -> Reply:
    every = [("Host", request.authority), *request.headers]
    every.append(("Content-Length", str(len(request.body))))
    lines = "".join(f"{name}: {value}\r\n" for name, value in every)
    connection.sendall(
        f"{request.method} {request.path} HTTP/1.1\r\n{lines}\r\n".encode() + request.body
    )
    sent = time.monotonic()
    with connection.makefile("rb") as stream, contextlib.suppress(ConnectionError, ssl.SSLError):
        status = stream.readline()
        if not status:
            return reply
        reply.status = int(status.split(b" ")[1])
        while line := stream.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            reply.headers.append((name.lower(), value.strip()))
        length = reply.header("content-length")
        if reply.header("transfer-encoding") == "chunked":
            while size := int(stream.readline() or b"-1", 16):
                piece = stream.read(size) if size > 0 else b""
                reply.add(time.monotonic() - sent, piece)
                if len(piece) < size or size < 0 or stream.readline() != b"\r\n":
                    return reply
            reply.complete = stream.readline() == b"\r\n"
        else:
            left = int(length) if length else -1
            while left and (piece := stream.read1(min(65536, left) if left > 0 else 65536)):
                reply.add(time.monotonic() - sent, piece)
                left -= len(piece) if left > 0 else 0
            reply.complete = left <= 0
    return reply


def _http2(connection: socket.socket, request: _Request, reply: Reply) -> Reply:
    speaker = h2.connection.H2Connection(
        h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
    )
    speaker.initiate_connection()
    speaker.increment_flow_control_window(2**30)
    pseudo = [(":method", request.method), (":scheme", "https")]
    pseudo += [(":authority", request.authority), (":path", request.path)]
    speaker.send_headers(1, [*pseudo, *request.headers])
    rest: bytes | None = request.body
    sent = time.monotonic()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while True:
            while rest and (window := speaker.local_flow_control_window(1)):
                size = min(window, speaker.max_outbound_frame_size)
                speaker.send_data(1, rest[:size])
                rest = rest[size:]
            if rest is not None and not rest:
                speaker.end_stream(1)
                rest = None
            connection.sendall(speaker.data_to_send())
            data = connection.recv(65536)
            if not data or _take(speaker, data, reply, sent):
                return reply
    return reply


def _take(speaker: h2.connection.H2Connection, data: bytes, reply: Reply, sent: float) -> bool:
    """Read what arrived into the reply; True if nothing more will come."""
    ended = False
    for event in speaker.receive_data(data):
        if isinstance(event, h2.events.ResponseReceived):
            reply.headers = [(name, value) for name, value in event.headers if name[0] != ":"]
            reply.status = int(dict(event.headers)[":status"])
        elif isinstance(event, h2.events.DataReceived):
            if event.data:
                reply.add(time.monotonic() - sent, event.data)
            speaker.acknowledge_received_data(event.flow_controlled_length, 1)
        elif isinstance(event, h2.events.StreamEnded):
            reply.complete = ended = True
        elif isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
            ended = True
    return ended
