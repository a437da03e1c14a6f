"""How a chat stream ends.

A reply with its finish reason is whole, whatever happens to its upstream afterwards.  Any other
that breaks off is broken off for the client, too: most clients ask again then, and give up after
an event with an ``error``.  That event is sent only where a reply cannot be broken off.
"""

from __future__ import annotations

import re

from .errors import error_json, reports_error
from .json_codec import NotJson, loads
from .sse import Frame, encode, split

TAIL = 8192
"""Bytes of the end of what was sent that have to be searched: some last events."""
# Some clients see no code, and ask again after words such as "connection error", "ended without".
EARLY = "The upstream's stream ended without a finish reason."
CHUNK = b'"choices"'
"""What every chunk has."""
# JSON escapes the quotes of text; ``[DONE]`` may be in any.
_TURN_ENDED = re.compile(rb'"finish_reason"\s*:\s*"\w')
_DONE = re.compile(rb"(?:\A|[\r\n])data:[ \t]*\[DONE\][ \t]*(?:[\r\n]|\Z)")

# Of each of these, `sent` is the end of what the client has received.


def broken_off(error: str) -> str:
    """The message for people; `error` is mitmproxy's."""
    return f"The upstream broke off: {error} (connection error)"


def turn_ended(sent: bytes) -> bool:
    """Whether the upstream ended the turn."""
    return _TURN_ENDED.search(sent) is not None or is_done(sent)


def is_done(sent: bytes) -> bool:
    """Whether ``[DONE]`` was sent, as an event and not in a text."""
    return _DONE.search(sent) is not None


def has_ended(sent: bytes) -> bool:
    """Whether the upstream ended the stream, or reported an error."""
    return turn_ended(sent) or any(map(reports_error, split(sent)))


def is_half(rest: Frame) -> bool:
    """Whether the bytes after a stream's last blank line are a part of an event, and not an event
    that lacks only its blank line."""
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
    """An error event in OpenAI's form, with a code after which most clients try again."""
    return encode(error_json(message, type="server_error", code="server_error"))
