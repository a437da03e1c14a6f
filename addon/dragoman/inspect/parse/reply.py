"""A reply's body, of whatever shape and however far it has come, as a `ParsedReply`.

Chat and Responses, streamed and not, and errors in place of either; the bytes alone
tell which it is.  Reads any bytes and raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from ...wire.errors import ErrorObject, read_error, unlisted
from ...wire.json_codec import NotJson, loads
from ...wire.responses import is_event
from ...wire.sse import is_event_stream
from .chat import ChatReader
from .frames import MAX_FRAMES, NumberedFrame, frames, head_and_tail
from .responses import ResponsesReader
from .values import ParsedReply

MAX_WHOLE = 24 * 1024 * 1024
"""Bytes of a body that is not streamed, to be read at all."""


def parse_reply(body: bytes) -> ParsedReply:
    """What a reply says so far."""
    return _stream(body) if is_event_stream(body) else _whole(body)


def first_token(body: bytes) -> int | None:
    """The offset behind the first frame of a stream that carries a token."""
    chat, responses = ChatReader(), ResponsesReader()
    for placed in islice(frames(body), MAX_FRAMES) if is_event_stream(body) else ():
        value = placed.value
        if isinstance(value, dict):
            reader = responses if is_event(value) else chat
            if reader.feed(value):
                return placed.end
    return None


def _stream(body: bytes) -> ParsedReply:
    reader: ChatReader | ResponsesReader | None = None
    error: ErrorObject | None = None
    looked = head_and_tail(body)
    unread = 0
    done = False
    for placed, value in _values([*looked.head, *looked.tail]):
        if placed.frame.is_done:
            done = True
        elif not isinstance(value, dict):
            unread += 1
        else:
            kind = ResponsesReader if is_event(value) else ChatReader
            reader = reader or kind()
            if isinstance(reader, kind):
                reader.feed(value)
            error = read_error(value) or error
    if reader is None:
        return ParsedReply(frames=looked.total, unread=unread, skipped=looked.skipped_bytes)
    responses = isinstance(reader, ResponsesReader)
    return ParsedReply(
        shape="Responses stream" if responses else "chat stream",
        model=reader.model,
        choices=reader.choices,
        usage=reader.usage,
        error=reader.error if isinstance(reader, ResponsesReader) and reader.error else error,
        ended=done or reader.ended,
        frames=looked.total,
        unread=unread,
        skipped=looked.skipped_bytes,
    )


def _values(placed: list[NumberedFrame]) -> Iterable[tuple[NumberedFrame, Any]]:
    """The frames that carry data, with the JSON they carry."""
    return ((each, unlisted(each.value)) for each in placed if each.frame.data is not None)


def _whole(body: bytes) -> ParsedReply:
    try:
        value = loads(body) if len(body) <= MAX_WHOLE else None
    except NotJson:
        value = None
    value = unlisted(value)
    if not isinstance(value, dict):
        return ParsedReply()
    if value.get("object") == "response" or isinstance(value.get("output"), list):
        responses = ResponsesReader()
        responses.snapshot(value)
        return ParsedReply(
            shape="Responses reply",
            model=responses.model,
            choices=responses.choices,
            usage=responses.usage,
            error=responses.error,
            ended=True,
        )
    chat = ChatReader()
    chat.feed(value)
    error = read_error(value)
    shape = bool(chat.choices or error)
    return ParsedReply(
        shape="chat reply" if shape else "",
        model=chat.model,
        choices=chat.choices,
        usage=chat.usage,
        error=error,
        ended=True,
    )
