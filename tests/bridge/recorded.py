"""The recorded replies of `fixtures/`, also as replies that were not streamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dragoman.bridge.convert_recorded import writer_for
from dragoman.bridge.reader_writer_pairs import READERS, Api, read_reply
from dragoman.bridge.reply.bridge_pipeline import BridgePipeline
from dragoman.bridge.reply.converter import ReplyConverter
from dragoman.notes import Evidence
from dragoman.reply.stage import at_once
from dragoman.reply.turn_context import Tool, TurnContext
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import is_event_stream
from fixtures.server import FOLDER

NOW = 1_700_000_000
BODIES = sorted(
    (*FOLDER.glob("*/*.sse"), *FOLDER.glob("*/upstream.json"), *FOLDER.glob("*/turn?.json"))
)


def request_of(path: Path) -> Any:
    """What is known of it."""
    file = path.parent / "request.json"
    return json.loads(file.read_bytes()) if file.exists() else {}


def joined_up(stream: bytes, of: Api) -> bytes:
    """A reply that was not streamed, of what a stream says; nothing of one that failed."""
    if not is_event_stream(stream):
        return stream
    tools = {name: Tool("function", name) for name, _ in read_reply(stream).calls}
    writer = writer_for(of, TurnContext({}, "m", False, tools), Evidence(), NOW)
    reply = ReplyConverter(writer, tools.keys(), Evidence(), mixes=of == "chat")
    at_once(BridgePipeline(reply, None, reader=READERS[of]()).convert(stream))
    return b"" if reply.turn_end.error else dumps(reply.response)
