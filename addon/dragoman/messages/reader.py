"""Reads events of Anthropic's Messages API, or a whole message as the events by which it would be
streamed: a block is a part with one text, a call, or neither.

A host may number blocks as it likes, leave out where one ends, or where one of text begins; an
event of another block than the latest says nothing, as for the client that has ended.
"""

from __future__ import annotations

from typing import Any

from ..reply.words import (
    Arguments,
    CallBegin,
    Delta,
    Done,
    Failed,
    Finish,
    Kind,
    More,
    Other,
    Part,
    PartBegin,
    PartEnd,
    Shown,
    Text,
)
from ..wire.errors import error_object, read_error, unlisted
from ..wire.json_codec import Json, dumps, string
from ..wire.sse import Frame
from . import names as api

_KINDS: dict[str, Kind] = {"text": "text", "thinking": "reasoning", api.CALL: "call"}
_DELTAS: dict[Kind, tuple[str, str]] = {
    "text": ("text_delta", "text"),
    "reasoning": ("thinking_delta", "thinking"),
    "call": (api.ARGUMENTS, "partial_json"),
}
"""The type of a delta that continues a part of this kind, and the field of what it has."""


class MessagesReader:
    """Reads one reply.  The `raw` of a word is its event."""

    one_channel = False
    remembered = 0
    counted: Json | None = None
    says_more = False

    def __init__(self) -> None:
        self.model = self.id = ""
        self.value: Any = None
        self.known = self.ended = False
        self._index = -1
        self._part = Part("other")
        """The latest block."""

    def take_repeated(self) -> int:
        return 0

    def shown(self, part: Part, _: Any, /) -> Shown:
        block = part.begun
        given = block.get("input")
        text = given if isinstance(given, str) else dumps(given).decode() if given else ""
        return Shown(string(block.get("name")) or part.type, string(block.get("id")), text)

    def part_of(self, kind: Kind, part: Part) -> Part:
        return Part(kind, part.choice)

    def more(self, frame: Frame) -> More | None:
        self.value = event = frame.json
        if not isinstance(event, dict) or event.get("type") != api.BLOCK_DELTA:
            return None
        part, delta = self._part, event.get("delta")
        if part.kind not in _DELTAS or not isinstance(delta, dict):
            return None
        kind, field = _DELTAS[part.kind]
        text = delta.get(field)
        if delta.get("type") != kind or not isinstance(text, str) or not text:
            return None
        if part.kind == "call" and not self._is_latest(event):
            return None
        return part, text

    def delta(self, part: Part, text: str) -> Text | Arguments:
        return Arguments(part, text, self.value) if part.kind == "call" else Text(part, text)

    def _is_latest(self, event: Json) -> bool:
        return api.index_of(event) in (None, self._index)

    def read(self, frame: Frame) -> list[Delta]:
        event = unlisted(self.value)
        if isinstance(event, dict) and api.is_message(event):
            self.known = True
            return [delta for each in api.events_of(event) for delta in self._event(each)]
        self.known = isinstance(event, dict) and api.is_event(event)
        if self.known:
            return self._event(event)
        if frame.is_error or read_error(event):
            self.ended = True
            return [Failed(event, error_object(event))]
        return [Other(None, event)]

    def _event(self, event: Json) -> list[Delta]:
        kind = event["type"]
        if (block := api.block_begun(event)) is not None:
            return self._begin(event, block)
        if kind in (api.BLOCK_DELTA, api.BLOCK_STOP):
            return self._block(event)
        if kind == api.MESSAGE_START and isinstance(message := event.get("message"), dict):
            self.model = string(message.get("model")) or self.model
            self.id = string(message.get("id")) or self.id
        if kind == api.MESSAGE_DELTA and (reason := api.stop_reason_in(event)):
            return [Finish(0, reason, event)]
        if kind == api.MESSAGE_STOP:
            self.ended = True
            return [Done(event)]
        return [Other(None, event)]

    def _begin(self, event: Json, block: Json) -> list[Delta]:
        """A block begins, perhaps with all that it has."""
        index, kind = api.index_of(event), string(block.get("type"))
        self._index = self._index + 1 if index is None else index
        known = _KINDS.get(kind, "other")
        self._part = part = Part(known, 0, self._index, begun=block)
        if known == "call":
            name, given = string(block.get("name")), api.given_in(block)
            return [CallBegin(part, string(block.get("id")), name, given, event)]
        if known == "other":
            part.type = kind
        text = api.text_in(event)
        begun: list[Delta] = [PartBegin(part, event)]
        return [*begun, Text(part, text[1])] if text is not None and text[1] else begun

    def _block(self, event: Json) -> list[Delta]:
        """More of a block, or its end."""
        if (text := api.text_in(event)) is not None:
            kind = _KINDS[text[0]]
            if self._part.kind != kind:  # without its beginning
                self._part = Part(kind, 0, self._index)
            return [Text(self._part, text[1])] if text[1] else []
        if not self._is_latest(event):
            return []
        part = self._part
        if event["type"] == api.BLOCK_STOP:
            self._part = Part("other")
            return [PartEnd(part, raw=event)]
        arguments = api.arguments_in(event)
        if part.kind == "call" and arguments:
            return [Arguments(part, arguments, event)]
        ends = api.delta_of(event).get("type") == api.SIGNATURE
        return [Other(part, event, ends_text=ends, text=arguments)]
