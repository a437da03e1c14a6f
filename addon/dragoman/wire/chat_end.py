"""How a chat stream ends.

A reply with its finish reason is whole, whatever happens to its upstream afterwards.  Any other
that breaks off is broken off for the client, too: most clients ask again then, and give up after
an event with an ``error``.  That event is sent only where a reply cannot be broken off.
"""

from __future__ import annotations

import re
from typing import Literal

from .errors import error_json, reports_error
from .json_codec import NotJson, loads
from .sse import Frame, encode, split

TAIL = 8192
"""Bytes of the end of what was sent that have to be searched: some last events."""
# Some clients see no code, and ask again after words such as "connection error", "ended without".
EARLY = "The upstream's stream ended without a finish reason."
# JSON escapes the quotes of text; ``[DONE]`` may be in any.
_TURN_ENDED = re.compile(rb'"finish_reason"\s*:\s*"\w')
_DONE = re.compile(rb"(?:\A|[\r\n])data:[ \t]*\[DONE\][ \t]*(?:[\r\n]|\Z)")

IncompleteReason = Literal["max_output_tokens", "content_filter"]
TurnEnd = Literal["completed"] | IncompleteReason
# TurnEnd reasons of OpenAI and Anthropic, and the other words for them that hosts are known to use.
# An unknown one is the end of a whole turn, recorded.
FINISHES: dict[str, TurnEnd | Literal["failed"]] = {
    "stop": "completed",
    "tool_calls": "completed",
    "function_call": "completed",
    "eos": "completed",
    "end_turn": "completed",
    "tool_use": "completed",
    "stop_sequence": "completed",
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "model_length": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
    "refusal": "content_filter",
    "error": "failed",
    "abort": "failed",
    "network_error": "failed",
    "insufficient_system_resource": "failed",
}


def meaning(finish: object) -> str:
    """What a finish reason means, by `FINISHES`; an unknown one ends a whole turn."""
    return FINISHES.get(finish, "completed") if isinstance(finish, str) else "completed"


def is_whole(finish: object) -> bool:
    """Whether a turn with this finish reason was complete: not cut by a limit, not failed."""
    return meaning(finish) == "completed"


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
