"""Reads a reply, while it passes, for its facts: its model, calls, usage, error and end.

The stages feed it the frames that they have read, so a frame that only continues a text, or the
arguments of a call, costs next to nothing, and the JSON of any other is parsed once for all.  What
no stage has read (a reply that merely passed, a body from a file) is fed as bytes.  Chunks of chat
completions and events of Responses and Messages may come, and whole replies of all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ..notes import ReplyFacts, printable
from . import messages
from .chat_calls import Call, CallAssembler, CallDelta, elements, read_delta
from .chat_delta import choices, lone_text, texts
from .chat_text import reasoning
from .errors import ErrorObject, read_error, unlisted
from .json_codec import Json, dumps, objects, string
from .responses import DELTAS, call_fields, finish_of, is_event, is_response
from .sse import Document, Frame, is_event_stream, split
from .usage import Counts, counts, merged

MAX_TEXT = 4 * 1024 * 1024
"""Characters of a choice's calls, and of thoughts that are kept; of one with more nothing is."""
MAX_WHOLE = 24 * 1024 * 1024
"""Bytes of a body that is not streamed, to be parsed."""
MAX_FRAMES = 30_000
"""Frames at the start of a body that are read, in a tenth of a second."""
TAIL = 48 * 1024
"""Bytes at the end of a longer one that are read."""
UNNAMED = "error"
"""The code of an error that has none."""
MAX_MESSAGE = 8192
"""Characters of an error's message: gateways have the host's in a text of their own."""
_CALL = 1024
"""What a call counts beside its arguments."""
_CODE = re.compile(r"[A-Za-z][\w.\-]{0,63}\Z")
# JSON escapes the quotes of text, so none can look like this.
_DELTA = re.compile(rb'"type"\s*+:\s*+"response\.[a-z_.]++(?<=\.delta)"')
_OUTPUT_ITEM = "response.output_item"
_RUN_BY_HOST = frozenset(
    {"web_search", "file_search", "code_interpreter", "image_generation", "mcp"}
)
"""Kinds of calls that no client executes: a turn does not end with them."""


@dataclass(slots=True)
class ChoiceTurn:
    """What one choice has thought and called."""

    thoughts: list[str] = field(default_factory=list)
    """Only where they are kept."""
    assembler: CallAssembler = field(default_factory=CallAssembler)
    size: int = 0
    finish: str = ""
    ended: bool = False
    taken: bool = False

    @property
    def calls(self) -> list[Call]:
        return self.assembler.calls

    @property
    def reasoning(self) -> str:
        return "".join(self.thoughts) if self.size <= MAX_TEXT else ""

    @property
    def call_deltas(self) -> list[CallDelta]:
        """Each call as one delta."""
        return [CallDelta(None, call.id, call.name, call.arguments) for call in self.calls]

    @property
    def due(self) -> bool:
        """Whether it has ended in calls, with thoughts that are kept, and has not been taken."""
        return bool(self.ended and self.calls and self.thoughts and not self.taken)

    def think(self, text: str) -> None:
        self.size += len(text)
        if self.size <= MAX_TEXT:
            self.thoughts.append(text)

    def call(self, delta: CallDelta, *, whole: bool = False) -> None:
        self.size += len(delta.arguments)
        if self.size > MAX_TEXT:
            delta = replace(delta, arguments="")
        if self.assembler.take(delta, new=whole)[1]:
            self.size += _CALL


