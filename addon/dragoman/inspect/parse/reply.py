"""Parses a reply's body of any shape, even unfinished: chat, Responses and Messages, streamed and
not, and errors; the bytes show which.

Raises nothing.
"""

from __future__ import annotations

from dataclasses import replace

from ...wire import messages
from ...wire.errors import ErrorObject, read_error, unlisted
from ...wire.json_codec import Json, NotJson, loads
from ...wire.reply_reader import MAX_WHOLE
from ...wire.responses import is_event
from ...wire.sse import is_event_stream
from .chat import ChatReader
from .frames import head_and_tail
from .messages import MessagesReader
from .responses import ResponsesReader
from .values import ParsedReply, Shape

Reader = ChatReader | ResponsesReader | MessagesReader
_STREAMS: dict[type[Reader], Shape] = {
    ChatReader: "chat stream",
    ResponsesReader: "Responses stream",
    MessagesReader: "Messages stream",
}


def parse_reply(body: bytes) -> ParsedReply:
    return _stream(body) if is_event_stream(body) else _whole(body)


def _stream(body: bytes) -> ParsedReply:
    """The first object shows the API."""
    reader: Reader | None = None
    error: ErrorObject | None = None
    looked = head_and_tail(body)
    unread = 0
    done = False
    for placed in (*looked.head, *looked.tail):
        value = unlisted(placed.value)
        if placed.frame.is_done:
            done = True
        elif isinstance(value, dict):
            error = read_error(value) or error
            reader = reader or _reader_of(value)
            if type(reader) is type(_reader_of(value)) or isinstance(reader, MessagesReader):
                reader.feed(value)
        elif placed.frame.data is not None:
            unread += 1
    reply = ParsedReply(error=error)
    if reader is not None:
        of_reader = None if isinstance(reader, ChatReader) else reader.error
        reply = _parsed(reader, _STREAMS[type(reader)], of_reader or error)
    return replace(
        reply,
        ended=reply.ended or (done and bool(reply.shape)),
        frames=looked.total,
        unread=unread,
        skipped=looked.skipped_bytes,
    )


def _reader_of(value: Json) -> Reader:
    if messages.is_event(value):
        return MessagesReader()
    return ResponsesReader() if is_event(value) else ChatReader()


def _parsed(reader: Reader, shape: Shape, error: ErrorObject | None) -> ParsedReply:
    return ParsedReply(
        shape, reader.model, reader.id, reader.choices, reader.usage, error, reader.ended
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
    elif messages.is_message(value):
        message = MessagesReader()
        for event in messages.events_of(value):
            message.feed(event)
        reply = _parsed(message, "Messages reply", None)
    else:
        chat, error = ChatReader(), read_error(value)
        chat.feed(value)
        reply = _parsed(chat, "chat reply" if chat.choices or error else "", error)
    return replace(reply, ended=True)
