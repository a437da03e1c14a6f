"""How a chat stream ends: well, early, or with its upstream.

A reply that was whole (it had its finish reason) is not spoilt by what happens to its
upstream afterwards.  Any other that its upstream cuts off is cut off for the client, too:
most clients ask again then, and give the task up for an event with an ``error``.  That event
is left for where a reply cannot be broken off.
"""

from __future__ import annotations

import re

from .errors import error_json, reports_error
from .json_codec import NotJson, loads
from .sse import Frame, encode, split

TAIL = 8192
"""Bytes of what was sent that have to be seen here: some last events."""
EARLY = "The upstream closed the stream before it ended the turn."
# JSON escapes the quotes of text; ``[DONE]`` may stand in any.
_TURN_ENDED = re.compile(rb'"finish_reason"\s*:\s*"\w')
_DONE = re.compile(rb"(?:\A|[\r\n])data:[ \t]*\[DONE\][ \t]*(?:[\r\n]|\Z)")

# Of each of these, `sent` is the end of what the client has received.


def broken_off(error: str) -> str:
    """What a person is told; `error` is what mitmproxy says."""
    return f"The upstream broke off: {error}"


def turn_ended(sent: bytes) -> bool:
    """Whether the turn has come to an end of its own."""
    return _TURN_ENDED.search(sent) is not None or is_done(sent)


def is_done(sent: bytes) -> bool:
    """Whether ``[DONE]`` was sent, as an event and not in a text."""
    return _DONE.search(sent) is not None


def has_ended(sent: bytes) -> bool:
    """Whether a stream has come to an end of its own, good or bad."""
    return turn_ended(sent) or any(map(reports_error, split(sent)))


def is_half(rest: Frame) -> bool:
    """Whether what stands behind the last blank line of a stream that has ended is a part of
    an event, and not one whose blank line alone is missing."""
    data = rest.data if rest.whole else b""
    if data is None:
        return not (rest.raw.isspace() or rest.raw.startswith(b":"))
    if rest.is_done:
        return False
    try:
        loads(data)
    except NotJson:
        return True
    return False


def error_frame(message: str) -> Frame:
    """An error event in OpenAI's form, of the type and code that most clients try again on."""
    return encode(error_json(message, type="server_error", code="server_error"))
