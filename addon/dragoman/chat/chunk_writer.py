"""The one class that makes the chunks of a new chat reply: for a client whose host speaks another
API, for the self-test and the demonstration.

What is read from a chat host leaves by `writer.py`, in the chunks in which it came.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..reply.event_queue import EventQueue
from ..reply.words import Kind
from ..wire.json_codec import Json
from ..wire.sse import DONE, encode_chunk

_FIELDS: dict[Kind, str] = {
    "text": "content",
    "reasoning": "reasoning_content",
    "refusal": "refusal",
}


class ChunkWriter:
    """Writes one reply, in one choice, as `events`."""

    def __init__(self, reply_id: str, created: int, model: str) -> None:
        self.events = EventQueue()
        self._head: Json = {"id": reply_id, "object": "chat.completion.chunk", "created": created}
        self._head |= {"model": model}
        self._message: Json = {"role": "assistant", "content": None}
        self._calls: list[Json] = []
        self._finish: str | None = None
        self._usage: Json = {}

    @property
    def completion(self) -> Json:
        """The reply so far, as the body of one that is not streamed."""
        message = self._message
        if self._calls:
            message = message | {"tool_calls": self._calls}
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        head = self._head | {"object": "chat.completion", "choices": [choice]}
        return head | ({"usage": self._usage} if self._usage else {})

    def start(self) -> None:
        self._send({"role": "assistant", "content": ""})

    def text(self, kind: Kind, text: str) -> None:
        if name := _FIELDS.get(kind):
            self._message[name] = (self._message.get(name) or "") + text
            self._send({name: text})

    def annotate(self, annotations: Sequence[Json]) -> None:
        self._message.setdefault("annotations", []).extend(annotations)
        self._send({"annotations": annotations})

    def begin_call(self, name: str, call_id: str) -> int:
        """Returns its index; without a `call_id` its id is made of that."""
        index = len(self._calls)
        function = {"name": name, "arguments": ""}
        call = {"id": call_id or f"call_{index}", "type": "function", "function": function}
        self._calls.append(call)
        self._send({"tool_calls": [{"index": index, **call}]})
        return index

    def arguments(self, index: int, text: str) -> None:
        self._calls[index]["function"]["arguments"] += text
        self._send({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def end(self, finish: str, usage: Json | None = None) -> None:
        """The finish reason, the usage in a chunk of its own, and the end of the stream."""
        self._finish = finish
        self._send({}, finish)
        if usage is not None:
            self._usage = usage
            self._write({"choices": [], "usage": usage})
        self.events.send([DONE])

    def _send(self, delta: Json, finish: str | None = None) -> None:
        self._write({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _write(self, members: Json) -> None:
        self.events.send([encode_chunk(self._head | members)])
