"""Bytes on a connection that no client or server library would send, and what comes back."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

import h2.config
import h2.connection
import h2.events

from tests.live.mitmdump import Mitmdump

TIMEOUT = 60.0


def send(proxy: Mitmdump, request: bytes) -> bytes:
    """What the proxy answers: a whole reply, or all before it closes; fails if it does neither."""
    with socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(request)
        received = b""
        with contextlib.suppress(ConnectionError):
            while not _is_whole(received) and (piece := connection.recv(65536)):
                received += piece
    return received


def status(reply: bytes) -> int:
    """The status of an HTTP/1.1 reply; 0 if the connection was closed without one."""
    return int(reply.split(b" ", 2)[1]) if reply.startswith(b"HTTP/") else 0


def send_http2(proxy: Mitmdump, headers: list[tuple[str, str]], body: bytes) -> int:
    """The status of the reply to an HTTP/2 request that nobody checks here; 0 if the proxy
    refuses to talk about it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    config = h2.config.H2Configuration(
        client_side=True,
        header_encoding="utf-8",
        validate_outbound_headers=False,
        normalize_outbound_headers=False,
    )
    speaker = h2.connection.H2Connection(config)
    plain = socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        speaker.initiate_connection()
        speaker.send_headers(1, headers)
        speaker.send_data(1, body, end_stream=True)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection.sendall(speaker.data_to_send())
            while data := connection.recv(65536):
                for event in speaker.receive_data(data):
                    if isinstance(event, h2.events.ResponseReceived):
                        return int(dict(event.headers)[":status"])
                    if isinstance(event, h2.events.StreamReset | h2.events.ConnectionTerminated):
                        return 0
                connection.sendall(speaker.data_to_send())
    return 0


def _is_whole(reply: bytes) -> bool:
    head, end, body = reply.partition(b"\r\n\r\n")
    length = re.search(rb"^content-length: *(\d+)", head, re.IGNORECASE | re.MULTILINE)
    if length:
        return bool(end) and len(body) >= int(length[1])
    return b"chunked" in head and body.endswith(b"\r\n0\r\n\r\n")


@contextlib.contextmanager
def serving(
    serve: Callable[[socket.socket], None], address: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[str]:
    """The URL of a server whose connections are each closed when `serve` returns or fails."""

    def run(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            serve(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=run, args=server.accept()[:1], daemon=True).start()

    with socket.create_server(address) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            with contextlib.suppress(OSError):  # which is how some systems take it
                server.shutdown(socket.SHUT_RDWR)


def read_request(stream: BinaryIO) -> bytes:
    """The first line of the next request, which is read whole; empty if there is none."""
    line, length = stream.readline(), 0
    while header := stream.readline().strip().lower():
        if header.startswith(b"content-length:"):
            length = int(header.partition(b":")[2])
    stream.read(length)
    return line
