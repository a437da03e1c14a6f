"""How a chat stream ends when its upstream has gone: in an event that says so.

OpenAI's SDKs raise an exception for an event with an ``error``, whatever else it holds.
A reply that was whole before the break (it had its finish reason) is not spoilt by one.
"""

from __future__ import annotations

import re

from ..jsonio import dumps
from ..sse import Frame, encode

TAIL = 2048
"""Bytes of what was sent that `last_frame` needs to see: some last events."""
_ENDED = re.compile(rb'^data: ?(\[DONE\]|.*"finish_reason" ?: ?"\w)', re.MULTILINE)


def broken_off(error: str) -> str:
    """What a client is told; `error` is what mitmproxy says."""
    return f"The upstream broke off: {error}"


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
