"""Parses a reply's body of any shape, even unfinished: chat, Responses and Messages, streamed and
not, and errors; the bytes show which.

Raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...reply.facts import MAX_WHOLE
from ...wire import messages
from ...wire.errors import ErrorObject, read_error, unlisted
from ...wire.json_codec import Json, string
from ...wire.responses import is_event, is_response
from ...wire.sse import Document, is_event_stream
from ...wire.usage import Counts, counts, merged
from .chat import ChatReader
from .frames import NumberedFrame, head_and_tail
from .messages import MessagesReader
from .responses import ResponsesReader
from .values import ParsedReply

Reader = ChatReader | ResponsesReader | MessagesReader
_APIS: dict[type[Reader], str] = {
    ChatReader: "chat",
    ResponsesReader: "Responses",
    MessagesReader: "Messages",
}


def parse_reply(body: bytes) -> ParsedReply:
    if not is_event_stream(body):
        return _parsed(_events_of(body), "reply")
    looked = head_and_tail(body)
    values = _values([*looked.head, *looked.tail])
    return _parsed(values, "stream", frames=looked.total, skipped=looked.skipped_bytes)


def _values(frames: Iterable[NumberedFrame]) -> Iterator[object]:
    for placed in frames:
        if placed.frame.data is not None and not placed.frame.is_done:
            yield unlisted(placed.value)


def _events_of(body: bytes) -> Iterator[Json]:
    """The values by which a reply that came whole would be streamed."""
    value = unlisted(Document(body).json) if len(body) <= MAX_WHOLE else None
    if not isinstance(value, dict):
        return
    if is_response(value):
        yield {"type": "response.completed", "response": value}
    elif messages.is_message(value):
        yield from messages.events_of(value)
    elif "choices" in value or read_error(value):
        yield value


def _parsed(
    values: Iterable[object], form: str, *, frames: int = 0, skipped: int = 0
) -> ParsedReply:
    """The first object shows the API."""
    reader: Reader | None = None
    usage: Counts | None = None
    error: ErrorObject | None = None
    model = reply_id = ""
    unread = 0
    for value in values:
        if not isinstance(value, dict):
            unread += 1
            continue
        holders = [value, value.get("response"), value.get("message")]
        for holder in holders:
            error = read_error(holder) or error
            if isinstance(holder, dict):
                model = string(holder.get("model")) or model
                reply_id = string(holder.get("id")) or reply_id
        usage = merged(usage, counts(value))
        reader = reader or _reader_of(value)
        if type(reader) is type(_reader_of(value)) or isinstance(reader, MessagesReader):
            reader.feed(value)
    return ParsedReply(
        f"{_APIS[type(reader)]} {form}" if reader else "",
        model,
        reply_id,
        reader.choices if reader else (),
        usage,
        error,
        frames,
        unread,
        skipped,
    )


def _reader_of(value: Json) -> Reader:
    if messages.is_event(value):
        return MessagesReader()
    return ResponsesReader() if is_event(value) else ChatReader()
