"""How a chat stream ends when its upstream has gone: in an event that says so.

A stream may also break off without a sign: it is closed before the turn has ended.
OpenAI's SDKs raise an exception for an event with an ``error``, whatever else it holds.
A reply that was whole before the break (it had its finish reason) is not spoilt by one.
"""

from __future__ import annotations

import re

from ..jsonio import dumps
from ..sse import Frame, encode

TAIL = 8192
"""Bytes of what was sent that have to be seen here: some last events."""
EARLY = "The upstream closed the stream before it ended the turn."
_ENDED = re.compile(rb'(?:^|[\r\n])data: ?(\[DONE\]|.*"finish_reason" ?: ?"\w)')
_TURN_ENDED = re.compile(rb'\[DONE\]|"finish_reason" ?: ?"\w')
_FAILED = re.compile(rb'(?:^|[\r\n])(data:.*"error" ?: ?[{"]|event: ?error)')


def broken_off(error: str) -> str:
    """What a client is told; `error` is what mitmproxy says."""
    return f"The upstream broke off: {error}"


def ends_early(sent: bytes) -> bool:
    """Whether a stream has begun a turn, and not come to an end of its own, good or bad.
    `sent` is the end of what the client has received."""
    return b'"choices"' in sent and not (_TURN_ENDED.search(sent) or _FAILED.search(sent))


def error_frame(message: str, code: str) -> Frame:
    """An error event in OpenAI's form."""
    error = {"message": message, "type": "upstream_error", "param": None, "code": code}
    return encode(dumps({"error": error}))


def last_frame(sent: bytes, message: str, code: str) -> Frame | None:
    """What a stream that breaks off has to end with; None if it has ended well.

    `sent` is the end of what the client has received.
    """
    ended = _ENDED.findall(sent)
    if not ended:
        return error_frame(message, code)
    return None if b"[DONE]" in ended else encode(b"[DONE]")
