"""Anthropic's Messages API: its events, the types of its blocks, stop reasons, usage, errors.

Source: the types of anthropic-python and -node; what only other servers send says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ..wire.json_codec import Json, NotJson, array, dumps, loads, objects, string

MESSAGE_START = "message_start"
BLOCK_START = "content_block_start"
BLOCK_DELTA = "content_block_delta"
BLOCK_STOP = "content_block_stop"
MESSAGE_DELTA = "message_delta"
MESSAGE_STOP = "message_stop"
_EVENTS = frozenset(
    {MESSAGE_START, BLOCK_START, BLOCK_DELTA, BLOCK_STOP, MESSAGE_DELTA, MESSAGE_STOP}
)
TextKind = Literal["text", "thinking"]
TEXTS: dict[str, TextKind] = {"text": "text", "thinking": "thinking"}
"""The blocks that are a text of the model's, and the field that has it; their deltas are of the
types ``text_delta`` and ``thinking_delta``."""
CALL = "tool_use"
"""A block that the client runs; ``server_tool_use`` is run by the host."""
RESULT = "tool_result"
"""What a client's message says of a call."""
ARGUMENTS = "input_json_delta"
SIGNATURE = "signature_delta"

TOOL_USE = "tool_use"
"""The stop reason of a turn with calls."""
END_TURN = "end_turn"
CUT = "max_tokens"
STOP_SEQUENCE = "stop_sequence"


def is_event(value: Json) -> bool:
    """Whether an object of a stream is an event that only this API has."""
    return string(value.get("type")) in _EVENTS


def is_message(value: Json) -> bool:
    """Whether this is a whole reply."""
    return value.get("type") == "message" and isinstance(value.get("content"), list)


def index_of(event: Json) -> int | None:
    index = event.get("index")
    return index if type(index) is int else None


def delta_of(event: Json) -> Json:
    delta = event.get("delta")
    return delta if isinstance(delta, dict) else {}


def text_in(event: Json) -> tuple[TextKind, str] | None:
    """The kind and the text of an event that brings some; the start of a block may have its
    beginning."""
    holder = block_begun(event) or (delta_of(event) if event.get("type") == BLOCK_DELTA else {})
    kind = TEXTS.get(string(holder.get("type")).removesuffix("_delta"))
    text = holder.get(kind) if kind else None
    return (kind, text) if kind and isinstance(text, str) else None


def block_begun(event: Json) -> Json | None:
    block = event.get("content_block")
    return block if event.get("type") == BLOCK_START and isinstance(block, dict) else None


def arguments_in(event: Json) -> str:
    return string(delta_of(event).get("partial_json"))


def stop_reason_in(event: Json) -> str:
    return string(delta_of(event).get("stop_reason"))


def events_of(message: Json) -> Iterator[Json]:
    """The events by which a whole reply would be streamed."""
    yield {"type": MESSAGE_START, "message": {**message, "content": []}}
    for index, block in enumerate(array(message.get("content"))):
        if isinstance(block, dict):
            begun, deltas = _streamed(block)
            yield {"type": BLOCK_START, "index": index, "content_block": begun}
            for delta in deltas:
                yield {"type": BLOCK_DELTA, "index": index, "delta": delta}
            yield {"type": BLOCK_STOP, "index": index}
    ends = {name: message.get(name) for name in ("stop_reason", "stop_sequence")}
    yield {"type": MESSAGE_DELTA, "delta": ends, "usage": message.get("usage") or {}}
    yield {"type": MESSAGE_STOP}


def _streamed(block: Json) -> tuple[Json, list[Json]]:
    """How a block begins, and its deltas."""
    if (kind := TEXTS.get(string(block.get("type")))) and isinstance(block.get(kind), str):
        deltas: list[Json] = [{"type": f"{kind}_delta", kind: block[kind]}]
        begun = {**block, kind: ""}
        if signature := begun.get("signature"):
            deltas.append({"type": SIGNATURE, "signature": signature})
            begun["signature"] = ""
        return begun, deltas
    if block.get("type") == CALL:
        arguments = dumps(block.get("input") or {}).decode()
        return {**block, "input": {}}, [{"type": ARGUMENTS, "partial_json": arguments}]
    return block, []


def given_in(block: Json) -> str:
    """The arguments with which the block of a call begins, be they all."""
    return dumps(block["input"]).decode() if block.get("input") else ""


class Blocks:
    """The blocks of a reply, as its events bring them."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Json, dict[str, list[str]]]] = []
        """Each as it began, and the pieces of its fields."""
        self._latest: dict[int | None, dict[str, list[str]]] = {}
        """Those of the latest block of each index."""

    def feed(self, event: Json) -> None:
        index, begun = index_of(event), block_begun(event)
        if event.get("type") == BLOCK_DELTA and index not in self._latest:
            found = text_in(event)
            begun = {"type": found[0]} if found else {}
        if begun is not None:
            self._latest[index] = {}
            self._blocks.append((begun, self._latest[index]))
        if event.get("type") == BLOCK_DELTA:
            for name, value in delta_of(event).items():
                if name != "type" and isinstance(value, str):
                    self._latest[index].setdefault(name, []).append(value)

    @property
    def whole(self) -> list[Json]:
        """The blocks as a whole reply has them; the input of one that is no JSON is its text."""
        return [_joined(block, pieces) for block, pieces in self._blocks]


def _joined(block: Json, pieces: dict[str, list[str]]) -> Json:
    block = dict(block)
    for name, texts in pieces.items():
        text = "".join(texts)
        if name != "partial_json":
            block[name] = string(block.get(name)) + text
            continue
        try:
            block["input"] = loads(text or "{}")
        except NotJson:
            block["input"] = text
    return block


def blocks_of(holder: Json) -> list[Json]:
    """The content of a message, or of the output of a call, as blocks."""
    content = holder.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return objects(content)


def text_of(block: Json) -> str:
    """What a block of the user's says, be it the output of a call."""
    if block.get("type") == RESULT:
        return "".join(map(text_of, blocks_of(block)))
    return string(block.get("text"))


def calls_in(messages: object) -> Iterator[Json]:
    """The calls of a conversation."""
    for message in objects(messages):
        for block in objects(message.get("content")):
            if block.get("type") == CALL:
                yield block


def new_message(message_id: str, model: str, usage: Json) -> Json:
    """A message of which only the beginning is known."""
    head = {"id": message_id, "type": "message", "role": "assistant", "model": model}
    return {**head, "content": [], **ends(), "usage": usage}


def ends(stop_reason: str | None = None, stop_sequence: str | None = None) -> Json:
    """How a message ended; None: it has not."""
    return {"stop_reason": stop_reason, "stop_sequence": stop_sequence}


def error_body(message: str, kind: str = "api_error") -> Json:
    """An error: the body of an HTTP error, or an event."""
    return {"type": "error", "error": {"type": kind, "message": message}}
