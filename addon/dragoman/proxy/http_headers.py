"""A body's headers, and the body as they say that it is read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

from mitmproxy import http

from ..wire.json_codec import loads
from ..wire.reply_bounds import MAX_REPLY
from ..wire.request_bounds import BYTES, MAX_BODY, TooLarge, check_size, check_value
from .content_decoding import IDENTITY, CutOffError, DecodingError, TooLargeError, decode

EVENT_STREAM = "text/event-stream"
ALLOWED_RATIO = 256
ALLOWED_SLACK = 2 * 1024 * 1024
"""A request may decode to so many times its bytes, and so many more: it is sent on decoded, and
nobody shall have a host sent a thousand times what they send."""
PIECES = 16
"""Pieces of a body that are decoded before others have their turn."""
SMALL = 64 * 1024
"""Bytes of a body that is read before others have their turn, in a millisecond at most."""
_OF_A_BODY = re.compile(
    r"content-(?!type$|length$).+|(?:repr-)?digest|etag|last-modified|range|if-.+|trailer"
    r"|x-.*content-(?:md5|sha256)",
    re.IGNORECASE,
)


def media_type(message: http.Message) -> str:
    """Without parameters, in lower case."""
    return str(message.headers.get("content-type", "")).partition(";")[0].strip().lower()


def encoding_of(message: http.Message) -> str:
    return str(message.headers.get("content-encoding", "identity"))


def is_encoded(message: http.Message) -> bool:
    return encoding_of(message).strip().lower() not in IDENTITY


def decoded(message: http.Message, limit: int) -> Iterator[bytes]:
    """The body without its encoding, in pieces; see `content_decoding.decode`."""
    return decode(message.raw_content or b"", encoding_of(message), limit)


def body_of(message: http.Message, limit: int = MAX_REPLY) -> bytes:
    """All of it; mitmproxy's own property has no limit."""
    return b"".join(decoded(message, limit))


async def request_body(request: http.Request) -> bytes:
    """All of it, or what came of one that is cut off: perhaps only a checksum is missing.  Others
    have their turn meanwhile.  Raises `TooLarge` and `DecodingError`."""
    pieces: list[bytes] = []
    left = ALLOWED_RATIO * len(request.raw_content or b"") + ALLOWED_SLACK
    try:
        for number, piece in enumerate(decoded(request, MAX_BODY)):
            left -= len(piece)
            if left < 0:
                raise DecodingError("it decodes to far more than was received")
            pieces.append(piece)
            if number % PIECES == PIECES - 1:
                await asyncio.sleep(0)
    except TooLargeError:
        raise TooLarge(BYTES) from None
    except CutOffError:
        pass
    return b"".join(pieces)


async def request_value(body: bytes) -> Any:
    """The JSON value of a request's body.  Others have their turn after each step of reading one
    that is not small.  Raises `TooLarge` and `NotJson`."""
    for _ in check_size(body):
        await asyncio.sleep(0)
    value = loads(body, checks=False)
    if len(body) > SMALL:
        await asyncio.sleep(0)
    check_value(value)
    if len(body) > SMALL:
        await asyncio.sleep(0)
    return value


def set_event_stream(response: http.Response) -> None:
    """The body is an event stream of our own, which no cache may keep."""
    response.headers["content-type"] = "text/event-stream; charset=utf-8"
    response.headers["cache-control"] = "no-cache"


def set_json(request: http.Request, body: bytes) -> None:
    """Give a request another body, without headers or trailers about the old one: checksums, ranges
    and conditions (RFC 9110, 9530) would have it refused."""
    for name in set(request.headers):
        if _OF_A_BODY.fullmatch(name):
            del request.headers[name]
    request.headers["content-type"] = "application/json"
    request.headers["accept-encoding"] = "identity"
    request.trailers = None
    request.content = body


def set_stream_framing(request: http.Request, response: http.Response) -> None:
    """The body is not encoded, and of unknown length."""
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        response.headers.pop(name, None)
    if request.http_version == "HTTP/1.1":
        response.headers["transfer-encoding"] = "chunked"