class ReplyReader:
    """Reads one side of a reply."""

    def __init__(self, *, keeps: bool = False) -> None:
        """`keeps`: the thoughts that led to calls are kept."""
        self._keeps = keeps
        self._choices: dict[int, ChoiceTurn] = {}
        self._items: dict[int | str, tuple[str, str, Any]] = {}
        """Of a Responses reply: each item as `call_fields`, by its output index, or by its id where
        there is none."""
        self._item_ids: set[str] = set()
        self._parsed = self._streamed = self._done = False
        self._in_call = False
        """Of a Messages reply: whether the latest block is a call that the client runs."""
        self._model = self._status = self._answered = ""
        self._usage: Counts | None = None
        self._counted: Json = {}
        """A later chunk with usage: some hosts count in every chunk."""
        self._error: ErrorObject | None = None
        self._before = self._size = 0
        """Bytes until the first token, before the latest frame and after its data."""
        self._first: int | None = None

    # A stream

    def frame(self, frame: Frame) -> bool:
        """An event; returns whether it ends a turn with calls whose thoughts are kept."""
        self._streamed = True
        if self._first is None:
            self._size = self._before + len(frame.raw.rstrip(b"\r\n"))
            self._before += len(frame.raw)
        only, counted = frame.only, frame.counted
        if not (self._parsed and (only or counted)):
            if self._first is not None and self._answered and _DELTA.search(frame.raw):
                return False
            if not isinstance(value := unlisted(frame.json), dict):
                self._done = self._done or frame.is_done
                return False
            found = lone_text(value) if self._parsed else None
            if found is None or found.only is None:
                return self._value(value)
            only, counted = found.only, value
        if counted is not None and counted.get("usage"):
            self._counted = counted
        if only is None:
            return False
        if self._first is None:
            self._first = self._size
        if isinstance(only, CallDelta):
            (self._choices.get(0) or self._turn(0)).call(only)
        elif only[0] == "reasoning":
            if self._keeps:
                self._turn(0).think(only[1])
        elif not self._answered and only[1].strip():
            self._answered = "text"
        return False

    def _value(self, value: Json) -> bool:
        """A chunk, an event, or a whole reply; returns whether it ends a turn as above."""
        where = (value, value.get("response"), *objects(value.get("choices")))
        error = next(filter(None, map(read_error, where)), None)
        usage, turns = counts(value), list[ChoiceTurn]()
        known, is_message = True, messages.is_message(value)
        if is_message or messages.is_event(value):
            turns = [self._turn(0)]
            for event in messages.events_of(value) if is_message else (value,):
                self._message_event(event, turns[0])
        elif is_event(value):
            known = string(value["type"]).startswith("response.")
            self._event(value)
        else:
            known = isinstance(value.get("choices"), list)
            turns = self._chunk(value)
        if usage is not None:
            self._usage, self._counted = merged(self._usage, usage), {}
        if error is not None or usage:
            self._error = error
        self._parsed = self._parsed or bool(error) or known
        return any(turn.due for turn in turns)

    def _token(self) -> None:
        """This frame has a token."""
        if self._first is None:
            self._first = self._size

    def _say(self, text: str, *, answers: bool) -> None:
        """This frame has a text, perhaps of the answer."""
        if text:
            self._token()
        if answers and text.strip():
            self._answered = self._answered or "text"

    # Of chat completions

    def _turn(self, index: int) -> ChoiceTurn:
        if index not in self._choices:
            self._choices[index] = ChoiceTurn()
        return self._choices[index]

    def _chunk(self, value: Json) -> list[ChoiceTurn]:
        """Returns the turns that it continues."""
        self._model, turns = self._model or string(value.get("model")), []
        for choice in choices(value):
            turn = self._turn(choice.index)
            turns.append(turn)
            if self._keeps and (text := reasoning(choice.delta)):
                turn.think(text)
            for kind, text in texts(choice.delta):
                self._say(text, answers=kind != "reasoning")
            for delta in map(read_delta, elements(choice.delta)):
                if delta is not None:
                    self._token()
                    turn.call(delta, whole=choice.whole)
            if reason := choice.fields.get("finish_reason"):
                turn.finish = string(reason) or turn.finish
                self._error = None
            turn.ended = turn.ended or choice.whole or bool(reason)
        return turns

    def turns(self, *, last: bool = False) -> list[ChoiceTurn]:
        """The turns with calls and thoughts that have ended since the last time; `last`: the reply
        has ended, and so have all."""
        ended = [t for t in self._choices.values() if (t.ended or last) and not t.taken]
        for turn in ended:
            turn.taken = True
        return [turn for turn in ended if turn.calls and turn.reasoning]

    # Of the Messages API

    def _message_event(self, event: Json, turn: ChoiceTurn) -> None:
        begun, index = messages.block_begun(event), messages.index_of(event)
        if isinstance(message := event.get("message"), dict):
            self._model = string(message.get("model")) or self._model
        call: CallDelta | None = None
        if begun is not None:
            self._in_call = begun.get("type") == messages.CALL
        if begun is not None and self._in_call:
            given = dumps(begun["input"]).decode() if begun.get("input") else ""
            call = CallDelta(index, string(begun.get("id")), string(begun.get("name")), given)
        elif (arguments := messages.arguments_in(event)) and self._in_call:
            call = CallDelta(index, "", "", arguments)
        kind, text = messages.text_in(event) or ("", "")
        self._say(text, answers=kind == "text")
        if kind == "thinking" and self._keeps:
            turn.think(text)
        if call is not None:
            turn.call(call, whole=bool(call.name))
            self._token()
        if reason := messages.stop_reason_in(event):
            turn.finish, turn.ended, self._error = reason, True, None

    # Of the Responses API

    def _event(self, event: Json) -> None:
        kind, delta = string(event.get("type")), event.get("delta")
        if isinstance(delta, str) and (text := DELTAS.get(kind)):
            self._say(delta, answers=text.kind in ("text", "refusal"))
        elif isinstance(item := event.get("item"), dict) and kind.startswith(_OUTPUT_ITEM):
            index, item_id = event.get("output_index"), string(item.get("id"))
            self._items[index if type(index) is int else item_id] = call_fields(item)
            self._item_ids |= {item_id} - {""}
            self._answer(item)
            if string(item.get("type")).endswith("call"):
                self._token()
        elif isinstance(response := event.get("response"), dict):
            self._response(response)
            if self._status:
                self._error = None

    def _response(self, response: Json) -> None:
        """A snapshot; its output counts for items without events."""
        self._model = string(response.get("model")) or self._model
        self._status = finish_of(response) or self._status
        for index, item in enumerate(objects(response.get("output"))):
            if string(item.get("id")) not in self._item_ids:
                self._items[index] = call_fields(item)
            self._answer(item)

    def _answer(self, item: Json) -> None:
        kind = string(item.get("type"))
        if kind == "compaction":
            self._answered = self._answered or kind
        elif kind != "reasoning" and not kind.endswith("_call"):
            for part in messages.blocks_of(item):
                if (string(part.get("text")) + string(part.get("refusal"))).strip():
                    self._answered = self._answered or "text"

    # A whole reply

    def document(self, body: bytes) -> None:
        """A body that is no event stream."""
        value = unlisted(Document(body).json) if len(body) <= MAX_WHOLE else None
        if isinstance(value, dict):
            self._size = len(body)
            self.reply(value)

    def reply(self, value: Json) -> None:
        """The value of a whole reply."""
        whole = is_response(value)
        self._value({"type": "response.completed", "response": value} if whole else value)
        self._parsed = whole or bool(self._error or self._choices)
        self._first = self._size

    # What was read

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Name and arguments of each function call; none of more than can be kept."""
        turns = [turn for _, turn in sorted(self._choices.items()) if turn.size <= MAX_TEXT]
        found = [(call.name, call.arguments) for turn in turns for call in turn.calls]
        return found + [
            (name, string(arguments))
            for kind, name, arguments in self._items.values()
            if kind == "function"
        ]

    @property
    def facts(self) -> ReplyFacts:
        choices = [turn for _, turn in sorted(self._choices.items())]
        names = [call.name for turn in choices for call in turn.calls]
        names += [name for kind, name, _ in self._items.values() if kind not in _RUN_BY_HOST]
        usage = counts(self._counted) or self._usage
        finishes = tuple(filter(None, [*(turn.finish for turn in choices), self._status]))
        return ReplyFacts(
            parsed=self._parsed,
            model=printable(self._model),
            calls=tuple(printable(name) for name in names if name),
            input_tokens=usage.input if usage else None,
            output_tokens=usage.output if usage else None,
            first_token=self._first,
            error_code=_code(self._error) if self._error else "",
            error_message=self._error.message[:MAX_MESSAGE] if self._error else "",
            finishes=finishes,
            answered=self._answered,
            early=self._streamed and self._parsed and not (finishes or self._done),
        )


class TurnReader:
    """Reads both sides of a reply: what the upstream sent, and what the client receives."""

    def __init__(self, *, keeps: bool = False) -> None:
        """`keeps`: see `ReplyReader`; of what the client receives."""
        self._keeps = keeps
        self.upstream = self.client = ReplyReader(keeps=keeps)
        """One until the client receives something else than came."""
        self.fault: Exception | None = None
        self.stopped = False
        """Whether the rest of the reply passes unread."""
        self._begun = self._upstream_ended = False

    @property
    def knows(self) -> bool:
        """Whether the whole reply has been read."""
        return self._begun and not self.stopped and self.fault is None

    def take(self, frame: Frame | None, sent: Sequence[Frame]) -> int | None:
        """`sent` was sent for a frame of the upstream, or for its end.  Returns which of them ends
        a turn with calls whose thoughts are kept.  A fault here changes nothing for the client."""
        if self.fault is not None or (frame is None and not sent):
            return None
        self._begun = True
        ends = None
        try:
            if self.upstream is self.client:
                if len(sent) == 1 and sent[0] is frame and not self._upstream_ended:
                    return 0 if self.client.frame(frame) else None
                self.client = deepcopy(self.upstream)
            if frame is not None and not self._upstream_ended:
                self.upstream.frame(frame)
            for at, each in enumerate(sent):
                if self.client.frame(each) and ends is None:
                    ends = at
        except Exception as fault:
            self.fault = fault
            return None
        return ends

    def documents(self, received: bytes, sent: bytes) -> None:
        """The reply is no event stream."""
        self.upstream = self.client = read_reply(received, keeps=self._keeps)
        if sent != received:
            self.client = read_reply(sent, keeps=self._keeps)
        self._begun = True

    def ended(self, response: Json) -> None:
        """What the client received is this response."""
        try:
            self.client = ReplyReader()
            self.client.reply(response)
        except Exception as fault:
            self.fault = fault

    def end_upstream(self) -> None:
        """What comes is ours."""
        self._upstream_ended = True


def read_reply(body: bytes, *, keeps: bool = False) -> ReplyReader:
    """The facts of a body, perhaps unfinished, or without its middle."""
    reader = ReplyReader(keeps=keeps)
    if not is_event_stream(body):
        reader.document(body)
        return reader
    read = 0
    for frame in islice(split(body), MAX_FRAMES):
        reader.frame(frame)
        read += len(frame.raw)
    rest = body[read:]
    # The last event of a response is as long as the response.
    start = rest.rfind(b"\n\n", 0, max(0, len(rest) - TAIL))
    for frame in split(rest[start + 2 :] if start >= 0 else rest[-TAIL:]):
        reader.frame(frame)
    return reader


def _code(error: ErrorObject) -> str:
    """Not its message: upstreams repeat in it what they were sent, credentials too."""
    unnamed = f"{UNNAMED} {error.status}" if error.status else UNNAMED
    return next(filter(_CODE.match, (error.code, error.type)), unnamed)
