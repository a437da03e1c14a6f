"""Parses a reply's body of any shape, even unfinished: chat, Responses and Messages, streamed and
not, and errors; the bytes show which.

Raises nothing.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from ...wire.errors import ErrorObject, read_error, unlisted
from ...wire.json_codec import Json, NotJson, loads
from ...wire.messages import events_of, is_message
from ...wire.messages import is_event as is_message_event
from ...wire.reply_reader import MAX_WHOLE
from ...wire.responses import is_event
from ...wire.sse import is_event_stream
from ...wire.usage import Counts
from .chat import ChatReader
from .frames import MAX_FRAMES, frames, head_and_tail
from .messages import MessagesReader
from .responses import ResponsesReader
from .values import ParsedChoice, ParsedReply, Shape


def parse_reply(body: bytes) -> ParsedReply:
    return _stream(body) if is_event_stream(body) else _whole(body)


def first_token(body: bytes) -> int | None:
    """The offset after the first frame of a stream with a token."""
    reader = ObjectReader()
    for placed in islice(frames(body), MAX_FRAMES) if is_event_stream(body) else ():
        value = unlisted(placed.value)
        if isinstance(value, dict) and reader.feed(value):
            return placed.end
    return None


Reader = ChatReader | ResponsesReader | MessagesReader


class ObjectReader:
    """Reads the JSON objects of a stream; the first shows its API."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._error: ErrorObject | None = None

    def feed(self, value: Json) -> bool:
        """Returns whether it carried a token."""
        kind = _kind_of(value)
        if isinstance(self._reader, MessagesReader) and kind is ResponsesReader:
            kind = MessagesReader  # both have events of the types "ping" and "error"
        self._reader = self._reader or kind()
        self._error = read_error(value) or self._error
        return isinstance(self._reader, kind) and self._reader.feed(value)

    @property
    def choices(self) -> tuple[ParsedChoice, ...]:
        return self._reader.choices if self._reader else ()

    @property
    def usage(self) -> Counts | None:
        return self._reader.usage if self._reader else None

    def parsed(self) -> ParsedReply:
        """The stream as far as it was read."""
        reader = self._reader
        if reader is None:
            return ParsedReply(error=self._error)
        if isinstance(reader, ChatReader):
            return _parsed(reader, "chat stream", self._error)
        kind: Shape = (
            "Responses stream" if isinstance(reader, ResponsesReader) else "Messages stream"
        )
        return _parsed(reader, kind, reader.error or self._error)


def _kind_of(value: Json) -> type[Reader]:
    if is_message_event(value):
        return MessagesReader
    return ResponsesReader if is_event(value) else ChatReader


def _parsed(reader: Reader, shape: Shape, error: ErrorObject | None) -> ParsedReply:
    return ParsedReply(
        shape, reader.model, reader.id, reader.choices, reader.usage, error, reader.ended
    )


def _stream(body: bytes) -> ParsedReply:
    reader = ObjectReader()
    looked = head_and_tail(body)
    unread = 0
    done = False
    for placed in (*looked.head, *looked.tail):
        value = unlisted(placed.value)
        if placed.frame.is_done:
            done = True
        elif isinstance(value, dict):
            reader.feed(value)
        elif placed.frame.data is not None:
            unread += 1
    reply = reader.parsed()
    return replace(
        reply,
        ended=reply.ended or (done and bool(reply.shape)),
        frames=looked.total,
        unread=unread,
        skipped=looked.skipped_bytes,
    )


def _whole(body: bytes) -> ParsedReply:
    try:
        value = unlisted(loads(body)) if len(body) <= MAX_WHOLE else None
    except NotJson:
        value = None
    if not isinstance(value, dict):
        return ParsedReply()
    if value.get("object") == "response" or isinstance(value.get("output"), list):
        responses = ResponsesReader()
        responses.snapshot(value)
        reply = _parsed(responses, "Responses reply", responses.error)
    elif is_message(value):
        messages = MessagesReader()
        for event in events_of(value):
            messages.feed(event)
        reply = _parsed(messages, "Messages reply", None)
    else:
        chat, error = ChatReader(), read_error(value)
        chat.feed(value)
        reply = _parsed(chat, "chat reply" if chat.choices or error else "", error)
    return replace(reply, ended=True)
