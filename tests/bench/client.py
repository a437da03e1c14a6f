"""Clients of the benchmark: they take what comes, and read as little of it as they can."""

from __future__ import annotations

import contextlib
import re
import socket

from tests.bench.streams import chat_request, responses_request

_END = b"\r\n0\r\n\r\n"
CHAT, RESPONSES = "chat/completions", "responses"
_TERMINALS = {CHAT: rb"data: \[DONE\]", RESPONSES: rb'"type": ?"response.completed"'}


def base(stream: str, pace: str = "0") -> str:
    """The path at which the upstream has a stream."""
    return f"/{pace}/{stream}/v1"


def request(stream: str, api: str, *, pace: str = "0") -> bytes:
    """The bytes of a request for a stream, by one of both APIs."""
    return post(f"{base(stream, pace)}/{api}", api)


def post(path: str, api: str, key: str = "bench") -> bytes:
    """The bytes of a request to a path."""
    body = chat_request() if api == CHAT else responses_request()
    return (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


def fetch(port: int, asked: bytes, timeout: float = 120) -> bytes:
    """The whole reply to a request; fails if it is not one that succeeded."""
    api = RESPONSES if b"/responses HTTP" in asked[:200] else CHAT
    pieces, tail = [], b""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout)) as connection:
        connection.sendall(asked)
        while not tail.endswith(_END):
            piece = connection.recv(1 << 20)
            if not piece:
                break
            pieces.append(piece)
            tail = (tail + piece[-8:])[-8:]
    reply = b"".join(pieces)
    if not (reply.startswith(b"HTTP/1.1 200 ") and re.search(_TERMINALS[api], reply)):
        raise AssertionError(f"not the reply that was asked for: {reply[:300]!r}…{reply[-300:]!r}")
    return reply


def take(port: int, asked: bytes, quiet: float = 0.2) -> None:
    """All that comes of a reply until nothing comes for a while."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), quiet)) as connection:
        connection.sendall(asked)
        with contextlib.suppress(TimeoutError):
            while connection.recv(1 << 20):
                pass
