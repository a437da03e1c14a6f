"""Which reader reads a reply; and the facts of a reply of any API."""

from __future__ import annotations

from ..chat.reader import ChatReader
from ..messages import names as messages
from ..messages.reader import MessagesReader
from ..reply.facts import ReplyReader, TurnReader, read_body
from ..reply.words import Reader
from ..responses import names as responses
from ..responses.reader import ResponsesReader
from ..wire.json_codec import Json

API_OF: dict[type[Reader], str] = {
    ChatReader: "chat",
    ResponsesReader: "Responses",
    MessagesReader: "Messages",
}


def reader_for(value: Json) -> Reader | None:
    """A reader for a reply that begins with an object; None if that does not show its API: some
    hosts send a ping or an error first."""
    if messages.is_event(value) or messages.is_message(value):
        return MessagesReader()
    if "choices" in value:
        return ChatReader()
    if value.get("type") in ("ping", "error"):
        return None
    is_response = responses.is_event(value) or responses.is_response(value)
    return ResponsesReader() if is_response else None


def turn_reader(*, keeps: bool = False) -> TurnReader:
    return TurnReader(reader_for, keeps=keeps)


def read_reply(body: bytes, *, keeps: bool = False) -> ReplyReader:
    """The facts of a body, perhaps unfinished, or without its middle."""
    return read_body(body, reader_for, keeps=keeps)
